"""Traces: what happened to messages, one by one, by message, and found by what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from goqueue.model.delivery import Priority
from goqueue.model.errors import UnknownTraceError
from goqueue.protocols.http.api.codecs import Time, time_ms
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import Milliseconds, Offset, PartitionPath, doc
from goqueue.tracing.context import is_trace_id
from goqueue.tracing.search import LIMIT, MAX_LIMIT, TraceQuery
from goqueue.tracing.statuses import Status

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.tracing.events import Span
    from goqueue.tracing.search import FoundTraces
    from goqueue.tracing.views import Trace

SHOWN_SPANS: Final = 1000
"""Of one trace. One of a single message has a dozen; a producer may name the same in all."""
_TAG: Final = "traces"
_MS: Final = 1_000_000
_EXAMPLE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
_Status = Literal[
    "delayed",
    "pending",
    "in_progress",
    "retrying",
    "completed",
    "failed",
    "cancelled",
    "expired",
    "error",
]
"""`error` is another word for `failed`."""
_Limit = Annotated[int, doc("At most so many.", 100, ge=1, le=MAX_LIMIT)]
_MaybeMs = Annotated[int, doc("In milliseconds.", 250, ge=0, le=2**53)]


class RecentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How many are wanted."""

    limit: _Limit = LIMIT


class SearchQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which traces are wanted; everything that is said must hold."""

    topic: Annotated[str | None, doc("Something happened there.", "orders")] = None
    partition: Annotated[int | None, doc("Something happened there.", 0)] = None
    consumer_group: Annotated[str | None, doc("It did something.", "billing")] = None
    start: Annotated[Time | None, doc("Something happened from then on.")] = None
    end: Annotated[Time | None, doc("Something happened before then.")] = None
    status: Annotated[_Status | None, doc("How the message is doing.", "completed")] = None
    min_duration: Annotated[_MaybeMs | None, doc("Took at least so many milliseconds.")] = None
    max_duration: Annotated[_MaybeMs | None, doc("Took at most so many milliseconds.")] = None
    limit: _Limit = LIMIT


class TracePath(msgspec.Struct, frozen=True):
    """A trace in the path."""

    id: Annotated[str, doc("32 hexadecimal digits.", _EXAMPLE)]


class MessagePath(PartitionPath, frozen=True):
    """A message in the path."""

    offset: Offset


class SpanOut(msgspec.Struct):
    """One event."""

    trace_id: Annotated[str, doc("Whose event it is.", _EXAMPLE)]
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


class TraceSummary(msgspec.Struct):
    """What became of one message."""

    trace_id: Annotated[str, doc("Its id.", _EXAMPLE)]
    topic: str | None
    partition: int | None
    offset: int | None
    status: Annotated[str, doc("How the message is doing.", "completed")]
    start: Annotated[Milliseconds, doc("When the first thing happened.")]
    end: Annotated[Milliseconds, doc("When the last thing happened.")]
    duration_ms: Annotated[float, doc("From the first thing to the last.", 12.5)]
    spans: Annotated[int, doc("How many things happened.", 5)]


class TraceOut(msgspec.Struct):
    """Everything that is known of one message."""

    trace_id: Annotated[str, doc("Its id.", _EXAMPLE)]
    topic: str | None
    partition: int | None
    offset: int | None
    status: Annotated[str, doc("How the message is doing.", "completed")]
    start: Annotated[Milliseconds, doc("When the first thing happened.")]
    end: Annotated[Milliseconds, doc("When the last thing happened.")]
    duration_ms: Annotated[float, doc("From the first thing to the last.", 12.5)]
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
    """How tracing gets on."""

    enabled: bool
    sampling: Annotated[float, doc("The share of batches that is traced.", 1.0)]
    events: Annotated[int, doc("In memory; one may be of many messages.", 240)]
    capacity: Annotated[int, doc("That fit into memory.", 10000)]
    noted: Annotated[int, doc("Since the start.", 240)]
    traced_batches: Annotated[int, doc("Batches of which it is known that they are traced.", 12)]
    damaged_lines: Annotated[int, doc("In files, that were passed over.", 0)]
    exporters: list[ExporterOut]


class TraceRoutes:
    """Traces."""

    def __init__(self, broker: Broker) -> None:
        self._traces = broker.traces
        self._tracer = broker.tracer

    @route("GET", "/traces", tag=_TAG)
    async def recent(self, query: RecentQuery) -> TraceList:
        """The traces to which something happened last."""
        return _listed(await self._traces.search(TraceQuery(limit=query.limit)))

    @route("GET", "/traces/search", tag=_TAG)
    async def search(self, query: SearchQuery) -> TraceList:
        """Traces by what is known of them."""
        return _listed(
            await self._traces.search(
                TraceQuery(
                    query.topic,
                    query.partition,
                    query.consumer_group,
                    _time_ns(query.start, "start"),
                    _time_ns(query.end, "end"),
                    _status(query.status),
                    _ns(query.min_duration),
                    _ns(query.max_duration),
                    query.limit,
                )
            )
        )

    @route("GET", "/traces/stats", tag=_TAG)
    async def stats(self) -> TraceStatsAnswer:
        """How much is traced, and where it goes."""
        found = self._traces.stats(len(self._tracer.index))
        return TraceStatsAnswer(
            found.is_on,
            found.sampling,
            found.spans,
            found.capacity,
            found.noted,
            found.traced_batches,
            found.damaged_lines,
            [ExporterOut(each.name, each.exported, each.dropped) for each in found.exporters],
        )

    @route("GET", "/traces/{id}", tag=_TAG)
    async def show(self, path: TracePath) -> TraceOut:
        """Everything that happened to one message."""
        if not is_trace_id(path.id):
            raise UnknownTraceError("a trace has an id of 32 hexadecimal digits")
        return _shown(await self._traces.get(path.id))

    @route("GET", "/topics/{topic}/partitions/{partition}/messages/{offset}/trace", tag=_TAG)
    async def of_message(self, path: MessagePath) -> TraceOut:
        """Everything that happened to the message at a place."""
        return _shown(await self._traces.of_message(path.topic, path.partition, path.offset))


def _ns(value_ms: int | None) -> int | None:
    return None if value_ms is None else value_ms * _MS


def _time_ns(value: int | str | None, field: str) -> int | None:
    return None if value is None else time_ms(value, field) * _MS


def _status(wanted: str | None) -> Status | None:
    if wanted is None:
        return None
    return Status.FAILED if wanted == "error" else Status(wanted)


def _listed(found: FoundTraces) -> TraceList:
    summaries = [
        TraceSummary(
            trace.trace_id,
            trace.topic or None,
            trace.partition,
            trace.offset,
            trace.status,
            trace.start_ns // _MS,
            trace.end_ns // _MS,
            trace.duration_ns / _MS,
            len(trace.spans),
        )
        for trace in found.traces
    ]
    return TraceList(summaries, found.is_complete)


def _shown(trace: Trace) -> TraceOut:
    return TraceOut(
        trace.trace_id,
        trace.topic or None,
        trace.partition,
        trace.offset,
        trace.status,
        trace.start_ns // _MS,
        trace.end_ns // _MS,
        trace.duration_ns / _MS,
        [_span(span) for span in trace.spans[:SHOWN_SPANS]],
        len(trace.spans),
    )


def _span(span: Span) -> SpanOut:
    lanes = {each.value: each.label for each in Priority}
    return SpanOut(
        span.trace_id,
        span.span_id,
        span.parent_id or None,
        span.event,
        span.timestamp_ns // _MS,
        span.timestamp_ns,
        span.duration_ns / _MS,
        span.topic or None,
        span.partition,
        span.offset,
        None if span.priority is None else lanes.get(span.priority),
        span.group or None,
        span.consumer or None,
        span.receipt or None,
        span.deliver_at_ms,
        span.delay_ms,
        span.error or None,
        span.node,
        span.attributes,
    )
