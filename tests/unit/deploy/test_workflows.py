"""The workflows of hosted CI: their steps are verbs and scripts that run on a laptop too."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".github/workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
VERBS = set(re.findall(r"^([\w./$()-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def commands() -> Iterator[str]:
    for workflow in WORKFLOWS:
        for job in jobs(workflow).values():
            yield from (step["run"] for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_says_what_it_may_do_and_how_long_its_jobs_take(workflow: Path) -> None:
    assert "permissions" in yaml.safe_load(workflow.read_text())
    found = jobs(workflow)
    assert all(set(needed_by(job)) <= found.keys() for job in found.values())
    assert all(job.get("timeout-minutes", 360) <= 240 for job in found.values())


def needed_by(job: dict[str, Any]) -> list[str]:
    needs = job.get("needs", [])
    return [needs] if isinstance(needs, str) else list(needs)


def test_scripts_and_verbs_that_workflows_call_exist() -> None:
    scripts = {each for command in commands() for each in re.findall(r"\.ci/[\w-]+", command)}
    assert scripts >= {".ci/run", ".ci/tools", ".ci/security", ".ci/proto-check", ".ci/bench-check"}
    for script in scripts:
        assert os.access(ROOT / script, os.X_OK) or script == ".ci/run", script
    verbs = {each for command in commands() for each in re.findall(r"\bmake ([a-z-]+)", command)}
    assert verbs
    assert verbs <= VERBS


def test_every_step_with_a_shell_is_a_verb_or_a_script_that_runs_anywhere() -> None:
    own = re.compile(r"(sudo (--\S+ )*)?(bash )?(\.ci/[\w-]+|make [\w./${} -]+)")
    assert [command for command in commands() if not own.match(command)] == []


def test_verbs_of_a_matrix_exist() -> None:
    verbs = jobs(FOLDER / "nightly.yml")["clusters"]["strategy"]["matrix"]["verb"]
    assert set(verbs) <= VERBS


def test_a_release_without_one_of_its_files_is_not_published(tmp_path: Path) -> None:
    notes, wheel = tmp_path / "notes.md", tmp_path / "goqueue.whl"
    notes.write_text("- one thing\n")
    command = [str(ROOT / ".ci/publish"), "--dry-run", "v0.2.0", str(notes), str(wheel)]
    environment = {**os.environ, "GITHUB_REPOSITORY": "goqueue/goqueue"}

    def publish() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    assert "goqueue.whl is missing" in publish().stderr
    wheel.write_bytes(b"wheel")
    done = publish()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gh release create v0.2.0 --repo goqueue/goqueue --notes-file ")
    assert str(wheel) in done.stdout


def test_each_machine_of_a_release_builds_wheels_for_itself_alone() -> None:
    """Two that build the same wheel would overwrite each other's, and others need emulation."""
    machines = jobs(FOLDER / "release.yml")["wheels"]["strategy"]["matrix"]["machine"]
    assert machines == ["ubuntu-latest", "ubuntu-24.04-arm", "macos-15-intel", "macos-latest"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert settings["archs"] == ["auto64"]
    assert "archs" not in settings["linux"] | settings.get("macos", {})
    assert "goqueue.records._native" in settings["test-command"]  # which setup.py may leave out


def test_code_of_every_language_is_analysed() -> None:
    languages = jobs(FOLDER / "security.yml")["code"]["strategy"]["matrix"]["language"]
    assert languages == ["actions", "c-cpp", "javascript-typescript", "python"]


def contract(number: int = 1, kind: int = 9, *, field: str = "topic") -> FileDescriptorSet:
    file = FileDescriptorProto(name="a.proto", package="a")
    file.message_type.add(name="Sent").field.add(name=field, number=number, type=kind)
    file.enum_type.add(name="Kind").value.add(name="PLAIN", number=0)
    file.service.add(name="Queue").method.add(
        name="Send", input_type=".a.Sent", output_type=".a.Sent"
    )
    return FileDescriptorSet(file=[file])


@pytest.mark.parametrize(
    "change", [{"number": 2}, {"kind": 5}, {"field": "topics"}], ids=["number", "type", "name"]
)
def test_a_changed_field_of_the_contract_is_named(change: dict[str, Any]) -> None:
    compare = script()
    assert compare(contract(), contract()) == []
    (found,) = compare(contract(), contract(**change))
    assert found.startswith("a.Sent.topic")


def test_a_method_that_is_gone_is_named_and_a_new_one_is_not() -> None:
    fewer = contract()
    fewer.file[0].ClearField("service")
    assert len(script()(contract(), fewer)) == 1
    assert script()(fewer, contract()) == []


def script() -> Callable[[FileDescriptorSet, FileDescriptorSet], list[str]]:
    names = runpy.run_path(str(ROOT / ".ci/proto_breaking.py"))
    return lambda before, now: names["broken"](
        names["contract_of"](before), names["contract_of"](now)
    )
