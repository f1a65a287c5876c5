"""What is answered about traces."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from goqueue.protocols.http.api.gathered import Gathered, Unanswered
from goqueue.protocols.http.api.shapes import Milliseconds, doc

SHOWN_SPANS: Final = 1000
"""Of one trace. One of a single message has a dozen; a producer may name the same in all."""
EXAMPLE_ID: Final = "4bf92f3577b34da6a3ce929d0e0e4736"


class SpanOut(msgspec.Struct):
    """One event."""

    trace_id: Annotated[str, doc("The trace id.", EXAMPLE_ID)]
    span_id: Annotated[str, doc("The span id.", "00f067aa0ba902b7")]
    parent_id: Annotated[str | None, doc("The parent span; null for the first.")]
    event: Annotated[str, doc("What happened.", "publish.persisted")]
    timestamp: Annotated[Milliseconds, doc("When it ended.")]
    timestamp_ns: Annotated[int, doc("The same in nanoseconds.", 1767225600000000000)]
    duration_ms: Annotated[float, doc("How long it took.", 0.8)]
    topic: str | None
    partition: int | None
    offset: Annotated[int | None, doc("Null before one is assigned.", 42)]
    priority: str | None
    consumer_group: str | None
    consumer: str | None
    receipt: Annotated[str | None, doc("The receipt, for a delivery of this message alone.")]
    deliver_at: Annotated[Milliseconds | None, doc("When a delayed message is due.")]
    delay_ms: int | None
    error: Annotated[str | None, doc("What went wrong.")]
    node: str
    attributes: dict[str, str]


class _Trace(msgspec.Struct):
    """Fields that every trace has."""

    trace_id: Annotated[str, doc("Its id.", EXAMPLE_ID)]
    topic: str | None
    partition: int | None
    offset: int | None
    status: Annotated[str, doc("The status of the message.", "completed")]
    start: Annotated[Milliseconds, doc("Time of the first event.")]
    end: Annotated[Milliseconds, doc("Time of the last event.")]
    duration_ms: Annotated[float, doc("From the first event to the last.", 12.5)]


class TraceSummary(_Trace):
    """The summary of a trace."""

    spans: Annotated[int, doc("Number of events.", 5)]


class TraceOut(_Trace):
    """A trace with all its events."""

    spans: Annotated[
        list[SpanOut], doc(f"In the order in which they happened; {SHOWN_SPANS} at most.")
    ]
    span_count: Annotated[int, doc("Number of events.", 5)]
    unanswered: Unanswered = msgspec.UNSET


class TraceList(Gathered):
    """Traces, the newest first."""

    traces: list[TraceSummary]
    complete: Annotated[bool, doc("False if the search stopped at its bound.")]


class ExporterOut(msgspec.Struct):
    """An exporter of trace events."""

    name: Annotated[str, doc("The target.", "files")]
    exported: int
    dropped: Annotated[int, doc("Dropped events.", 0)]


class TraceStatsAnswer(Gathered):
    """Statistics of tracing."""

    enabled: bool
    sampling: Annotated[float, doc("Share of batches that are traced.", 1.0)]
    events: Annotated[int, doc("Events in memory; one event may cover many messages.", 240)]
    capacity: Annotated[int, doc("Capacity of the memory, in events.", 10000)]
    noted: Annotated[int, doc("Since the start.", 240)]
    traced_batches: Annotated[int, doc("Traced batches in the index.", 12)]
    damaged_lines: Annotated[int, doc("Damaged lines of trace files that were skipped.", 0)]
    exporters: list[ExporterOut]
