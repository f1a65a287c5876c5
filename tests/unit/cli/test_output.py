from __future__ import annotations

import json

import pytest
import typer
import yaml
from hypothesis import given, strategies as st

from goqueue.cli.calls import Call, Globals
from goqueue.cli.output import Format, emit, emit_line, fail, printable


def test_a_list_becomes_a_table_with_a_row_for_each_thing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit([{"name": "[a]", "size": 1}, {"name": "b", "size": 20}], Format.TABLE)
    assert capsys.readouterr().out.splitlines() == ["name  size", "[a]      1", "b       20"]


def test_a_thing_becomes_a_line_a_field_with_its_lists_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit(
        {"name": "t", "well": True, "of": None, "parts": [{"n": 0}], "tags": ["a", "b"]},
        Format.TABLE,
    )
    assert capsys.readouterr().out.splitlines() == [
        "name  t",
        "well  yes",
        "of    -",
        "tags  a, b",
        "",
        "parts:",
        "n",
        "0",
    ]


def test_an_empty_list_is_valid_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    for form, expected in ((Format.JSON, "[]"), (Format.YAML, "[]"), (Format.TABLE, "")):
        emit([], form)
        assert capsys.readouterr().out.strip() == expected


@pytest.mark.parametrize(("form", "said"), [(Format.TABLE, "no such topics\n"), (Format.JSON, "")])
def test_an_empty_table_says_so_on_standard_error(
    capsys: pytest.CaptureFixture[str], form: Format, said: str
) -> None:
    Call(Globals(output=form)).show([], empty="no such topics")
    assert capsys.readouterr().err == said


def test_things_that_come_one_by_one_are_lines_or_documents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    things = [{"a": "one\ntwo"}, {"a": "ü"}]
    for form in (Format.JSON, Format.YAML):
        for thing in things:
            emit_line(thing, form)
        out = capsys.readouterr().out
        if form is Format.JSON:
            assert [json.loads(line) for line in out.splitlines()] == things
        else:
            assert list(yaml.safe_load_all(out)) == things


def test_a_failure_goes_to_standard_error_with_its_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as failure:
        fail("the disk is on fire", exit_code=3)
    assert failure.value.exit_code == 3
    printed = capsys.readouterr()
    assert printed.err == "goqueue: the disk is on fire\n"
    assert printed.out == ""


@given(st.text())
def test_nothing_that_a_terminal_would_act_on_is_printed(text: str) -> None:
    assert all(each.isprintable() or each in "\n\t" for each in printable(text))
    if text.isprintable():
        assert printable(text) == text


def test_what_a_terminal_would_act_on_is_shown_instead() -> None:
    assert printable("\x1b[2Jred\x07") == "\\x1b[2Jred\\x07"
