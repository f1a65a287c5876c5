"""Numbers of tables as people read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from goqueue.cli.output import Format, emit
from goqueue.cli.people import for_people
from goqueue.cli.times import show_age

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"size_bytes": 1_258_291}, {"size": "1.2 MB"}),
        ({"uptime_s": 10_800}, {"uptime": "3h"}),
        ({"took_ms": 120, "wait_ms": 2500}, {"took": "120 ms", "wait": "2.5 s"}),
        ({"created_at": 1_767_225_600_000}, {"created_at": "2026-01-01T00:00:00.000Z"}),
        ({"used_bytes": None}, {"used": None}),
        ({"in_bytes_per_s": 7, "rows/s": 2.5}, {"in_bytes_per_s": 7, "rows/s": 2.5}),
        ({"size": 1, "size_bytes": 2048}, {"size": 1, "size_bytes": "2.0 KB"}),
        ({"is_ms": True, "names_s": ["a"]}, {"is_ms": True, "names_s": ["a"]}),
        ({"at": 7, "started_at": None}, {"at": 7, "started_at": None}),
    ],
)
def test_units_leave_the_name_and_join_the_value(
    fields: Mapping[str, object], shown: Mapping[str, object]
) -> None:
    assert for_people(fields) == shown


def test_tables_are_for_people_and_json_has_the_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows: list[dict[str, object]] = [
        {"name": "a", "size_bytes": 5},
        {"name": "b", "size_bytes": None},
    ]
    emit(rows, Format.TABLE)
    assert capsys.readouterr().out.splitlines() == ["name  size", "a     5 B", "b     -"]
    emit(rows, Format.JSON)
    assert json.loads(capsys.readouterr().out) == rows


def test_an_age_looks_back_and_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.cli.times.time.time", lambda: 1_000_000.0)
    assert show_age(1_000_000_000 - 10_800_000) == "3h ago"
    assert show_age(1_000_000_000 + 90_000) == "in 1m 30s"
    assert show_age(-1) == "-1"
