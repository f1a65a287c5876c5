"""The reference page of the metrics, out of the one file of names.

`python -m goqueue.metrics.reference > docs/metrics.md`; a test holds the page to it.
"""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, Final

from goqueue.metrics import names
from goqueue.metrics.kinds import (
    BATCH_BUCKETS,
    LATENCY_BUCKETS_S,
    CounterName,
    Definition,
    GaugeName,
    HistogramName,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION: Final = """\
# All metrics

What `GET /metrics` shows, made from the broker's own list of names. Which of them matter first,
and how to scrape them, is told in [Monitoring](monitoring.md).

Every metric has the label `node_id`. `partition` is there only with
`metrics.partition_label: true`; otherwise partitions of a topic are added up, or the largest
counts. A metric has at most `metrics.max_series` sets of labels; further ones are shown as one, in
which every label is `other`, and `goqueue_metrics_overflows_total` counts them. A topic or a group
that is deleted takes its series along.
"""

_SECTIONS: Final = {
    "broker": "What clients asked for and got",
    "storage": "What the logs do to the disk",
    "process": "How the process is",
    "consumer": "What groups do",
    "cluster": "Nodes and the partitions that they lead",
    "metrics": "This very list",
}

_ENDING: Final = """\
## What is not ours

Python's client library for Prometheus adds what it knows of the process:
`process_cpu_seconds_total`, `process_open_fds`, `process_max_fds`, `process_resident_memory_bytes`,
`process_virtual_memory_bytes`, `process_start_time_seconds`, `python_gc_collections_total`,
`python_gc_objects_collected_total`, `python_gc_objects_uncollectable_total` and `python_info`.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_sections(), _ENDING])


def _sections() -> Iterator[str]:
    for subsystem, found in groupby(names.ALL, lambda name: name.name.partition("_")[0]):
        lines = [f"## {subsystem}: {_SECTIONS[subsystem].lower()}", ""]
        lines += ["| name | kind | labels | |", "| --- | --- | --- | --- |"]
        lines += [_line(name) for name in found]
        yield "\n".join([*lines, ""])
    yield "\n".join(
        [
            "## Buckets",
            "",
            f"Of latencies, in seconds: {_numbers(LATENCY_BUCKETS_S)}.",
            "",
            f"Of `goqueue_{names.POLL_BATCH_SIZE.name}`, in messages: {_numbers(BATCH_BUCKETS)}.",
            "",
        ]
    )


def _line(name: Definition) -> str:
    labels = ", ".join(f"`{label}`" for label in name.labels)
    return f"| `goqueue_{name.name}` | {_kind(name)} | {labels} | {name.help} |"


def _kind(name: Definition) -> str:
    match name:
        case CounterName():
            return "counter"
        case HistogramName():
            return "histogram"
        case GaugeName():
            return "gauge"
    raise TypeError(f"{name} is of no kind")


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


if __name__ == "__main__":
    sys.stdout.write(reference())
