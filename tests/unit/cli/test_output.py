from __future__ import annotations

import pytest
import typer

from goqueue.cli.output import Format, emit, fail


def test_a_list_becomes_a_table_with_a_row_for_each_thing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit([{"name": "[a]", "size": 1}, {"name": "b", "size": 20}], Format.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if "─" not in line and line.strip()] == [
        ["name", "size"],
        ["[a]", "1"],
        ["b", "20"],
    ]


def test_an_empty_list_is_valid_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    for form, expected in ((Format.JSON, "[]"), (Format.YAML, "[]"), (Format.TABLE, "")):
        emit([], form)
        assert capsys.readouterr().out.strip() == expected


def test_a_failure_goes_to_standard_error_with_its_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as failure:
        fail("the disk is on fire", exit_code=3)
    assert failure.value.exit_code == 3
    printed = capsys.readouterr()
    assert printed.err == "goqueue: the disk is on fire\n"
    assert printed.out == ""
