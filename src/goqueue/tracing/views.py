"""A trace as it is shown: its spans in order, and how the message is doing."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.tracing.events import Event, Span, span_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.tracing.events import Entry


class Status(StrEnum):
    """How a message is doing."""

    DELAYED = "delayed"
    PENDING = "pending"
    """It is stored, and nobody has fetched it."""
    IN_PROGRESS = "in_progress"
    """A consumer has it."""
    RETRYING = "retrying"
    """It failed, or took too long, and will be delivered again."""
    COMPLETED = "completed"
    FAILED = "failed"
    """It was refused when it was published, or is among the dead letters."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"


_OF_MESSAGE: Final[dict[str, Status]] = {
    Event.RECEIVED: Status.PENDING,
    Event.PARTITIONED: Status.PENDING,
    Event.PERSISTED: Status.PENDING,
    Event.VALIDATION_FAILED: Status.FAILED,
    Event.DELAY_SCHEDULED: Status.DELAYED,
    Event.DELAY_READY: Status.PENDING,
    Event.DELAY_CANCELLED: Status.CANCELLED,
    Event.DELAY_EXPIRED: Status.EXPIRED,
    Event.REBALANCE_STARTED: Status.IN_PROGRESS,
    Event.REBALANCE_COMPLETED: Status.COMPLETED,
}
"""What an event makes of a message for all groups; what they knew before is over."""
_OF_GROUP: Final[dict[str, Status]] = {
    Event.FETCHED: Status.IN_PROGRESS,
    Event.EXTENDED: Status.IN_PROGRESS,
    Event.ACKED: Status.COMPLETED,
    Event.NACKED: Status.RETRYING,
    Event.TIMED_OUT: Status.RETRYING,
    Event.REJECTED: Status.FAILED,
    Event.DEAD_LETTERED: Status.FAILED,
}
"""What an event makes of a message for one group."""
_WORST_FIRST: Final = (Status.IN_PROGRESS, Status.RETRYING, Status.FAILED, Status.COMPLETED)
_STATUS_OF: Final = {**_OF_MESSAGE, **_OF_GROUP}


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


def status_of(spans: Sequence[Span]) -> Status:
    """How a message is doing, from what happened to it in this order.

    With several groups, the message is as far as the one that is least far.
    """
    status, groups = Status.PENDING, dict[str, Status]()
    for span in spans:
        event = span.event
        if event in _OF_GROUP:
            # Whoever reads the log says nothing afterwards: it leaves no message in progress.
            if span.group or event != Event.FETCHED:
                groups[span.group] = _STATUS_OF[event]
        elif event in _OF_MESSAGE:
            if event not in _QUIET:
                groups.clear()
            status = _STATUS_OF[event]
    return next((each for each in _WORST_FIRST if each in groups.values()), status)


_QUIET: Final = frozenset({Event.PARTITIONED, Event.PERSISTED})
"""A fast consumer may have the message before it is known to be on the disk."""


def events_of(status: Status) -> frozenset[str]:
    """The events of which a message in that state has had at least one."""
    return frozenset(event for event, each in _STATUS_OF.items() if each is status)


def assemble(entries: Iterable[Entry], trace_ids: Iterable[str]) -> dict[str, Trace]:
    """The traces with these ids, as far as the entries tell; in one pass over them."""
    wanted = set(trace_ids)
    prefixes: dict[str, dict[int, str]] = {}
    spans: dict[str, list[Span]] = {}
    for entry in entries:
        if entry.trace:
            if entry.trace in wanted:
                spans.setdefault(entry.trace, []).append(span_of(entry, entry.offset))
            continue
        offsets = prefixes.get(entry.place)
        if offsets is None:
            offsets = prefixes[entry.place] = _offsets(entry, wanted)
        for offset, trace_id in _held(entry, offsets):
            spans.setdefault(trace_id, []).append(span_of(entry, offset))
    return {trace_id: trace_of(found) for trace_id, found in spans.items()}


def _offsets(entry: Entry, wanted: set[str]) -> dict[int, str]:
    """Offset and id of the wanted traces that are of the entry's partition."""
    whole = msgspec.structs.replace(entry, offset=0, count=1 << 63)
    found = ((whole.belongs_to(trace_id), trace_id) for trace_id in wanted)
    return {offset: trace_id for offset, trace_id in found if offset is not None}


def _held(entry: Entry, offsets: dict[int, str]) -> Iterable[tuple[int, str]]:
    if entry.count <= len(offsets):
        between = range(entry.offset, entry.end)
        return [(offset, offsets[offset]) for offset in between if offset in offsets]
    return [(offset, trace_id) for offset, trace_id in offsets.items() if entry.holds(offset)]
