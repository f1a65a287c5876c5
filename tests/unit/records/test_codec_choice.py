"""Which codec is in use, and what a user is told when it cannot be the one asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from goqueue import records
from goqueue.records.choice import choose, load
from goqueue.records.record import Record


def test_the_compiled_codec_is_the_first_choice() -> None:
    assert choose(None).name == "native"
    assert choose("").name == "native"


def test_either_codec_can_be_asked_for() -> None:
    assert choose("reference").name == "reference"
    assert choose("native").name == "native"


def test_another_codec_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="GOQUEUE_CODEC=fast"):
        choose("fast")


def test_without_the_compiled_codec_the_readable_one_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "goqueue.records._native", None)
    codec = choose(None)
    assert codec.name == "reference"
    assert codec.decode_rows(codec.encode([Record(0, 0, None, b"v")])) == [Record(0, 0, None, b"v")]


def test_asking_for_a_codec_that_was_not_built_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "goqueue.records._native", None)
    with pytest.raises(ImportError, match="install with a C compiler"):
        load("native")


def test_a_compiled_codec_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "goqueue.records._native", ModuleType("stale"))
    assert choose(None).name == "reference"
    with pytest.raises(ImportError, match="another version"):
        load("native")


@pytest.mark.parametrize("name", ["reference", "native"])
def test_the_environment_decides(name: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", "import goqueue.records as r; print(r.IMPLEMENTATION)"],
        env=os.environ | {"GOQUEUE_CODEC": name},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == name


def test_importing_records_does_not_import_pyarrow() -> None:
    code = "import sys, goqueue.records; print('pyarrow' in sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == "False"


def test_everything_the_package_names_is_there() -> None:
    assert all(hasattr(records, name) for name in records.__all__)
