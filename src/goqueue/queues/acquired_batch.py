"""What one partition gives to one poll: taken, read, cut to size, and rid of what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.model.dead_letters import Reason
from goqueue.model.delivery import TTL_HEADER, milliseconds
from goqueue.model.limits import MAX_REASON_CHARS
from goqueue.model.ranges import Range, around
from goqueue.model.topic_partition import TopicIdPartition
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.damage import describe
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.decisions import doom
from goqueue.queues.delivery.line import Reservation
from goqueue.queues.delivery.operations import LaneRange, Operation
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.receipts import Receipt
from goqueue.reading.record_reader import Loaded, RecordSource

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from goqueue.queues.delivery.settings import QueueSettings
    from goqueue.reading.record_reader import StoredBatch
    from goqueue.records import Record


class Delivery(NamedTuple):
    """One message, handed to one member until a deadline."""

    topic: str
    partition: int
    record: Record
    priority: int
    delivery_count: int
    nonce: int
    deadline_ms: int
    shard: int | None = None
    """What keeps the group, in a cluster."""

    @property
    def receipt(self) -> Receipt:
        """What the member shows to say what became of the message."""
        return Receipt(
            self.topic,
            self.partition,
            self.record.offset,
            self.delivery_count,
            self.nonce,
            self.shard,
        )


class Marks(NamedTuple):
    """What the receipts of a range of messages say, as it was when they were taken.

    By the time that the delivery is committed and told, some may be somebody else's already.
    """

    lane: int
    first: int
    end: int
    counts: bytes
    nonces: array[int]


class Span(NamedTuple):
    """Messages in a row of one batch, of one lane."""

    lane: int
    batch: StoredBatch
    first: int
    end: int
    counts: bytes
    nonces: array[int]


class Portion(msgspec.Struct):
    """What one partition has for one poll: reserved and read, then decided on and taken."""

    partition: RecordSource
    queue: PartitionQueue
    key: TopicIdPartition
    reservation: Reservation
    loaded: Loaded
    shard: int | None = None
    """What keeps the group, in a cluster."""
    changes: list[Operation] = msgspec.field(default_factory=list)
    """What is to become of messages that cannot be handed out."""
    back: list[Range] = msgspec.field(default_factory=list)
    """Messages for which there is no room: they are offered again."""
    ranges: list[LaneRange] = msgspec.field(default_factory=list)
    """What is handed out."""
    deadline_ms: int = 0
    marks: list[Marks] = msgspec.field(default_factory=list)
    """One for each range that was taken."""

    def decide(self, now_ms: int, visibility_ms: int, seed: bytes) -> list[Operation]:
        """What is to be stored: the messages are the member's, the others done with or dead."""
        if self.reservation.is_touched:
            self._leave_out_what_is_gone()
        ranges = self.ranges = self._lane_ranges()
        if not ranges:
            return self.changes
        reservation = self.reservation
        taken = self.queue.taken(
            ranges, reservation.member, now_ms, visibility_ms, seed, lease=reservation.lease
        )
        self.deadline_ms = taken.deadline_ms
        return [taken, *self.changes]

    def _leave_out_what_is_gone(self) -> None:
        """Somebody was done with messages while they were read."""
        window = self.queue.window
        self.loaded.parts[:] = [
            (batch, *part)
            for batch, first, end in self.loaded.parts
            for part in window.in_state(first, end, MessageState.AVAILABLE)
        ]

    def _parts_by_lane(self) -> Iterator[tuple[int, StoredBatch, int, int]]:
        reserved = iter(self.reservation.ranges)
        lane, from_, to = next(reserved)
        for batch, first, end in self.loaded.parts:
            while not from_ <= first < to:
                lane, from_, to = next(reserved)
            yield lane, batch, first, end

    def _lane_ranges(self) -> list[LaneRange]:
        """What is to be handed out, in as few ranges as possible."""
        found: list[LaneRange] = []
        for lane, _, first, end in self._parts_by_lane():
            if found and found[-1][0] == lane and found[-1][2] == first:
                found[-1] = lane, found[-1][1], end
            else:
                found.append((lane, first, end))
        return found

    def batches_by_lane(self) -> dict[tuple[int, int], StoredBatch]:
        """The batches that messages come from, by lane and first offset."""
        return {
            (lane, batch.info.base_offset): batch for lane, batch, _, _ in self._parts_by_lane()
        }

    def taken(self) -> None:
        """The messages are the member's now."""
        window = self.queue.window
        self.marks = [
            Marks(lane, first, end, window.counts(first, end), window.nonces(first, end))
            for lane, first, end in self.ranges
        ]

    def spans(self) -> Iterator[Span]:
        """The messages as they lie in their batches, in the order in which they were taken."""
        marks = iter(self.marks)
        lane, from_, to, counts, nonces = next(marks)
        for batch, first, end in self.loaded.parts:
            while not from_ <= first < to:
                lane, from_, to, counts, nonces = next(marks)
            if first == from_ and end == to:
                yield Span(lane, batch, first, end, counts, nonces)
            else:
                part = slice(first - from_, end - from_)
                yield Span(lane, batch, first, end, counts[part], nonces[part])

    def deliveries(self) -> Iterator[Delivery]:
        """The messages one by one."""
        topic, number = self.partition.id
        deadline_ms, shard = self.deadline_ms, self.shard
        for lane, batch, first, end, counts, nonces in self.spans():
            for record in batch.rows(first, end):
                at = record.offset - first
                yield Delivery(
                    topic, number, record, lane, counts[at], nonces[at], deadline_ms, shard
                )


