"""The tables of the page of figures come from the recorded results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks._performance_page import filled

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = {"cpu": "a CPU", "cores": 2, "memory_bytes": 8 << 30, "python": "3.11.7"}


def line(name: str, commit: str, *rows: dict[str, Any]) -> str:
    session = {"commit": commit, "time": "2026-11-17T18:00:00+00:00", "machine": MACHINE}
    return json.dumps({"benchmark": name, **session, "rows": rows, "notes": []})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    plain = {"label": "rate, plain", "value": 2000.0, "unit": "a second"}
    ours = {"label": "rate, ours", "value": 3000.0, "unit": "a second", "ratio": 1.5}
    cpu = {"label": "CPU, ours", "value": 2.5, "unit": "µs"}
    path = tmp_path / "history.jsonl"
    lines = [line("toy.copy", "0" * 40, plain), line("toy.copy", "1" * 40, plain, ours, cpu)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_table_has_the_last_run_with_its_machine(results: Path) -> None:
    page = filled("before\n<!-- begin toy.copy -->\nold\n<!-- end -->\nafter\n", results)
    assert page == (
        "before\n<!-- begin toy.copy -->\n\n"
        "`toy.copy` at 11111111, 2026-11-17, on a CPU, 2 cores, 8 GB, Python 3.11.7:\n\n"
        "| what | value | ratio |\n| --- | ---: | ---: |\n"
        "| rate, plain | 2,000 a second |  |\n"
        "| rate, ours | 3,000 a second | 1.50 |\n"
        "| CPU, ours | 2.5 µs |  |\n"
        "\n<!-- end -->\nafter\n"
    )


def test_a_pattern_chooses_rows(results: Path) -> None:
    page = filled("<!-- begin toy.copy: ^rate, (ours|theirs) -->\n<!-- end -->\n", results)
    assert "rate, ours" in page
    assert "plain" not in page
    assert "CPU, ours" not in page


def test_filling_a_page_twice_changes_nothing(results: Path) -> None:
    once = filled("<!-- begin toy.copy -->\n<!-- end -->\n", results)
    assert filled(once, results) == once


def test_a_benchmark_without_a_recorded_run_says_so(results: Path) -> None:
    page = filled("<!-- begin toy.idle -->\n<!-- end -->\n", results)
    assert "`toy.idle` has not been recorded yet." in page


def test_what_was_missed_stands_below_the_whole_table_alone(tmp_path: Path) -> None:
    row = {"label": "rate", "value": 1.0, "unit": "a second"}
    entry = json.loads(line("toy.copy", "2" * 40, row))
    entry["notes"] = ["two turns", "MISSED: 0.7 of one node, at least 0.9 is asked for"]
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    whole = filled("<!-- begin toy.copy -->\n<!-- end -->\n", path)
    assert "|  |\n\n- MISSED: 0.7 of one node, at least 0.9 is asked for\n\n<!-- end" in whole
    assert "two turns" not in whole
    assert "MISSED" not in filled("<!-- begin toy.copy: rate -->\n<!-- end -->\n", path)
