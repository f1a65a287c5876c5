"""Jobs: what operators of a broker do with a lot of data. Each is a function, and a command.

Every function takes the session, the broker's address, what it works on, and keyword arguments;
among them `options` (of the connection) and `progress`. It returns a `JobReport`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.spark.lazy_names import lazy_names

if TYPE_CHECKING:
    from goqueue.spark.http_client import Http
    from goqueue.spark.jobs.dead_letters.redriving import dlq_redrive
    from goqueue.spark.jobs.dead_letters.selection import Selection
    from goqueue.spark.jobs.dead_letters.triage import dlq_triage
    from goqueue.spark.jobs.report import JobReport, Progress, Table, silent
    from goqueue.spark.jobs.reports.audit import schema_audit
    from goqueue.spark.jobs.reports.lag import lag_report
    from goqueue.spark.jobs.reports.skew import skew_report
    from goqueue.spark.jobs.reports.skew_plot import text_plot
    from goqueue.spark.jobs.reports.traces import trace_report
    from goqueue.spark.jobs.topics.archiving import archive
    from goqueue.spark.jobs.topics.deduping import compact, dedupe
    from goqueue.spark.jobs.topics.repartitioning import repartition
    from goqueue.spark.jobs.topics.replaying import replay
    from goqueue.spark.jobs.topics.restoring import restore

_HOMES = {
    "archive": ".topics.archiving",
    "compact": ".topics.deduping",
    "dedupe": ".topics.deduping",
    "dlq_redrive": ".dead_letters.redriving",
    "dlq_triage": ".dead_letters.triage",
    "lag_report": ".reports.lag",
    "repartition": ".topics.repartitioning",
    "replay": ".topics.replaying",
    "restore": ".topics.restoring",
    "schema_audit": ".reports.audit",
    "skew_report": ".reports.skew",
    "text_plot": ".reports.skew_plot",
    "trace_report": ".reports.traces",
    "Http": "goqueue.spark.http_client",
    "JobReport": ".report",
    "Progress": ".report",
    "Selection": ".dead_letters.selection",
    "Table": ".report",
    "silent": ".report",
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

__getattr__ = lazy_names(__name__, _HOMES)
