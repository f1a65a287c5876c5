"""What is answered about traces."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from goqueue.protocols.http.api.shapes import Milliseconds, doc

SHOWN_SPANS: Final = 1000
"""Of one trace. One of a single message has a dozen; a producer may name the same in all."""
EXAMPLE_ID: Final = "4bf92f3577b34da6a3ce929d0e0e4736"


class SpanOut(msgspec.Struct):
    """One event."""

    trace_id: Annotated[str, doc("Whose event it is.", EXAMPLE_ID)]
    span_id: Annotated[str, doc("Its own id.", "00f067aa0ba902b7")]
    parent_id: Annotated[str | None, doc("What came before; null where the trace began.")]
    event: Annotated[str, doc("What happened.", "publish.persisted")]
    timestamp: Annotated[Milliseconds, doc("When it was over.")]
    timestamp_ns: Annotated[int, doc("The same in nanoseconds.", 1767225600000000000)]
    duration_ms: Annotated[float, doc("How long it took.", 0.8)]
    topic: str | None
    partition: int | None
    offset: Annotated[int | None, doc("Null while it has none.", 42)]
    priority: str | None
    consumer_group: str | None
    consumer: str | None
    receipt: Annotated[str | None, doc("Of a delivery of this message alone.")]
    deliver_at: Annotated[Milliseconds | None, doc("When a delayed message is due.")]
    delay_ms: int | None
    error: Annotated[str | None, doc("What went wrong.")]
    node: str
    attributes: dict[str, str]


class _Trace(msgspec.Struct):
    """What became of one message, as far as it is said everywhere."""

    trace_id: Annotated[str, doc("Its id.", EXAMPLE_ID)]
    topic: str | None
    partition: int | None
    offset: int | None
    status: Annotated[str, doc("How the message is doing.", "completed")]
    start: Annotated[Milliseconds, doc("When the first thing happened.")]
    end: Annotated[Milliseconds, doc("When the last thing happened.")]
    duration_ms: Annotated[float, doc("From the first thing to the last.", 12.5)]


class TraceSummary(_Trace):
    """What became of one message."""

    spans: Annotated[int, doc("How many things happened.", 5)]


class TraceOut(_Trace):
    """Everything that is known of one message."""

    spans: Annotated[
        list[SpanOut], doc(f"In the order in which they happened; {SHOWN_SPANS} at most.")
    ]
    span_count: Annotated[int, doc("How many things happened.", 5)]


class TraceList(msgspec.Struct):
    """Traces, the newest first."""

    traces: list[TraceSummary]
    complete: Annotated[bool, doc("False when there was more to look at than one search may.")]


class ExporterOut(msgspec.Struct):
    """Somewhere that events go."""

    name: Annotated[str, doc("Where they go.", "files")]
    exported: int
    dropped: Annotated[int, doc("That it could not take.", 0)]


class TraceStatsAnswer(msgspec.Struct):
    """Statistics of tracing."""

    enabled: bool
    sampling: Annotated[float, doc("The share of batches that is traced.", 1.0)]
    events: Annotated[int, doc("In memory; one may be of many messages.", 240)]
    capacity: Annotated[int, doc("That fit into memory.", 10000)]
    noted: Annotated[int, doc("Since the start.", 240)]
    traced_batches: Annotated[int, doc("Batches of which it is known that they are traced.", 12)]
    damaged_lines: Annotated[int, doc("In files, that were passed over.", 0)]
    exporters: list[ExporterOut]
