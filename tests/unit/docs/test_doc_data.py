"""Blocks of the documentation that are neither commands nor output: settings, pipelines, JSON.

Each is taken by the reader that reads it in earnest.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
import yaml

from goqueue.cli.root import app
from goqueue.server.config_load import load_config
from goqueue.spark.pipelines.files.loading import load_file
from support.doc_pages import DATA, OUTPUT, RUNNABLE, commands_of, pages

if TYPE_CHECKING:
    from support.doc_pages import Block

ROOT_COMMAND: Any = typer.main.get_command(app)
BLOCKS = [
    (pytest.param(block, id=f"{page.name}:{block.line}"), block)
    for page in pages()
    for block in page.blocks
]


def kind_of(block: Block) -> str:
    if block.language != "yaml":
        return block.language
    keys = yaml.safe_load(block.text).keys()
    if "scrape_configs" in keys:
        return "prometheus"
    return "pipeline" if keys & {"sources", "name"} else "configuration"


def blocks(kind: str) -> list[object]:
    """Those of one kind; a block with a title is a file that the commands of its page use."""
    return [each for each, block in BLOCKS if not block.title and kind_of(block) == kind]


def test_a_block_is_output_or_is_run_or_read_or_says_why_not() -> None:
    known = {OUTPUT, *RUNNABLE, *DATA}
    every = [block for page in pages() for block in page.blocks]
    unknown = [block for block in every if block.language not in known and not block.reason]
    assert unknown == []


def test_every_fence_names_its_language() -> None:
    for page in pages():
        fences = re.findall(r"^ *```(.*)$", page.path.read_text(encoding="utf-8"), re.MULTILINE)
        assert all(fences[::2]), page.name
        assert not any(fences[1::2]), page.name
        assert len(page.blocks) * 2 == len(fences), page.name


@pytest.mark.parametrize("block", blocks("json"))
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text)


@pytest.mark.parametrize("block", blocks("configuration"))
def test_a_server_takes_the_configuration(block: Block, tmp_path: Path) -> None:
    """With files where it names certificates, keys and secrets."""

    def placed(name: re.Match[str]) -> str:
        file = tmp_path / Path(name[0]).name
        file.write_text("a secret of more than thirty-two characters\n")
        file.chmod(0o600)
        return str(file)

    text = re.sub(r"[\w/.-]+\.(?:pem|crt|key|secret)\b", placed, block.text)
    text = text.replace("/var/lib/goqueue", str(tmp_path / "data"))
    file = tmp_path / "goqueue.yaml"
    file.write_text(text)
    given = yaml.safe_load(text)
    config = load_config(["--config", str(file)], {})
    named = {f"{section}.{name}" for section, values in given.items() for name in values}
    assert named <= config.sources.keys()


@pytest.mark.parametrize("block", blocks("pipeline"))
def test_a_pipeline_is_sound(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(block.text)
    for module, function in re.findall(r"(\w+)\.py:(\w+)", block.text):
        (tmp_path / f"{module}.py").write_text(f"def {function}(rows):\n    return rows\n")
    loaded = load_file(file, {})
    assert [problem for problem in loaded.problems if not problem.is_warning] == []
    assert loaded.pipeline is not None


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("block", blocks("prometheus"))
def test_prometheus_takes_the_configuration(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "prometheus.yml"
    (tmp_path / "file").write_text("")
    file.write_text(re.sub(r"/etc/prometheus/[\w.-]+", str(tmp_path / "file"), block.text))
    command = ["promtool", "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def left_out() -> list[tuple[str, Block]]:
    return [(page.name, block) for page in pages() for block in page.blocks if block.is_left_out]


def test_python_that_is_not_run_is_python() -> None:
    found = [(name, block) for name, block in left_out() if block.language == "python"]
    assert len(found) > 10
    for name, block in found:
        compile(block.text, f"{name}:{block.line}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_commands_that_are_not_run_exist_with_their_options() -> None:
    """What cannot be started here is at least spelt as the command line spells it."""
    lines = [
        (f"{name}:{block.line}", line)
        for name, block in left_out()
        if block.language in {"sh", "bash", "console"}
        for line in commands_of(block).replace("\\\n", " ").splitlines()
        if line.startswith("goqueue ")
    ]
    assert len(lines) > 30
    assert [f"{place}: {wrong}" for place, line in lines if (wrong := unknown_in(line))] == []


def unknown_in(line: str) -> str:
    """The first command or option of a line that the command line does not have."""
    words = shlex.split(line, comments=True)[1:]
    command = ROOT_COMMAND
    while words and hasattr(command, "commands"):
        name = words.pop(0)
        if name == "server":  # its flags are the settings, which have a page of their own
            return ""
        if name not in command.commands:
            return name
        command = command.commands[name]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    for word in words:
        if word in {"|", "<", ">", "&", ">>"}:
            break
        option = word.partition("=")[0]
        if option.startswith("--") and option not in known:
            return option
    return ""
