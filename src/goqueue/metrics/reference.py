"""The reference page of the metrics, out of the one file of names.

`python -m goqueue.metrics.reference > docs/reference/metrics.md`; a test holds the page to it.
"""

from __future__ import annotations

import sys
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

Every metric of `GET /metrics`, generated from the list of names in the source. For the metrics
that matter first, and how to scrape them, see [Monitoring](../how-to/monitoring.md).

Every metric has the label `node_id`. The label `partition` requires
`metrics.partition_label: true`; without it the partitions of a topic are added up, or the largest
is shown. A metric has at most `metrics.max_series` label sets; further ones share one series, in
which every label is `other`, and `goqueue_metrics_overflows_total` counts them. The series of a
topic or a group are removed when it is deleted.
"""

_SECTIONS: Final = {
    "broker": "Requests of clients",
    "storage": "Logs on disk",
    "process": "Process and event loop",
    "consumer": "Groups",
    "cluster": "Nodes and partition leaders",
    "audit": "The audit log",
    "webhook": "Webhooks",
    "tls": "Certificates",
    "metrics": "The registry itself",
}

_ENDING: Final = """\
## Metrics of the client library

The Prometheus client library for Python adds its own metrics of the process:
`process_cpu_seconds_total`, `process_open_fds`, `process_max_fds`, `process_resident_memory_bytes`,
`process_virtual_memory_bytes`, `process_start_time_seconds`, `python_gc_collections_total`,
`python_gc_objects_collected_total`, `python_gc_objects_uncollectable_total` and `python_info`.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_sections(), _ENDING])


def _sections() -> Iterator[str]:
    sections: dict[str, list[Definition]] = {}
    for name in names.ALL:
        sections.setdefault(name.name.partition("_")[0], []).append(name)
    for subsystem, found in sections.items():
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
