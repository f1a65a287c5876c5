"""What the nodes of a cluster have noted of messages, in one answer.

A message is published on one node and may be delivered by another. The leader of its partition is
told what happens to it; what a node has noted before leadership moved, it alone has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from goqueue.protocols.http.api.merging import summed
from goqueue.protocols.http.operations.trace_shapes import (
    SHOWN_SPANS,
    SpanOut,
    TraceList,
    TraceOut,
    TraceStatsAnswer,
    TraceSummary,
)
from goqueue.tracing.events import Span
from goqueue.tracing.views import status_of

if TYPE_CHECKING:
    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments

_T = TypeVar("_T", TraceSummary, TraceOut)


def merge_traces(parts: list[Part], arguments: Arguments) -> TraceList:
    """The newest traces of all nodes."""
    found: dict[str, list[TraceSummary]] = {}
    for part in parts:
        for trace in part.answer.traces:
            found.setdefault(trace.trace_id, []).append(trace)
    whole = [_whole(each) for each in found.values()]
    whole.sort(key=lambda each: each.end, reverse=True)
    is_complete = all(part.answer.complete for part in parts)
    return TraceList(whole[: arguments["query"].limit], is_complete)


def merge_trace(parts: list[Part], _arguments: Arguments) -> TraceOut:
    """One trace with the events of all nodes, as they happened, each once."""
    answers: list[TraceOut] = [part.answer for part in parts]
    told = [span for each in answers for span in each.spans]
    spans = [*{(each.span_id, each.timestamp_ns): each for each in told}.values()]
    spans.sort(key=lambda each: each.timestamp_ns)
    count = sum(each.span_count for each in answers) - (len(told) - len(spans))
    whole = _whole(answers)
    return msgspec.structs.replace(
        whole,
        status=status_of(map(_noted, spans)) if len(answers) > 1 else whole.status,
        spans=spans[:SHOWN_SPANS],
        span_count=count,
    )


def merge_trace_stats(parts: list[Part], _arguments: Arguments) -> TraceStatsAnswer:
    """All counts together."""
    answers: list[TraceStatsAnswer] = [part.answer for part in parts]
    return msgspec.structs.replace(summed(answers), sampling=answers[0].sampling)


def _whole(parts: list[_T]) -> _T:
    """One trace out of what nodes have of it: the node that has most of it knows its status."""
    most = max(parts, key=_known)
    first = min(parts, key=lambda each: each.start)
    end = max(each.end for each in parts)
    placed = next((each for each in parts if each.offset is not None), first)
    duration_ms = max(float(end - first.start), *(each.duration_ms for each in parts))
    return msgspec.structs.replace(
        most,
        topic=placed.topic,
        partition=placed.partition,
        offset=placed.offset,
        start=first.start,
        end=end,
        duration_ms=duration_ms if len(parts) > 1 else most.duration_ms,
    )


def _known(trace: TraceSummary | TraceOut) -> tuple[int, int]:
    """How much a node has of a trace, and until when."""
    count = trace.spans if isinstance(trace, TraceSummary) else trace.span_count
    return count, trace.end


def _noted(span: SpanOut) -> Span:
    """What a status follows from."""
    return Span(
        span.trace_id,
        span.span_id,
        span.parent_id or "",
        span.event,
        span.timestamp_ns,
        0,
        span.topic or "",
        span.partition,
        span.offset,
        None,
        span.consumer_group or "",
        span.consumer or "",
        "",
        None,
        None,
        "",
        span.node,
        span.attributes,
    )
