"""Jobs: what operators of a broker do with a lot of data. Each is a function, and a command.

Every function takes the session, the broker's address, what it works on, and keyword arguments;
among them `options` (of the connection) and `progress`. It returns a `JobReport`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.spark.jobs.archiving import archive
    from goqueue.spark.jobs.deduping import compact, dedupe
    from goqueue.spark.jobs.repartitioning import repartition
    from goqueue.spark.jobs.replaying import replay
    from goqueue.spark.jobs.report import JobReport, Progress, Table, silent
    from goqueue.spark.jobs.restoring import restore

_HOMES = {
    "archive": "archiving",
    "compact": "deduping",
    "dedupe": "deduping",
    "repartition": "repartitioning",
    "replay": "replaying",
    "restore": "restoring",
    "JobReport": "report",
    "Progress": "report",
    "Table": "report",
    "silent": "report",
}
"""Which module has what: a job is imported when it is used. No module may have a job's name."""

__all__ = [
    "JobReport",
    "Progress",
    "Table",
    "archive",
    "compact",
    "dedupe",
    "repartition",
    "replay",
    "restore",
    "silent",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
