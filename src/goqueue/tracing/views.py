"""A trace as it is shown: its spans in order, and how the message is doing."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from goqueue.tracing.context import PLACE_CHARS, offset_in
from goqueue.tracing.events import Entry, Event, Span, span_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_Place: TypeAlias = "tuple[str, int | None, int | None]"


class Status(StrEnum):
    """How a message is doing."""

    DELAYED = "delayed"
    PENDING = "pending"
    """It is stored, and no group has fetched it."""
    IN_PROGRESS = "in_progress"
    """A consumer has it."""
    RETRYING = "retrying"
    """It failed, or took too long, and will be delivered again."""
    COMPLETED = "completed"
    FAILED = "failed"
    """It was refused when it was published, or was dead-lettered."""
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
"""What an event makes of a message for all groups; what they knew before is over. Also of what is
no message yet, or never."""
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
_LEAST_FAR_FIRST: Final = (
    Status.IN_PROGRESS,
    Status.RETRYING,
    Status.DELAYED,
    Status.PENDING,
    Status.FAILED,
    Status.COMPLETED,
    Status.CANCELLED,
    Status.EXPIRED,
)
_QUIET: Final = frozenset({Event.PARTITIONED, Event.PERSISTED})
"""A fast consumer may have the message before it is known to be on the disk."""


def status_of(spans: Iterable[Span]) -> Status:
    """How the messages of a trace are doing, from what happened to them in this order.

    Mostly it is one; a producer may name the same trace in several. With several messages, or
    several groups, it is as far as what is least far.
    """
    messages = _Messages()
    for span in spans:
        if span.event in _OF_GROUP:
            messages.in_group(span, _OF_GROUP[span.event])
        elif span.event in _OF_MESSAGE:
            messages.for_all(span, _OF_MESSAGE[span.event])
    return messages.status()


class _Stored:
    """How one message is doing that has its place."""

    __slots__ = ("groups", "status")

    def __init__(self) -> None:
        self.status = Status.PENDING
        self.groups: dict[str, Status] = {}
        """What groups have done with it, which counts for more."""


class _Messages:
    """How each message of a trace is doing."""

    def __init__(self) -> None:
        self._elsewhere = Status.PENDING
        """The last event of something without a place: it counts if there is nothing else."""
        self._waiting: dict[str, Status] = {}
        """Delayed messages, by their ids."""
        self._stored: dict[_Place, _Stored] = {}

    def in_group(self, span: Span, status: Status) -> None:
        """A group has done something with a message."""
        # A Fetch does not name its group: only the commit tells that a log group has the message.
        if span.group or span.event != Event.FETCHED:
            self._at(span).groups[span.group] = status

    def for_all(self, span: Span, status: Status) -> None:
        """Something happened to a message that is the same for all groups."""
        delayed_id = span.attributes.get("delayed_id")
        if delayed_id is not None:
            self._waiting[delayed_id] = status
        elif span.offset is None:
            self._elsewhere = status
        else:
            if span.event == Event.DELAY_READY:
                self._waits_no_more()
            if span.event == Event.RECEIVED and "redriven" in span.attributes:
                self._forget_dead()
            stored = self._at(span)
            stored.status = status
            if span.event not in _QUIET:
                stored.groups.clear()

    def _at(self, span: Span) -> _Stored:
        return self._stored.setdefault((span.topic, span.partition, span.offset), _Stored())

    def _waits_no_more(self) -> None:
        """A delayed message has its place; of several it matters little which one it was."""
        for delayed_id, status in self._waiting.items():
            if status is Status.DELAYED:
                del self._waiting[delayed_id]
                return

    def _forget_dead(self) -> None:
        """A dead message comes back at another place: where it died it is dead no more."""
        for place, stored in list(self._stored.items()):
            for group in [name for name, each in stored.groups.items() if each is Status.FAILED]:
                del stored.groups[group]
                if not stored.groups:
                    del self._stored[place]

    def status(self) -> Status:
        """That of what is least far."""
        found = {*self._waiting.values()}
        for stored in self._stored.values():
            found.update(stored.groups.values() or (stored.status,))
        return next((each for each in _LEAST_FAR_FIRST if each in found), self._elsewhere)


def events_of(status: Status) -> frozenset[str]:
    """The events of which a message in that state has had at least one."""
    every = {**_OF_MESSAGE, **_OF_GROUP}
    return frozenset(event for event, each in every.items() if each is status)


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
