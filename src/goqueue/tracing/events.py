"""What happens to messages, as it is noted and as it is shown.

What happens to neighbours at once is noted once: an entry is for a range of offsets. Shown is one
span for each message, which is worked out of the entry when somebody asks.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.tracing.context import derived_id, root_span

if TYPE_CHECKING:
    from collections.abc import Iterator


_MAX_COUNT: Final = 1 << 31
"""A batch has no more offsets."""
_MAX_OFFSET: Final = (1 << 63) - 1


class Event(StrEnum):
    """Everything that is noted."""

    RECEIVED = "publish.received"
    PARTITIONED = "publish.partitioned"
    PERSISTED = "publish.persisted"
    VALIDATION_FAILED = "publish.validation_failed"
    FETCHED = "consume.fetched"
    ACKED = "consume.acked"
    NACKED = "consume.nacked"
    REJECTED = "consume.rejected"
    DELAY_SCHEDULED = "delay.scheduled"
    DELAY_READY = "delay.ready"
    DELAY_CANCELLED = "delay.cancelled"
    DELAY_EXPIRED = "delay.expired"
    TIMED_OUT = "visibility.timeout"
    EXTENDED = "visibility.extended"
    DEAD_LETTERED = "dlq.routed"
    REBALANCE_STARTED = "rebalance.start"
    REBALANCE_COMPLETED = "rebalance.complete"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Something that happened, to one message or to `count` neighbours from `offset` on.

    With a `trace` it belongs to that one; without, each message has the trace of its place.
    """

    event: str
    at_ns: int
    """When it was over, since the Unix epoch."""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    """-1 when there is none yet, or never."""
    count: int = 1
    place: str = ""
    """What the traces of the partition's messages begin with."""
    trace: str = ""
    parent: str = ""
    """The span before, of a message whose trace is named."""
    duration_ns: int = 0
    priority: int = -1
    group: str = ""
    consumer: str = ""
    receipt: str = ""
    deliver_at_ms: int = 0
    delay_ms: int = 0
    error: str = ""
    node: str = ""
    attributes: dict[str, str] = {}

    @property
    def end(self) -> int:
        """The offset behind the last."""
        return self.offset + self.count

    @property
    def is_sound(self) -> bool:
        """Whether the fields fit together; what was read from a file may be anything."""
        if not 1 <= self.count <= _MAX_COUNT or not -1 <= self.offset <= _MAX_OFFSET:
            return False
        if self.parent and not _is_hex(self.parent, 16):
            return False
        if self.trace:
            return self.count == 1 and _is_hex(self.trace, 32)
        return _is_hex(self.place, 16) and self.offset >= 0

    def holds(self, offset: int) -> bool:
        """Whether it happened to the message at an offset."""
        return self.offset <= offset < self.offset + self.count

    def trace_at(self, offset: int) -> str:
        """The trace of the message at an offset."""
        return self.trace or derived_id(self.place, offset)

    def traces(self) -> Iterator[tuple[str, int]]:
        """Trace and offset of each message that it happened to, the last first."""
        if self.trace:
            yield self.trace, self.offset
        else:
            for offset in range(self.end - 1, self.offset - 1, -1):
                yield derived_id(self.place, offset), offset


class Span(msgspec.Struct, frozen=True):
    """One event of one message."""

    trace_id: str
    span_id: str
    parent_id: str
    event: str
    timestamp_ns: int
    duration_ns: int
    topic: str
    partition: int | None
    offset: int | None
    priority: int | None
    group: str
    consumer: str
    receipt: str
    deliver_at_ms: int | None
    delay_ms: int | None
    error: str
    node: str
    attributes: dict[str, str]


def span_of(entry: Entry, offset: int) -> Span:
    """What an entry says of the message at an offset."""
    trace_id = entry.trace_at(offset)
    root = root_span(trace_id)
    parent = entry.parent or root
    if entry.event == Event.RECEIVED and parent == root and not entry.attributes:
        span_id, parent = root, ""  # the trace began here
    else:
        span_id = _span_id(entry, trace_id, offset)
    return Span(
        trace_id,
        span_id,
        parent,
        entry.event,
        entry.at_ns,
        entry.duration_ns,
        entry.topic,
        entry.partition if entry.partition >= 0 else None,
        offset if offset >= 0 else None,
        entry.priority if entry.priority >= 0 else None,
        entry.group,
        entry.consumer,
        entry.receipt,
        entry.deliver_at_ms or None,
        entry.delay_ms or None,
        entry.error,
        entry.node,
        dict(entry.attributes),
    )


def _span_id(entry: Entry, trace_id: str, offset: int) -> str:
    said = (trace_id, entry.event, entry.at_ns, entry.group, entry.topic, entry.partition, offset)
    text = "\0".join(map(str, said))
    return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and text.strip("0") != "" and not text.strip("0123456789abcdef")
