"""Fill the figures of docs/explanation/comparison.md with the last run that has all of them.

    python -m benchmarks._comparison_page

A run is one `goqueue bench --record` with every benchmark of `FIGURES`: its lines have the same
time. Figures of several runs, which are figures of several states of one machine, are not mixed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks._performance_page import machine_of
from benchmarks.harness import RECORDED_RESULTS, ROOT, readable

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = ROOT / "docs" / "explanation" / "comparison.md"
_BEGIN: Final = "<!-- begin figures -->\n"
_END: Final = "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table: the label of our row of a benchmark, and those of the others."""

    what: str
    benchmark: str
    ours: str
    others: dict[str, str]
    is_less_better: bool = False


FIGURES: Final = (
    *(
        Figure(what, benchmark, f"{row}: goqueue", {"Kafka": f"{row}: Apache Kafka"})
        for what, benchmark, row in (
            ("produced in bulk", "against_kafka.bulk", "messages produced"),
            ("consumed in bulk", "against_kafka.bulk", "messages consumed"),
            (
                "16 producers, one message in flight",
                "against_kafka.requests",
                "messages, 16 producers, one in flight",
            ),
            ("transactions of 100 messages", "against_kafka.transactions", "transactions"),
        )
    ),
    Figure(
        "memory under bulk load",
        "against_kafka.bulk",
        "memory, goqueue",
        {"Kafka": "memory, Apache Kafka"},
        is_less_better=True,
    ),
    *(
        Figure(
            f"three nodes: {what}",
            "against_kafka.cluster",
            f"{row}: three nodes",
            {"Kafka": f"{row}: Apache Kafka"},
        )
        for what, row in (
            ("produced in bulk", "messages produced"),
            ("consumed in bulk", "messages consumed"),
            ("one message in flight", "messages, one in flight"),
        )
    ),
    Figure(
        "three nodes: memory a node",
        "against_kafka.cluster",
        "memory a node, three nodes: broker and etcd",
        {"Kafka": "memory a node, Apache Kafka"},
        is_less_better=True,
    ),
    Figure(
        "three nodes: a node is killed, its partitions are led again, median",
        "against_kafka.failover",
        "three nodes: all its partitions led again, median",
        {"Kafka": "Apache Kafka: all its partitions led again, median"},
        is_less_better=True,
    ),
    Figure(
        "work queue, each message acknowledged",
        "queue.throughput",
        "end to end, GoQueue, Python client",
        {
            "Redis Streams": "end to end, Redis Streams, one XACK a chunk",
            "NATS JetStream": "end to end, NATS JetStream",
        },
    ),
    Figure(
        "work queue, p99 end to end at half rate",
        "queue.throughput",
        "p99 at half rate, GoQueue, Python client",
        {
            "Redis Streams": "p99 at half rate, Redis Streams, one XACK a chunk",
            "NATS JetStream": "p99 at half rate, NATS JetStream",
        },
        is_less_better=True,
    ),
)


def filled(page: str, results: Path = RECORDED_RESULTS) -> str:
    """The page with the table of the last run that has every figure."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{begin}\n{_table(_last_whole_run(results))}\n\n{end}{after}"


def _last_whole_run(results: Path) -> dict[str, dict[str, Any]]:
    """By benchmark, what one run recorded.

    Raises:
        LookupError: no run has all.
    """
    wanted = {figure.benchmark for figure in FIGURES}
    runs: dict[str, dict[str, dict[str, Any]]] = {}
    for line in results.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        runs.setdefault(entry["time"], {})[entry["benchmark"]] = entry
    whole = [run for _, run in sorted(runs.items()) if wanted <= run.keys()]
    if not whole:
        raise LookupError(f"no recorded run has all of {', '.join(sorted(wanted))}")
    return whole[-1]


def _table(run: dict[str, dict[str, Any]]) -> str:
    session = run[FIGURES[0].benchmark]
    versions = ", ".join(f"{name} {version}" for name, version in session["versions"].items())
    where = f"{session['commit'][:8]}, {session['time'][:10]}, on {machine_of(session)}"
    lines = [
        f"One run at {where}. Versions: {versions}.",
        "",
        "| what | GoQueue | others | ratio |",
        "| --- | ---: | ---: | ---: |",
    ]
    return "\n".join([*lines, *(_row(figure, run[figure.benchmark]) for figure in FIGURES)])


def _row(figure: Figure, entry: dict[str, Any]) -> str:
    rows = {row["label"]: row for row in entry["rows"]}
    ours = rows[figure.ours]
    others = [(name, rows[label]) for name, label in figure.others.items()]
    sign = -1 if figure.is_less_better else 1
    best = max(sign * row["value"] for row in (ours, *(row for _, row in others)))
    cells = [f"{name} {_value(row, sign, best)}" for name, row in others]
    known = next((row for _, row in others if ours.get("against") == row["label"]), None)
    ratio = f"{ours['ratio']:.2f}" if known is not None else ""
    return f"| {figure.what} | {_value(ours, sign, best)} | {'; '.join(cells)} | {ratio} |"


def _value(row: dict[str, Any], sign: int, best: float) -> str:
    """What was measured; the best of a row is bold."""
    text = f"{readable(row['value'])} {row['unit']}"
    return f"**{text}**" if sign * row["value"] == best else text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
