"""Jobs: what operators of a broker do with a lot of data. Each is a function, and a command.

Every function takes the session, the broker's address, what it works on, and keyword arguments;
among them `options` (of the connection) and `progress`. It returns a `JobReport`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.spark.jobs.archiving import archive
    from goqueue.spark.jobs.audit import schema_audit
    from goqueue.spark.jobs.deduping import compact, dedupe
    from goqueue.spark.jobs.http import Http
    from goqueue.spark.jobs.lag import lag_report
    from goqueue.spark.jobs.redriving import dlq_redrive
    from goqueue.spark.jobs.repartitioning import repartition
    from goqueue.spark.jobs.replaying import replay
    from goqueue.spark.jobs.report import JobReport, Progress, Table, silent
    from goqueue.spark.jobs.restoring import restore
    from goqueue.spark.jobs.selecting import Selection
    from goqueue.spark.jobs.skew import skew_report
    from goqueue.spark.jobs.skew_plot import text_plot
    from goqueue.spark.jobs.traces import trace_report
    from goqueue.spark.jobs.triage import dlq_triage

_HOMES = {
    "archive": "archiving",
    "compact": "deduping",
    "dedupe": "deduping",
    "dlq_redrive": "redriving",
    "dlq_triage": "triage",
    "lag_report": "lag",
    "repartition": "repartitioning",
    "replay": "replaying",
    "restore": "restoring",
    "schema_audit": "audit",
    "skew_report": "skew",
    "text_plot": "skew_plot",
    "trace_report": "traces",
    "Http": "http",
    "JobReport": "report",
    "Progress": "report",
    "Selection": "selecting",
    "Table": "report",
    "silent": "report",
}
"""Which module has what: a job is imported when it is used. No module may have a job's name."""

__all__ = [
    "Http",
    "JobReport",
    "Progress",
    "Selection",
    "Table",
    "archive",
    "compact",
    "dedupe",
    "dlq_redrive",
    "dlq_triage",
    "lag_report",
    "repartition",
    "replay",
    "restore",
    "schema_audit",
    "silent",
    "skew_report",
    "text_plot",
    "trace_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
