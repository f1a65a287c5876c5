from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import goqueue
from goqueue.cli.commands import app
from goqueue.records import IMPLEMENTATION

HEAVY = {"aiokafka", "asyncio", "pyarrow", "rich.progress", "rich.traceback", "yaml"}


def version(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["version", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_can_read_the_version_and_the_codec_in_use(form: str, parse) -> None:
    fields = parse(version("-o", form))
    assert fields["goqueue"] == goqueue.__version__
    assert fields["record codec"] == IMPLEMENTATION
    assert fields["python"].endswith(sys.version.split()[0])
    assert set(fields) == {"goqueue", "record codec", "python", "platform"}


def test_people_get_a_line_for_each_fact() -> None:
    lines = version().splitlines()
    assert lines[0].split() == ["goqueue", goqueue.__version__]
    assert lines[1].split() == ["record", "codec", IMPLEMENTATION]


def test_an_unknown_output_form_is_refused() -> None:
    result = CliRunner().invoke(app, ["version", "-o", "xml"])
    assert result.exit_code == 2
    assert "yaml" in result.stderr


def test_the_installed_command_answers_in_a_process_of_its_own() -> None:
    command = Path(sys.executable).with_name("goqueue")
    done = subprocess.run([command, "version"], capture_output=True, text=True, check=True)
    assert goqueue.__version__ in done.stdout
    assert done.stderr == ""


def test_showing_the_version_imports_nothing_heavy() -> None:
    script = (
        "import sys; from goqueue.cli.commands import app\n"
        "app(['version', '-o', 'json'], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert HEAVY & set(done.stderr.split()) == set()
