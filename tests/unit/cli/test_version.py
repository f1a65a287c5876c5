from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import goqueue
from goqueue.cli.root import app
from goqueue.records import IMPLEMENTATION
from goqueue.runtime.build_info import build_info

HEAVY = {
    "aiokafka",
    "asyncio",
    "goqueue.broker",
    "goqueue.cli.commands.schema",
    "goqueue.server",
    "goqueue.storage",
    "grpc",
    "httpx",
    "pyarrow",
    "rich.progress",
    "yaml",
}
NOBODY = "http://127.0.0.1:1"


def version(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["version", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_can_read_the_version_and_the_codec_in_use(home: Path, form: str, parse) -> None:
    fields = parse(version("--client", "-o", form))["client"]
    assert fields["version"] == goqueue.__version__
    assert fields["record_codec"] == IMPLEMENTATION
    assert fields["python"].endswith(sys.version.split()[0])
    assert fields["commit"] == build_info().commit
    assert set(fields) == {"version", "commit", "built", "record_codec", "python", "platform"}


def test_people_get_a_line_for_each_fact(home: Path) -> None:
    lines = version("--client").splitlines()
    assert lines[0].split() == ["client", "version", goqueue.__version__]
    assert lines[1].split() == ["client", "commit", build_info().commit]
    assert lines[3].split() == ["client", "record", "codec", IMPLEMENTATION]


def test_a_server_that_does_not_answer_is_no_reason_to_fail(home: Path) -> None:
    assert version("-s", NOBODY).splitlines()[-1].split()[:3] == ["server", "no", "answer"]
    assert json.loads(version("-s", NOBODY, "-o", "json"))["server"] is None


def test_an_unknown_output_form_is_refused() -> None:
    result = CliRunner().invoke(app, ["version", "-o", "xml"])
    assert result.exit_code == 2
    assert "yaml" in result.stderr


def test_global_options_may_stand_before_the_command_or_after_it(home: Path) -> None:
    before = CliRunner().invoke(app, ["-o", "json", "-s", NOBODY, "version"])
    after = CliRunner().invoke(app, ["version", "-o", "json", "-s", NOBODY])
    both = CliRunner().invoke(app, ["-o", "yaml", "-s", NOBODY, "version", "-o", "json"])
    assert before.exit_code == 0
    assert before.stdout == after.stdout == both.stdout


def test_the_installed_command_answers_in_a_process_of_its_own(home: Path) -> None:
    command = Path(sys.executable).with_name("goqueue")
    environment = {**os.environ, "GOQUEUE_SERVER": NOBODY}
    done = subprocess.run(
        [command, "version"], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == version("-s", NOBODY)  # which goes through Typer
    assert done.stderr == ""


def test_a_server_that_makes_no_sense_ends_the_short_way_with_a_line_too(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "goqueue.cli", "version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOQUEUE_SERVER": "ftp://somewhere"},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("goqueue: ")
    assert "ftp://somewhere" in done.stderr


def test_the_short_way_does_not_wait_for_typer(home: Path) -> None:
    script = (
        "import sys; from goqueue.cli import main\n"
        "sys.argv[1:] = ['version', '--client']; main(); print('loaded:', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    text, _, loaded = done.stdout.partition("loaded:")
    assert text == version("--client")
    assert {"typer", "rich", *HEAVY} & set(loaded.split()) == set()


@pytest.mark.parametrize(
    "arguments", [["version", "-o", "json"], ["topic", "list"], ["group", "list"]]
)
def test_a_short_command_imports_nothing_heavy(home: Path, arguments: list[str]) -> None:
    script = (
        "import sys; from goqueue.cli.root import app\n"
        f"try: app({[*arguments, '-s', NOBODY]!r}, standalone_mode=False)\n"
        "finally: print('loaded:', *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    _, found, loaded = done.stderr.partition("loaded:")
    assert found
    assert HEAVY & set(loaded.split()) == set()
