"""`goqueue schema` from a file to a deleted subject, and what it says when something is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run

OLD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
WIDER = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'
OTHER = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Schemas by their names."""
    made = {}
    for name, text in {"old.avsc": OLD, "wider.avsc": WIDER, "other.avsc": OTHER}.items():
        (tmp_path / name).write_text(text)
        made[name.partition(".")[0]] = str(tmp_path / name)
    return made


def test_a_subject_lives_from_its_first_schema_to_its_last(
    goqueue_broker: Broker, run: Run, files: dict[str, str]
) -> None:
    subject = goqueue_broker.unique_name("subject")
    assert "`goqueue schema register" in run("schema", "list", "--prefix", subject).stderr
    run("schema", "register", subject, files["old"])
    assert run("schema", "get", subject, "--raw").stdout.strip() == OLD
    refused = run("schema", "register", subject, files["other"], code=1)
    assert "TYPE_MISMATCH at /fields/0/type" in refused.stderr
    assert "TYPE_MISMATCH" in run("schema", "check", subject, files["other"], code=1).stdout
    run("schema", "check", subject, files["wider"], "-v", "1")
    run("schema", "register", subject, files["wider"])
    shown = run("schema", "versions", subject, "-o", "json")
    assert [each["version"] for each in json.loads(shown.stdout)] == [1, 2]
    asked = run("schema", "delete", subject, "-v", "2", code=1, input="no\n")
    assert "2 of subject" in asked.stderr
    run("schema", "delete", subject, "-v", "2", "-f")
    run("schema", "delete", subject, "-f")
    assert subject not in run("schema", "list").stdout
    assert subject in run("schema", "list", "--deleted").stdout
    run("schema", "delete", subject, "--permanent", "-f")
    assert "not found" in run("schema", "get", subject, code=1).stderr


def test_levels_and_modes_are_shown_set_and_taken_back(goqueue_broker: Broker, run: Run) -> None:
    subject = goqueue_broker.unique_name("subject")
    for command, value, default in (
        ("config", "NONE", "BACKWARD"),
        ("mode", "READONLY", "READWRITE"),
    ):
        assert default in run("schema", command, subject).stdout
        assert value in run("schema", command, subject, "--set", value).stdout
        assert default in run("schema", command).stdout
        assert default in run("schema", command, subject, "--unset").stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("get", 2, "expected a subject or --id"),
        ("get none", 1, "Subject 'none' not found"),
        ("get --id 99999", 1, "Schema 99999 not found"),
        ("register s missing.avsc", 1, "cannot be read"),
        ("register s schema.txt", 2, "is unknown: give --type"),
        ("config s --set SOME", 1, "Invalid compatibility level"),
        ("config s --set NONE --unset", 2, "give only one"),
        ("versions none", 1, "Subject 'none' not found"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run: Run, words: str, code: int, said: str) -> None:
    done = run("schema", *words.split(), code=code)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_references_are_given_by_name(goqueue_broker: Broker, run: Run, tmp_path: Path) -> None:
    item, order = (goqueue_broker.unique_name(each) for each in ("item", "order"))
    (tmp_path / "i.proto").write_text('syntax = "proto3"; package i; message I { int32 x = 1; }')
    (tmp_path / "o.proto").write_text(
        'syntax = "proto3"; import "i.proto"; message O { i.I i = 1; }'
    )
    run("schema", "register", item, str(tmp_path / "i.proto"))
    run("schema", "register", order, str(tmp_path / "o.proto"), "--reference", f"i.proto={item}:1")
    file = str(tmp_path / "o.proto")
    bad = run("schema", "register", order, file, "--reference", "x", code=2)
    assert "expected NAME=SUBJECT:N" in bad.stderr