def cut(portion: Portion, left_bytes: int, *, is_first: bool) -> int:
    """Give back what there is no room for, by the message; says how much room is left."""
    kept: list[tuple[StoredBatch, int, int]] = []
    back: list[Range] = []
    for batch, first, end in portion.loaded.parts:
        per_record = batch.record_bytes
        room = max(left_bytes // per_record, 0)
        if not kept and is_first:
            room = max(room, 1)
        upto = min(end, first + room)
        if upto > first:
            kept.append((batch, first, upto))
            left_bytes -= (upto - first) * per_record
        if end > upto:
            back += around(upto, end, portion.loaded.gone)
    portion.loaded.parts[:] = kept
    portion.back += back
    return left_bytes


def sift(portion: Portion, settings: QueueSettings, now_ms: int) -> None:
    """Be done with what is not there, and dead-letter what does not decode.

    Records in a row that do not decode are one letter, at the first of their offsets.
    """
    if portion.loaded.gone:
        portion.changes.append(ops.Settled(list(portion.loaded.gone)))
    for fault in portion.loaded.faults:
        first, end = fault.first, fault.end
        if first + 1 < end:
            portion.changes.append(ops.Settled([(first + 1, end)]))
        why = describe(fault)[:MAX_REASON_CHARS]
        portion.changes += doom([first], Reason.POISON_MESSAGE, settings, now_ms, why)


def may_expire(portion: Portion, ttl_ms: int) -> bool:
    """Whether messages may have a TTL: their topic has one, or a batch says so."""
    return bool(ttl_ms) or any(
        batch.info.has_delivery_headers for batch, _, _ in portion.loaded.parts
    )


def take_expired(portion: Portion, ttl_ms: int, now_ms: int) -> list[int]:
    """Take out the messages whose TTL has expired; returns their offsets."""
    parts: list[tuple[StoredBatch, int, int]] = []
    found: list[int] = []
    for batch, first, end in portion.loaded.parts:
        if not ttl_ms and not batch.info.has_delivery_headers:
            parts.append((batch, first, end))
            continue
        expired = [
            record.offset
            for record in batch.rows(first, end)
            if _is_expired(record, ttl_ms, now_ms)
        ]
        gone = [(offset, offset + 1) for offset in expired]
        parts += ((batch, *part) for part in around(first, end, gone))
        found += expired
    portion.loaded.parts[:] = parts
    return found


def _is_expired(record: Record, ttl_ms: int, now_ms: int) -> bool:
    for name, value in record.headers:
        if name == TTL_HEADER and (own_ms := milliseconds(value)) is not None:
            ttl_ms = own_ms
    return 0 < ttl_ms <= now_ms - record.timestamp_ms
