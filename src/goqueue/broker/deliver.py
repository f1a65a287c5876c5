"""Delivering: hand messages of a queue group to a member, each for a while."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.broker.partition import Isolation
from goqueue.broker.portions import cut_whole
from goqueue.broker.runs import runs_of
from goqueue.broker.waiting import Waiter
from goqueue.delivery import operations as ops
from goqueue.delivery.decisions import doom
from goqueue.delivery.group import Source
from goqueue.delivery.operations import Reason
from goqueue.delivery.receipts import Receipt
from goqueue.model.delivery import TTL_HEADER
from goqueue.model.errors import CoordinatorUnavailableError

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.broker.broker import Broker
    from goqueue.broker.partition import Partition, PartitionId
    from goqueue.broker.queues import QueueMember, Queues
    from goqueue.broker.record_reader import Loaded, StoredBatch
    from goqueue.broker.runs import Run
    from goqueue.delivery.group import QueueGroup, QueueKey
    from goqueue.delivery.operations import Operation, Range
    from goqueue.delivery.queue import PartitionQueue
    from goqueue.records import Record

MAX_POLLED_BYTES: Final = 50 * 1024 * 1024
_SEED_BYTES: Final = 16
_STEP_S: Final = 0.5
"""How long an owner of partitions waits before it looks whether it still is one."""


class Delivery(NamedTuple):
    """One message, handed to one member until a deadline."""

    topic: str
    partition: int
    record: Record
    priority: int
    delivery_count: int
    nonce: int
    deadline_ms: int

    @property
    def receipt(self) -> Receipt:
        """What the member shows to say what became of the message."""
        return Receipt(
            self.topic, self.partition, self.record.offset, self.delivery_count, self.nonce
        )


class _Wanted(NamedTuple):
    """How much a member wants, and for how long; None is as long as its group says."""

    limit: int
    visibility_ms: int | None
    max_bytes: int
    grant: Callable[[int], int] | None = None
    """Of whoever takes whole batches, however few of their messages: asked, once there is
    something, how many of so many bytes may be read into memory now."""


class Marks(NamedTuple):
    """What the receipts of a range of messages say, as it was when they were taken.

    By the time that the delivery is stored and told, some may be somebody else's already.
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


@dataclass(slots=True)
class Portion:
    """What one partition has given to one poll."""

    partition: Partition
    queue: PartitionQueue
    key: QueueKey
    taken: ops.Taken
    marks: list[Marks]
    """One for each range that was taken."""
    loaded: Loaded
    changes: list[Operation] = field(default_factory=list)

    @property
    def is_held(self) -> bool:
        """Whether the messages are still with the member that they were taken for."""
        return self.taken.lease in self.queue.window.leases or bool(self.changes)

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
        deadline_ms = self.taken.deadline_ms
        for lane, batch, first, end, counts, nonces in self.spans():
            for record in batch.rows(first, end):
                at = record.offset - first
                yield Delivery(topic, number, record, lane, counts[at], nonces[at], deadline_ms)

    def acquired(self) -> Iterator[tuple[int, int, int]]:
        """First and last offset of each run of messages, and how often they were delivered."""
        for span in self.spans():
            first = span.first
            for count, same in groupby(span.counts):
                end = first + sum(1 for _ in same)
                yield first, end - 1, count
                first = end


