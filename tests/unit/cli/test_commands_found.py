"""Commands are found by the names of their files, and know the shapes of the API and no broker."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer.main
from typer.testing import CliRunner

from goqueue.cli import commands
from goqueue.cli.root import app
from goqueue.cli.summaries import SUMMARIES
from goqueue.protocols import http

if TYPE_CHECKING:
    import pytest

CLI = Path(commands.__file__).parents[1]
SHAPES = sorted(Path(http.__file__).parent.glob("*/*shapes.py"))
GREETING = """
import typer

from goqueue.cli.calls import Call, command

app = typer.Typer(no_args_is_help=True, help="Say something.")


@command(app, "hello")
def say_hello(call: Call) -> None:
    \"\"\"Say hello.\"\"\"
    call.show({"hello": "world"})


@command(app, "bye")
def say_goodbye(call: Call) -> None:
    \"\"\"Say goodbye.\"\"\"
"""


def test_a_new_file_is_a_new_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "greet.py").write_text(GREETING)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    assert "Say something." in CliRunner().invoke(app, ["--help"]).output
    result = CliRunner().invoke(app, ["greet", "hello", "-o", "json"])
    assert result.exit_code == 0, result.output
    assert '"hello": "world"' in result.stdout


def test_every_file_is_a_command_or_a_part_of_one() -> None:
    root: Any = typer.main.get_command(app)
    files = {path.stem for path in (CLI / "commands").rglob("*.py")} - {"__init__"}
    assert {name for name in files if "_" not in name} == set(root.commands)
    assert {name.partition("_")[0] for name in files if "_" in name} <= set(root.commands)


def test_a_mistyped_command_is_answered_with_those_like_it() -> None:
    result = CliRunner().invoke(app, ["topics"])
    assert result.exit_code == 2
    assert "topic" in result.stderr


def test_commands_know_the_shapes_of_the_api_and_nothing_behind_them() -> None:
    known = {
        node.module
        for path in CLI.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("goqueue.protocols")
    }
    assert known
    assert {each for each in known if not each.endswith("_shapes")} == set()


def test_shapes_load_no_broker() -> None:
    names = [f"goqueue.protocols.http.{path.parent.name}.{path.stem}" for path in SHAPES]
    script = f"import sys\nimport {', '.join(names)}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    parts = {name.split(".")[1] for name in done.stdout.split() if name.startswith("goqueue.")}
    assert parts & {"broker", "cluster", "records", "server", "storage"} == set()


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    root: Any = typer.main.get_command(app)
    own = {name: each.short_help or each.help for name, each in root.commands.items()}
    assert {name: text.partition("\n\n")[0] for name, text in own.items()} == SUMMARIES


def test_the_help_imports_no_command() -> None:
    script = (
        "import sys; from goqueue.cli.root import app\n"
        "app(['--help'], standalone_mode=False); print('loaded:', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    text, _, loaded = done.stdout.partition("loaded:")
    assert "Create, show and change topics." in text
    heavy = {"asyncio", "goqueue.cli.commands.topic", "markdown_it", "msgspec", "pydantic"}
    assert heavy & set(loaded.split()) == set()
