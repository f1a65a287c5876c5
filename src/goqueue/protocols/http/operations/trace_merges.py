"""What the nodes of a cluster have noted of messages, in one answer.

A message is published on one node and may be delivered by another: each has noted its own events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from goqueue.protocols.http.api.merging import summed
from goqueue.protocols.http.operations.trace_shapes import (
    SHOWN_SPANS,
    TraceList,
    TraceOut,
    TraceStatsAnswer,
    TraceSummary,
)

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
    whole = [
        msgspec.structs.replace(_whole(each), spans=sum(part.spans for part in each))
        for each in found.values()
    ]
    whole.sort(key=lambda each: each.end, reverse=True)
    is_complete = all(part.answer.complete for part in parts)
    return TraceList(whole[: arguments["query"].limit], is_complete)


def merge_trace(parts: list[Part], _arguments: Arguments) -> TraceOut:
    """One trace with the events of all nodes, as they happened."""
    answers: list[TraceOut] = [part.answer for part in parts]
    spans = [span for each in answers for span in each.spans]
    spans.sort(key=lambda each: each.timestamp_ns)
    count = sum(each.span_count for each in answers)
    return msgspec.structs.replace(_whole(answers), spans=spans[:SHOWN_SPANS], span_count=count)


def merge_trace_stats(parts: list[Part], _arguments: Arguments) -> TraceStatsAnswer:
    """All counts together."""
    answers: list[TraceStatsAnswer] = [part.answer for part in parts]
    return msgspec.structs.replace(summed(answers), sampling=answers[0].sampling)


def _whole(parts: list[_T]) -> _T:
    """One trace out of what nodes have of it: its status is that of the last event."""
    last = max(parts, key=lambda each: each.end)
    first = min(parts, key=lambda each: each.start)
    placed = next((each for each in parts if each.offset is not None), first)
    duration_ms = max(float(last.end - first.start), *(each.duration_ms for each in parts))
    return msgspec.structs.replace(
        last,
        topic=placed.topic,
        partition=placed.partition,
        offset=placed.offset,
        start=first.start,
        duration_ms=duration_ms if len(parts) > 1 else last.duration_ms,
    )