class Deliverer:
    """Hands out messages."""

    def __init__(self, broker: Broker, queues: Queues) -> None:
        self._broker = broker
        self._queues = queues

    async def poll(
        self,
        member: QueueMember,
        *,
        limit: int,
        max_wait_ms: int,
        visibility_ms: int | None = None,
        max_bytes: int = MAX_POLLED_BYTES,
    ) -> list[Delivery]:
        """Up to `limit` messages for a member, the most urgent first, waiting for the first.

        Raises:
            GroupError: it is no member any more.
            CoordinatorUnavailableError: deliveries cannot be stored; nothing was handed out.
        """
        await self._queues.heartbeat(member)
        wanted = _Wanted(limit, visibility_ms, max_bytes)
        portions = await self._acquire(member, wanted, max_wait_ms)
        found = [delivery for portion in portions for delivery in portion.deliveries()]
        if len({delivery.priority for delivery in found}) > 1:
            found.sort(key=lambda delivery: delivery.priority)
        self._measure(member.group_id, portions, len(found))
        return found

    async def poll_runs(
        self,
        member: QueueMember,
        *,
        limit: int,
        max_wait_ms: int,
        visibility_ms: int | None = None,
        max_bytes: int = MAX_POLLED_BYTES,
    ) -> list[tuple[Run, list[Record]]]:
        """`poll`, in runs of messages of one partition and one lane. Raises like it."""
        await self._queues.heartbeat(member)
        wanted = _Wanted(limit, visibility_ms, max_bytes)
        portions = await self._acquire(member, wanted, max_wait_ms)
        shard = self._queues.shard_of(self._queues.group(member.group_id))
        runs = runs_of(portions, shard.generation)
        self._measure(member.group_id, portions, sum(len(records) for _, records in runs))
        return runs

    def _measure(self, group_id: str, portions: list[Portion], count: int) -> None:
        measures = self._broker.measures
        measures.polls.add()
        if not count:
            measures.polls_empty.add()
            return
        measures.poll_batch_size.observe(count)
        for portion in portions:
            taken = sum(end - first for _, first, end in portion.loaded.parts)
            measures.delivered(portion.partition.id.topic, group_id, taken)

    async def acquire(
        self,
        member: QueueMember,
        partitions: Sequence[PartitionId],
        *,
        limit: int,
        max_wait_ms: int,
        max_bytes: int,
        grant: Callable[[int], int],
    ) -> list[Portion]:
        """`poll`, as stored batches, of these partitions alone; `max_bytes` counts whole batches.

        Whoever takes messages so says elsewhere that it is a member, perhaps later: after a
        restart it asks for messages before it has joined again.
        """
        wanted = _Wanted(limit, None, max_bytes, grant)
        portions = await self._acquire(member, wanted, max_wait_ms, partitions)
        count = sum(end - first for portion in portions for _, first, end in portion.loaded.parts)
        self._measure(member.group_id, portions, count)
        return portions

    async def _acquire(
        self,
        member: QueueMember,
        wanted: _Wanted,
        max_wait_ms: int,
        partitions: Sequence[PartitionId] | None = None,
    ) -> list[Portion]:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + max_wait_ms / 1000
        while True:
            group = self._queues.group(member.group_id)
            mine = self._queues.partitions_of(member) if partitions is None else partitions
            if any(self._queues.key(each) not in group.queues for each in mine):
                await self._queues.open_queues(group, mine)
            waiter = self._listen(group, mine)
            try:
                portions = await self._take(group, member.member_id, mine, wanted)
                left_s = deadline_s - loop.time()
                if portions or left_s <= 0:
                    return portions
                await self._wait(group, member, waiter, left_s)
            finally:
                self._hush(group, mine, waiter)

    # --- Waiting ---------------------------------------------------------------------------------

    def _listen(self, group: QueueGroup, partitions: Sequence[PartitionId]) -> Waiter:
        """Be told of whatever happens from now on; before looking, so that nothing is missed."""
        waiter = Waiter(1)
        self._queues.waiters(group.group_id).add(waiter)
        for each in partitions:
            partition = self._broker.partitions.partition(each)
            partition.waiters_for(Isolation.READ_COMMITTED).add(waiter)
        return waiter

    def _hush(self, group: QueueGroup, partitions: Sequence[PartitionId], waiter: Waiter) -> None:
        self._queues.waiters(group.group_id).discard(waiter)
        for each in partitions:
            partition = self._broker.partitions.find(each)
            if partition is not None:
                partition.waiters_for(Isolation.READ_COMMITTED).discard(waiter)

    async def _wait(
        self, group: QueueGroup, member: QueueMember, waiter: Waiter, left_s: float
    ) -> None:
        """Wait for something to happen; whoever waits is alive."""
        if member.owner is not None:
            await waiter.wait(min(left_s, _STEP_S))
            await self._queues.heartbeat(member)
            return
        shared = group.members.find(member.member_id)
        if shared is None:
            await waiter.wait(left_s)
            return
        shared.polls += 1
        try:
            await waiter.wait(left_s)
        finally:
            shared.polls -= 1
            shared.deadline_ms = self._queues.now_ms() + shared.session_ms
            self._queues.shard_of(group).wake_at(shared.deadline_ms)

    # --- Taking ----------------------------------------------------------------------------------

    async def _take(
        self,
        group: QueueGroup,
        member_id: str,
        partitions: Sequence[PartitionId],
        wanted: _Wanted,
    ) -> list[Portion]:
        """What there is now. Messages that turn out not to be there are passed over."""
        while True:
            shard = self._queues.shard_of(group)
            shard.check_writable()
            sources, changes = self._sources(group, partitions)
            now_ms = self._queues.now_ms()
            taken = group.take(
                member_id,
                sources,
                wanted.limit,
                now_ms=now_ms,
                visibility_ms=wanted.visibility_ms or group.settings.visibility_ms,
                draw=lambda: os.urandom(_SEED_BYTES),
            )
            if not taken:
                await shard.store(group, changes)
                return []
            generation = shard.generation
            marks = [_marks(group.queues[key], operation) for key, operation in taken]
            portions: list[Portion] = []
            try:
                left_bytes = wanted.max_bytes
                if wanted.grant is not None:
                    left_bytes = wanted.grant(left_bytes)
                for (key, operation), marked in zip(taken, marks, strict=True):
                    portion = await self._load(group, key, operation, marked)
                    portions.append(portion)
                    cut = self._cut if wanted.grant is None else self._cut_whole
                    left_bytes = cut(portion, left_bytes, is_first=not portions[:-1])
                    self._sift(group, portion, now_ms)
            except BaseException:
                self._untake(group, taken, portions)
                raise
            if shard.generation != generation:
                raise CoordinatorUnavailableError("the queue's state was built anew; try again")
            # What it took the disk too long to read is somebody else's again.
            portions = [each for each in portions if each.is_held]
            for portion in portions:
                changes.setdefault(portion.key, []).extend((portion.taken, *portion.changes))
            await shard.store(group, changes)
            shard.wake_at(taken[0][1].deadline_ms)
            if any(isinstance(each, ops.Doomed) for p in portions for each in p.changes):
                self._broker.dead_letters.look(group)
            portions = [portion for portion in portions if portion.loaded.parts]
            if portions:
                return portions

    def _sources(
        self, group: QueueGroup, partitions: Sequence[PartitionId]
    ) -> tuple[list[Source], dict[QueueKey, list[Operation]]]:
        """Where to take from; what retention has taken away meanwhile is done with."""
        sources: list[Source] = []
        changes: dict[QueueKey, list[Operation]] = {}
        for each in partitions:
            partition = self._broker.partitions.partition(each)
            key = self._queues.key(each)
            queue = group.queues[key]
            queue.follow(partition.state.lanes)
            if partition.log_start > queue.start:
                settled = ops.Settled([(queue.start, partition.log_start)])
                queue.apply(settled)
                changes[key] = [settled]
            sources.append(Source(key, partition.readable_to(Isolation.READ_COMMITTED)))
        return sources, changes

    async def _load(
        self, group: QueueGroup, key: QueueKey, taken: ops.Taken, marks: list[Marks]
    ) -> Portion:
        partition = self._queues.partition(key)
        queue = group.queues[key]
        if partition is None:
            raise CoordinatorUnavailableError("the topic was just deleted")
        ranges = [(first, end) for _, first, end in taken.ranges]
        loaded = await self._broker.record_reader.load(partition, ranges)
        return Portion(partition, queue, key, taken, marks, loaded)

    def _cut(self, portion: Portion, left_bytes: int, *, is_first: bool) -> int:
        """Give back what there is no room for; says how much room is left."""
        kept: list[tuple[StoredBatch, int, int]] = []
        back: list[Range] = []
        for batch, first, end in portion.loaded.parts:
            per_record = max(batch.info.size_bytes // max(batch.info.count, 1), 1)
            room = max(left_bytes // per_record, 0)
            if not kept and is_first:
                room = max(room, 1)
            cut = min(end, first + room)
            if cut > first:
                kept.append((batch, first, cut))
                left_bytes -= (cut - first) * per_record
            if end > cut:
                back.append((cut, end))
        if back:
            portion.loaded.parts[:] = kept
            back = [
                part for first, end in back for part in _without(first, end, portion.loaded.gone)
            ]
            self._change(portion, ops.Untaken(back, portion.taken.lease))
        return left_bytes

    def _cut_whole(self, portion: Portion, left_bytes: int, *, is_first: bool) -> int:
        left_bytes, back = cut_whole(portion, left_bytes, is_first=is_first)
        if back:
            self._change(portion, ops.Untaken(back, portion.taken.lease))
        return left_bytes

    def _sift(self, group: QueueGroup, portion: Portion, now_ms: int) -> None:
        """Be done with what is not there, and with messages that have outlived themselves."""
        if portion.loaded.gone:
            self._change(portion, ops.Settled(list(portion.loaded.gone)))
        settings = self._broker.topics.catalogue.topic(portion.partition.id.topic).settings
        ttl_ms = settings.ttl_ms or 0
        parts: list[tuple[StoredBatch, int, int]] = []
        for batch, first, end in portion.loaded.parts:
            if not ttl_ms and not batch.info.has_delivery_headers:
                parts.append((batch, first, end))
                continue
            expired = [
                record.offset
                for record in batch.rows(first, end)
                if _is_expired(record, ttl_ms, now_ms)
            ]
            parts += ((batch, *part) for part in _between(first, end, expired))
            if expired:
                self._broker.measures.expired(portion.partition.id.topic, len(expired))
                self._change(portion, ops.Untaken(ops.ranges_of(expired)))
                buried = group.settings if settings.dead_letters_expired else None
                for operation in (
                    [ops.Settled(ops.ranges_of(expired))]
                    if buried is None
                    else doom(expired, Reason.TTL_EXPIRED, buried, now_ms)
                ):
                    self._change(portion, operation)
        portion.loaded.parts[:] = parts

    def _change(self, portion: Portion, operation: Operation) -> None:
        portion.queue.apply(operation)
        portion.changes.append(operation)

    def _untake(
        self,
        group: QueueGroup,
        taken: list[tuple[QueueKey, ops.Taken]],
        portions: list[Portion],
    ) -> None:
        """Make as if nothing had been taken; nothing of it was stored."""
        changed = {portion.key for portion in portions if portion.changes}
        for key, operation in taken:
            queue = group.queues.get(key)
            if queue is None or key in changed:
                continue  # gone, or its lease ends by itself
            ranges = [(first, end) for _, first, end in operation.ranges]
            queue.apply(ops.Untaken(ranges, operation.lease))


def _marks(queue: PartitionQueue, taken: ops.Taken) -> list[Marks]:
    window = queue.window
    return [
        Marks(lane, first, end, window.counts(first, end), window.nonces(first, end))
        for lane, first, end in taken.ranges
    ]


def _is_expired(record: Record, ttl_ms: int, now_ms: int) -> bool:
    for name, value in record.headers:
        if name == TTL_HEADER and value is not None and value.isdigit():
            ttl_ms = int(value)
    return 0 < ttl_ms <= now_ms - record.timestamp_ms


def _between(first: int, end: int, without: list[int]) -> Iterator[Range]:
    """The ranges of [first, end) around single offsets, which rise."""
    for offset in without:
        if offset > first:
            yield first, offset
        first = offset + 1
    if end > first:
        yield first, end


def _without(first: int, end: int, gone: list[Range]) -> Iterator[Range]:
    """The parts of [first, end) that are not gone."""
    offsets = [at for from_, to in gone for at in range(max(from_, first), min(to, end))]
    return _between(first, end, sorted(offsets))
