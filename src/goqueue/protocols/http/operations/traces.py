"""Traces: what happened to messages, one by one, by message, and found by what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from goqueue.model.delivery import Priority
from goqueue.model.errors import UnknownTraceError
from goqueue.model.limits import MAX_LISTED_TRACES
from goqueue.protocols.http.api.codecs import Time, time_ms
from goqueue.protocols.http.api.paths import PartitionPath
from goqueue.protocols.http.api.places import gather
from goqueue.protocols.http.api.rights import (
    DESCRIBE,
    TOPIC_DESCRIBE,
    all_of,
    on_cluster,
    on_topic,
    within,
)
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import Offset, doc
from goqueue.protocols.http.operations.trace_merges import (
    merge_trace,
    merge_trace_stats,
    merge_traces,
)
from goqueue.protocols.http.operations.trace_shapes import (
    EXAMPLE_ID,
    SHOWN_SPANS,
    ExporterOut,
    SpanOut,
    TraceList,
    TraceOut,
    TraceStatsAnswer,
    TraceSummary,
)
from goqueue.protocols.permissions import Permissions
from goqueue.tracing.context import is_trace_id
from goqueue.tracing.search import LIMIT, FoundTraces, TraceQuery
from goqueue.tracing.store import unknown_trace, unknown_trace_of
from goqueue.tracing.views import Status, Trace

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.tracing.events import Span

_TAG: Final = "traces"
_MS: Final = 1_000_000
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
_Limit = Annotated[int, doc("The most traces to return.", 100, ge=1, le=MAX_LISTED_TRACES)]
_MaybeMs = Annotated[int, doc("In milliseconds.", 250, ge=0, le=2**53)]


class RecentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Paging."""

    limit: _Limit = LIMIT


class SearchQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters, all of which must match."""

    topic: Annotated[str | None, doc("An event of the trace has this value.", "orders")] = None
    partition: Annotated[int | None, doc("An event of the trace has this value.", 0)] = None
    consumer_group: Annotated[str | None, doc("The consumer of an event.", "billing")] = None
    start: Annotated[Time | None, doc("An event at this time or later.")] = None
    end: Annotated[Time | None, doc("An event before this time.")] = None
    status: Annotated[_Status | None, doc("The status of the message.", "completed")] = None
    min_duration: Annotated[_MaybeMs | None, doc("Minimum duration, in milliseconds.")] = None
    max_duration: Annotated[_MaybeMs | None, doc("Maximum duration, in milliseconds.")] = None
    limit: _Limit = LIMIT


class TracePath(msgspec.Struct, frozen=True):
    """A trace in the path."""

    id: Annotated[str, doc("32 hexadecimal digits.", EXAMPLE_ID)]


class MessagePath(PartitionPath, frozen=True):
    """A message in the path."""

    offset: Offset


_SEEN: Final = within(TOPIC_DESCRIBE, note="each that the trace names")


class TraceRoutes:
    """Traces."""

    def __init__(self, broker: Broker) -> None:
        self._traces = broker.traces
        self._tracer = broker.tracer

    @route("GET", "/traces", right=_SEEN, tag=_TAG, place=gather(merge_traces))
    async def recent(self, query: RecentQuery, may: Permissions) -> TraceList:
        """List the traces with the most recent events."""
        await self._tracer.caught_up()
        return _listed(may, await self._traces.search(TraceQuery(limit=query.limit)))

    @route("GET", "/traces/search", right=_SEEN, tag=_TAG, place=gather(merge_traces))
    async def search(self, query: SearchQuery, may: Permissions) -> TraceList:
        """Search traces."""
        await self._tracer.caught_up()
        return _listed(
            may,
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
            ),
        )

    @route(
        "GET",
        "/traces/stats",
        right=on_cluster(DESCRIBE),
        tag=_TAG,
        place=gather(merge_trace_stats),
    )
    async def stats(self) -> TraceStatsAnswer:
        """Statistics of tracing."""
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

    @route(
        "GET", "/traces/{id}", right=_SEEN, tag=_TAG, place=gather(merge_trace, UnknownTraceError)
    )
    async def show(self, path: TracePath, may: Permissions) -> TraceOut:
        """Describe a trace."""
        if not is_trace_id(path.id):
            raise UnknownTraceError(
                f"{path.id!r} is no id of a trace: expected 32 hexadecimal digits"
            )
        await self._tracer.caught_up()
        trace = await self._traces.get(path.id)
        if not _is_visible(may, trace):
            raise unknown_trace(path.id)
        return _shown(trace)

    @route(
        "GET",
        "/topics/{topic}/partitions/{partition}/messages/{offset}/trace",
        right=all_of(on_topic(DESCRIBE), _SEEN),
        tag=_TAG,
        place=gather(merge_trace, UnknownTraceError),
    )
    async def of_message(self, path: MessagePath, may: Permissions) -> TraceOut:
        """Describe the trace of the message at an offset."""
        await self._tracer.caught_up()
        place = (path.topic, path.partition, path.offset)
        trace = await self._traces.of_message(*place)
        if not _is_visible(may, trace):
            raise unknown_trace_of(*place)
        return _shown(trace)


def _ns(value_ms: int | None) -> int | None:
    return None if value_ms is None else value_ms * _MS


def _time_ns(value: int | str | None, field: str) -> int | None:
    return None if value is None else time_ms(value, field) * _MS


def _status(wanted: str | None) -> Status | None:
    if wanted is None:
        return None
    return Status.FAILED if wanted == "error" else Status(wanted)


def _is_visible(may: Permissions, trace: Trace) -> bool:
    if may.is_open:
        return True
    topics = {each.topic for each in trace.spans if each.topic}
    return bool(topics) and all(may.allows(TOPIC_DESCRIBE, name) for name in topics)


def _listed(may: Permissions, found: FoundTraces) -> TraceList:
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
        if _is_visible(may, trace)
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
