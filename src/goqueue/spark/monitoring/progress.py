"""The progress of a pipeline run, and the report at its end.

The shapes are those of `PUT /pipelines/{name}`, so that a terminal, `-o json` and the console show
the same figures. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.model.pipeline_reports import PipelineFields, QueryReport, State


class QueryProgress(QueryReport, kw_only=True, frozen=True):
    """The streaming query of one sink."""

    rows: int = 0
    """Read in this run."""
    late_rows: int = 0
    """Dropped in this run because they were later than the watermark allows."""


class RunProgress(PipelineFields, kw_only=True, frozen=True):
    """All queries of a pipeline at one moment."""

    name: str
    state: State = "starting"
    started_at: int = 0
    queries: tuple[QueryProgress, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The body of `PUT /pipelines/{name}`."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class RunReport(msgspec.Struct, kw_only=True, frozen=True):
    """The result of a run that has ended."""

    last: RunProgress
    ended_at: int
    warnings: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """How it ended: finished, stopped or failed."""
        return self.last.state

    def as_dict(self) -> dict[str, Any]:
        """The report as `-o json` prints it."""
        return {
            **self.last.as_dict(),
            "ended_at": self.ended_at,
            "warnings": list(self.warnings),
        }
