"""What the driver of a Spark pipeline reports of it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

State: TypeAlias = Literal["starting", "running", "finished", "failed", "stopped", "lost"]
QueryState: TypeAlias = Literal["running", "finished", "failed", "stopped"]


class QueryReport(msgspec.Struct, kw_only=True, frozen=True):
    """The progress of one query of a pipeline. Times are milliseconds since the epoch."""

    name: str
    state: QueryState = "running"
    id: str | None = None
    run_id: str | None = None
    sink: str | None = None
    dead_letters: str | None = None
    """The topic, if what it writes are dead letters."""
    sources: tuple[str, ...] = ()
    group: str | None = None
    batch_id: int | None = None
    batch_ms: float | None = None
    rows: int | None = None
    rows_per_second: float | None = None
    input_rows_per_second: float | None = None
    lag: int | None = None
    state_rows: int | None = None
    watermark: int | None = None
    error: str | None = None
    updated_at: int | None = None


class PipelineFields(msgspec.Struct, kw_only=True, frozen=True):
    """What a driver says of its pipeline. Times are milliseconds since the epoch."""

    state: State
    started_at: int | None = None
    host: str | None = None
    pid: int | None = None
    master: str | None = None
    spark_ui: str | None = None
    file: str | None = None
    error: str | None = None
    interval_ms: int = 10_000
    queries: tuple[QueryReport, ...] = ()


class PipelineReport(PipelineFields, kw_only=True, frozen=True):
    """The newest report of one pipeline; `lost` where there should have been a newer one."""

    name: str
    updated_at: int
