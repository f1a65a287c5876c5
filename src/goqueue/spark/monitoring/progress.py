"""What a run of a pipeline tells whoever watches it, and in the end what it did.

The field names are those of `PUT /pipelines/{name}`, so that a terminal, `-o json` and the broker's
own pages show the same figures. Times are milliseconds since 1970.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class RunState(StrEnum):
    """Where a pipeline, or one query of it, is."""

    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"
    """Everything that was there is done (`available-now`)."""
    STOPPED = "stopped"
    """Somebody asked for it."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """One sink's streaming query."""

    name: str
    """The sink's name."""
    sink: str
    """Where it writes, as in `topic revenue`."""
    dead_letters: str | None = None
    """The topic, if what it writes are dead letters."""
    state: RunState = RunState.RUNNING
    """A query is never `starting`: it is there when it runs."""
    sources: tuple[str, ...] = ()
    """The topics that it reads."""
    id: str | None = None
    run_id: str | None = None
    group: str | None = None
    """Under which `goqueue group describe` shows its offsets."""
    batch_id: int | None = None
    batch_ms: int | None = None
    """How long the last micro-batch took."""
    rows: int = 0
    """Read in this run."""
    rows_per_second: float | None = None
    """How fast the last micro-batch was worked off."""
    input_rows_per_second: float | None = None
    lag: int | None = None
    """Messages that are there and not yet read; None: not known."""
    state_rows: int | None = None
    watermark: int | None = None
    late_rows: int = 0
    """Left out in this run because they came later than the watermark allows."""
    error: str | None = None
    updated_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """All queries of a pipeline at one moment."""

    name: str
    state: RunState = RunState.STARTING
    started_at: int = 0
    host: str | None = None
    pid: int | None = None
    master: str | None = None
    spark_ui: str | None = None
    file: str | None = None
    error: str | None = None
    interval_ms: int = 10_000
    """How often this is published; a pipeline that is silent for three of them counts as lost."""
    queries: tuple[QueryProgress, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The body of `PUT /pipelines/{name}`."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run did, once it has ended."""

    last: RunProgress
    ended_at: int
    warnings: tuple[str, ...] = ()

    @property
    def state(self) -> RunState:
        """How it ended: finished, stopped or failed."""
        return self.last.state

    def as_dict(self) -> dict[str, Any]:
        """The report as `-o json` prints it."""
        return {
            **self.last.as_dict(),
            "ended_at": self.ended_at,
            "warnings": list(self.warnings),
        }
