"""Delivering: hand messages of a queue group to a member, each for a while."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.broker.partition import Isolation
from goqueue.broker.waiting import Waiter
from goqueue.delivery import operations as ops
from goqueue.delivery.decisions import doom
from goqueue.delivery.group import Source
from goqueue.delivery.operations import Reason
from goqueue.delivery.receipts import Receipt
from goqueue.model.delivery import TTL_HEADER
from goqueue.model.errors import CoordinatorUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.broker.broker import Broker
    from goqueue.broker.partition import Partition, PartitionId
    from goqueue.broker.queues import QueueMember, Queues
    from goqueue.broker.record_reader import Loaded, StoredBatch
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


@dataclass(slots=True)
class Portion:
    """What one partition has given to one poll."""

    partition: Partition
    queue: PartitionQueue
    key: QueueKey
    taken: ops.Taken
    loaded: Loaded
    changes: list[Operation] = field(default_factory=list)

    def deliveries(self) -> Iterator[Delivery]:
        """The messages one by one."""
        topic, number = self.partition.id
        window, deadline_ms = self.queue.window, self.taken.deadline_ms
        for batch, first, end in self.loaded.parts:
            lane = self._lane(first)
            for record in batch.rows(first, end):
                offset = record.offset
                yield Delivery(
                    topic,
                    number,
                    record,
                    lane,
                    window.count(offset),
                    window.nonce(offset),
                    deadline_ms,
                )

    def _lane(self, offset: int) -> int:
        return next(lane for lane, first, end in self.taken.ranges if first <= offset < end)

    def acquired(self) -> Iterator[tuple[int, int, int]]:
        """First and last offset of each run of messages, and how often they were delivered."""
        window = self.queue.window
        for _, first, end in self.loaded.parts:
            run_first = first
            for offset in range(first + 1, end + 1):
                if offset == end or window.count(offset) != window.count(run_first):
                    yield run_first, offset - 1, window.count(run_first)
                    run_first = offset


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
        portions = await self.acquire(
            member,
            limit=limit,
            max_wait_ms=max_wait_ms,
            visibility_ms=visibility_ms,
            max_bytes=max_bytes,
        )
        found = [delivery for portion in portions for delivery in portion.deliveries()]
        if len({delivery.priority for delivery in found}) > 1:
            found.sort(key=lambda delivery: delivery.priority)
        self._measure(member.group_id, portions, len(found))
        return found

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
        *,
        limit: int,
        max_wait_ms: int,
        visibility_ms: int | None = None,
        max_bytes: int = MAX_POLLED_BYTES,
        partitions: Sequence[PartitionId] | None = None,
    ) -> list[Portion]:
        """`poll`, as stored batches; of these partitions alone, if any are named."""
        wanted = _Wanted(limit, visibility_ms, max_bytes)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + max_wait_ms / 1000
        await self._queues.heartbeat(member)
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
        shared = group.members.get(member.member_id)
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
            portions: list[Portion] = []
            try:
                left_bytes = wanted.max_bytes
                for key, operation in taken:
                    portion = await self._load(group, key, operation)
                    portions.append(portion)
                    left_bytes = self._cut(portion, left_bytes, is_first=not portions[:-1])
                    self._sift(group, portion, now_ms)
            except BaseException:
                self._untake(group, taken, portions)
                raise
            if shard.generation != generation:
                raise CoordinatorUnavailableError("the queue's state was built anew; try again")
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

    async def _load(self, group: QueueGroup, key: QueueKey, taken: ops.Taken) -> Portion:
        partition = self._queues.partition(key)
        queue = group.queues[key]
        if partition is None:
            raise CoordinatorUnavailableError("the topic was just deleted")
        ranges = [(first, end) for _, first, end in taken.ranges]
        loaded = await self._broker.record_reader.load(partition, ranges)
        return Portion(partition, queue, key, taken, loaded)

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
            self._change(portion, ops.Untaken(back))
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
            queue.apply(ops.Untaken([(first, end) for _, first, end in operation.ranges]))


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
