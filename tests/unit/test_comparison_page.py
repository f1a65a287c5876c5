"""The figures of the comparison come from one run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks._comparison_page import FIGURES, filled

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = {"cpu": "a CPU", "cores": 2, "memory_bytes": 8 << 30, "python": "3.11.7"}
PAGE = "before\n<!-- begin figures -->\nold\n<!-- end -->\nafter\n"


def lines_of(time: str, ours: float, *, without: str = "") -> list[str]:
    """What one run records: ours is `ours`, the others are 10."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for figure in FIGURES:
        of = rows.setdefault(figure.benchmark, {})
        for label in figure.others.values():
            of[label] = {"label": label, "value": 10.0, "unit": "u"}
        against = next(iter(figure.others.values()))
        row = {"label": figure.ours, "value": ours, "unit": "u", "ratio": ours / 10}
        of[figure.ours] = row | {"against": against}
    session = {"commit": "1" * 40, "time": time, "machine": MACHINE, "versions": {"Redis": "7.0"}}
    return [
        json.dumps({"benchmark": name, **session, "rows": list(of.values()), "notes": []})
        for name, of in rows.items()
        if name != without
    ]


def page_of(folder: Path, *lines: str) -> str:
    results = folder / "history.jsonl"
    results.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return filled(PAGE, results)


def test_the_table_is_of_the_last_run_that_has_every_figure(tmp_path: Path) -> None:
    part = lines_of("2026-11-03T00:00:00+00:00", 40, without="queue.throughput")
    older = lines_of("2026-11-01T00:00:00+00:00", 20)
    newer = lines_of("2026-11-02T00:00:00+00:00", 30)
    page = page_of(tmp_path, *older, *newer, *part)
    assert "One run at 11111111, 2026-11-02, on a CPU, 2 cores" in page
    assert "Versions: Redis 7.0." in page
    assert "| produced in bulk | **30 u** | Kafka 10 u | 3.00 |" in page
    assert page.startswith("before\n")
    assert page.endswith("<!-- end -->\nafter\n")


def test_the_best_of_a_row_is_bold_and_less_is_better_for_memory(tmp_path: Path) -> None:
    page = page_of(tmp_path, *lines_of("2026-11-01T00:00:00+00:00", 20))
    assert "| produced in bulk | **20 u** | Kafka 10 u | 2.00 |" in page
    assert "| memory under bulk load | 20 u | Kafka **10 u** | 2.00 |" in page


def test_figures_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    first = lines_of("2026-11-01T00:00:00+00:00", 20, without="queue.throughput")
    second = lines_of("2026-11-02T00:00:00+00:00", 20, without="against_kafka.bulk")
    with pytest.raises(LookupError, match="no recorded run has all of"):
        page_of(tmp_path, *first, *second)
