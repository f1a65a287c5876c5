"""A trace as it is shown: its spans in order, and how the message is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.tracing.context import PLACE_CHARS, offset_in
from goqueue.tracing.events import Entry, Span, span_of
from goqueue.tracing.statuses import Status, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class Trace(msgspec.Struct, frozen=True):
    """Everything that is known of one message."""

    trace_id: str
    topic: str
    partition: int | None
    offset: int | None
    start_ns: int
    end_ns: int
    status: Status
    spans: list[Span]

    @property
    def duration_ns(self) -> int:
        """From the first thing that happened to the last."""
        return self.end_ns - self.start_ns


def trace_of(spans: Iterable[Span]) -> Trace:
    """A trace of at least one span. Spans that are there twice count once."""
    known = {(span.span_id, span.timestamp_ns): span for span in spans}
    ordered = sorted(known.values(), key=_began)
    placed = next((each for each in ordered if each.offset is not None), ordered[0])
    return Trace(
        ordered[0].trace_id,
        placed.topic,
        placed.partition,
        placed.offset,
        min(span.timestamp_ns - span.duration_ns for span in ordered),
        max(span.timestamp_ns for span in ordered),
        status_of(ordered),
        ordered,
    )


def _began(span: Span) -> int:
    return span.timestamp_ns


def assemble(entries: Iterable[Entry], trace_ids: Iterable[str]) -> dict[str, Trace]:
    """The traces with these ids, as far as the entries tell; in one pass over them."""
    wanted = set(trace_ids)
    places: dict[str, dict[int, str]] = {}
    for trace_id in wanted:
        place = trace_id[:PLACE_CHARS]
        offset = offset_in(place, trace_id)
        if offset is not None:
            places.setdefault(place, {})[offset] = trace_id
    spans: dict[str, list[Span]] = {}
    for entry in entries:
        if entry.trace:
            if entry.trace in wanted:
                spans.setdefault(entry.trace, []).append(span_of(entry, entry.offset))
        elif entry.place in places:
            for offset, trace_id in _held(entry, places[entry.place]):
                spans.setdefault(trace_id, []).append(span_of(entry, offset))
    return {trace_id: trace_of(found) for trace_id, found in spans.items()}


def _held(entry: Entry, offsets: dict[int, str]) -> Iterable[tuple[int, str]]:
    if entry.count <= len(offsets):
        between = range(entry.offset, entry.end)
        return [(offset, offsets[offset]) for offset in between if offset in offsets]
    return [(offset, trace_id) for offset, trace_id in offsets.items() if entry.holds(offset)]
