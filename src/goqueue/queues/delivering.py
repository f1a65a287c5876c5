"""Delivering: hand messages of a queue group to a member, each for a while."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import CoordinatorUnavailableError
from goqueue.model.limits import MAX_CACHED_RECORD_BYTES
from goqueue.model.tuples import NamedTuple
from goqueue.queues.acquired_batch import Delivery, Portion, cut
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.group import QueueGroup, Source
from goqueue.queues.runs import Run, runs_of
from goqueue.queues.sifting import SiftServices, sift_portion
from goqueue.queues.turn_order import Place
from goqueue.queues.whole_batches import cut_whole, round_up
from goqueue.reading.remote_source import RemoteSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.partitions.waiting import Waiters
    from goqueue.queues.delivery.line import Reservation
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.members import QueueMember, QueueMembers
    from goqueue.queues.service import Queues
    from goqueue.queues.shard import QueueShard
    from goqueue.reading.record_reader import RecordReader
    from goqueue.records import Record

_MAX_POLLED_BYTES: Final = 50 * 1024 * 1024
_SEED_BYTES: Final = 16
_STEP_S: Final = 0.5
"""How long an owner of partitions waits before it looks whether it still is one; in a cluster,
everybody, whether messages still come from where they came before."""


class DeliveryServices(SiftServices, Protocol):
    """What delivering needs."""

    queue_members: QueueMembers
    record_reader: RecordReader


class _Wanted(NamedTuple):
    """How much a member wants, and for how long; None is as long as its group says."""

    limit: int
    visibility_ms: int | None
    max_bytes: int
    grant: Callable[[int], int] | None = None
    """Of share consumers, who are sent whole batches, however few of their messages: asked, once
    there is something, how many of so many bytes may be read into memory now."""
    rounds_up: bool = False
    """Whoever gets some messages of a batch gets the others as well, past `limit`."""
    is_locked: bool = False
    """The bound of what share consumers may have of a partition together counts."""
    asked_s: float | None = None
    """When the member asked, by the clock of the event loop; None: now."""


class Deliverer:
    """Hands out messages."""

    def __init__(self, services: DeliveryServices, queues: Queues) -> None:
        self._services = services
        self._queues = queues

    async def poll(
        self,
        member: QueueMember,
        *,
        limit: int,
        max_wait_ms: int,
        visibility_ms: int | None = None,
        max_bytes: int = _MAX_POLLED_BYTES,
        partitions: Sequence[TopicPartition] | None = None,
    ) -> list[Delivery]:
        """Up to `limit` messages for a member, the most urgent first, waiting for the first.

        Raises:
            GroupError: it is no member any more.
            CoordinatorUnavailableError: deliveries cannot be stored; nothing was handed out.
        """
        if partitions is None:  # the broker's own readers name theirs, and are no members
            await self._services.queue_members.heartbeat(member)
        wanted = _Wanted(limit, visibility_ms, max_bytes)
        portions = await self._acquire(member, wanted, max_wait_ms, partitions)
        found = [delivery for portion in portions for delivery in portion.deliveries()]
        if len({delivery.priority for delivery in found}) > 1:
            found.sort(key=lambda delivery: delivery.priority)
        self._measure(member, portions, len(found))
        return found

    async def poll_runs(
        self,
        member: QueueMember,
        *,
        limit: int,
        max_wait_ms: int,
        visibility_ms: int | None = None,
        max_bytes: int = _MAX_POLLED_BYTES,
    ) -> list[tuple[Run, list[Record]]]:
        """`poll`, in runs of messages of one partition and one lane. Raises like it."""
        await self._services.queue_members.heartbeat(member)
        wanted = _Wanted(limit, visibility_ms, max_bytes)
        portions = await self._acquire(member, wanted, max_wait_ms)
        runs = runs_of(portions)
        self._measure(member, portions, sum(len(records) for _, records in runs))
        return runs

    def _measure(self, member: QueueMember, portions: list[Portion], count: int) -> None:
        measures = self._services.measures
        measures.polls.add()
        if not count:
            measures.polls_empty.add()
            return
        measures.poll_batch_size.observe(count)
        for portion in portions:
            taken = sum(end - first for _, first, end in portion.loaded.parts)
            measures.delivered(portion.partition.id.topic, member.group_id, taken)
        if self._services.queue_traces.is_on:
            self._services.queue_traces.fetched(member.group_id, member.member_id, portions)

    async def acquire(
        self,
        member: QueueMember,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        limit: int,
        max_wait_ms: int,
        max_bytes: int,
        grant: Callable[[int], int],
        rounds_up: bool = False,
        visibility_ms: int | None = None,
        asked_s: float | None = None,
    ) -> list[Portion]:
        """`poll`, as stored batches, of all partitions or of these; `max_bytes` counts batches.

        With `rounds_up` the last batch is handed out as a whole, past `limit`. With `asked_s` the
        member has asked before now, and is served before those who asked later.

        Whoever names partitions says elsewhere that it is a member, perhaps later: after a restart
        it asks for messages before it has joined again.
        """
        if partitions is None:
            await self._services.queue_members.heartbeat(member)
        is_locked = partitions is not None
        wanted = _Wanted(limit, visibility_ms, max_bytes, grant, rounds_up, is_locked, asked_s)
        portions = await self._acquire(member, wanted, max_wait_ms, partitions)
        count = sum(end - first for portion in portions for _, first, end in portion.loaded.parts)
        self._measure(member, portions, count)
        return portions

    async def _acquire(
        self,
        member: QueueMember,
        wanted: _Wanted,
        max_wait_ms: int,
        partitions: Sequence[TopicPartition] | None = None,
    ) -> list[Portion]:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + max_wait_ms / 1000
        asked_s = loop.time() if wanted.asked_s is None else wanted.asked_s
        place: Place | None = None
        listened: dict[int, Waiters] = {}
        try:
            while True:
                await self._queues.ready(member.group_id)
                group = self._queues.group(member.group_id)
                if member.member_id in group.draining:
                    return []
                if place is None:  # one for the whole wait: who finds nothing keeps its turn
                    place = Place(self._queues.waiters(group.group_id), asked_s)
                mine = partitions
                if mine is None:
                    mine = self._services.queue_members.partitions_of(member)
                if any(self._queues.key(each) not in group.queues for each in mine):
                    place.leave()
                    await self._queues.open_queues(group, mine)
                portions = await self._take(group, member.member_id, mine, wanted, place)
                left_s = deadline_s - loop.time()
                if portions or left_s <= 0:
                    return portions
                place.begin(1)
                for waiters in self._waiters(group, mine):
                    waiters.add(place)
                    listened[id(waiters)] = waiters
                await self._wait(group, member, place, left_s)
        finally:
            if place is not None:
                place.leave()
                for waiters in listened.values():
                    waiters.discard(place)

    # --- Waiting ---------------------------------------------------------------------------------

    def _waiters(
        self, group: QueueGroup, partitions: Sequence[TopicPartition]
    ) -> Iterator[Waiters]:
        """Where to wait for whatever happens, from the step of the look that found nothing."""
        yield self._queues.waiters(group.group_id)
        isolation = group.isolation
        for each in partitions:
            yield self._queues.sources.of(each).waiters_for(isolation)

    async def _wait(
        self, group: QueueGroup, member: QueueMember, place: Place, left_s: float
    ) -> None:
        """Wait for something to happen; a poll counts as a heartbeat."""
        if self._queues.in_cluster:
            left_s = min(left_s, _STEP_S)
        if member.owner is not None:
            await place.wait(min(left_s, _STEP_S))
            place.leave()
            await self._services.queue_members.heartbeat(member)
            return
        shared = group.members.find(member.member_id)
        if shared is None:
            await place.wait(left_s)
            return
        shared.polls += 1
        try:
            await place.wait(left_s)
        finally:
            shared.polls -= 1
            shared.deadline_ms = self._queues.now_ms(group) + shared.session_ms
            self._queues.shard_of(group).wake_at(shared.deadline_ms)

    # --- Taking ----------------------------------------------------------------------------------

    async def _take(
        self,
        group: QueueGroup,
        member_id: str,
        partitions: Sequence[TopicPartition],
        wanted: _Wanted,
        place: Place,
    ) -> list[Portion]:
        """What there is now. Messages that turn out not to be there are passed over.

        Whoever asked earlier and is about to look comes first. Where there is nothing it returns in
        the step in which it has looked.

        Decided on a reservation: the queues change when the decision is stored, not before.
        """
        shard = self._queues.shard_of(group)
        while True:
            shard.state.check()
            sources, trimmed = self._sources(group, partitions, wanted)
            if trimmed:
                place.leave()
                await shard.store(group, trimmed)
                continue
            if place.must_wait:
                await place.turn()
                continue
            reserved = group.reserve(member_id, sources, wanted.limit, shard.now_ms())
            place.leave()
            if not reserved:
                return []
            portions = await self._decided(group, shard, reserved, wanted)
            if any(isinstance(each, ops.Doomed) for p in portions for each in p.changes):
                self._queues.on_dead(group)
            portions = [portion for portion in portions if portion.marks]
            if portions or any(reservation.is_void for _, _, reservation in reserved):
                return portions

    async def _decided(
        self,
        group: QueueGroup,
        shard: QueueShard,
        reserved: list[tuple[TopicIdPartition, PartitionQueue, Reservation]],
        wanted: _Wanted,
    ) -> list[Portion]:
        """Read what was reserved, decide what is handed out, store that, and make it true.

        Raises:
            CoordinatorUnavailableError: nothing of it has happened.
        """
        taken: list[Portion] = []
        try:
            portions = await self._load_all(group, reserved, wanted)
            now_ms = shard.now_ms()
            visibility_ms = wanted.visibility_ms or group.settings.visibility_ms
            current = [
                portion
                for portion in portions
                if group.queues.get(portion.key) is portion.queue
                and not portion.reservation.is_void
            ]
            decided = {
                portion.key: portion.decide(now_ms, visibility_ms, os.urandom(_SEED_BYTES))
                for portion in current
            }
            end_offset = shard.change(group, decided)
            taken = current
            for portion in taken:
                portion.taken()
        finally:
            back = {portion.reservation: portion.back for portion in taken}
            for _, queue, reservation in reserved:
                some = back.get(reservation)
                group.end_reservation(
                    queue, reservation, reservation.offsets if some is None else some
                )
            self._offer_back(group, reserved, taken)
        shard.wake_at(now_ms + visibility_ms)
        await shard.state.committed(end_offset)
        return taken

    def _offer_back(
        self,
        group: QueueGroup,
        reserved: list[tuple[TopicIdPartition, PartitionQueue, Reservation]],
        taken: list[Portion],
    ) -> None:
        """Wake those who may have more, now that less was taken than had been reserved."""
        if len(taken) == len(reserved) and not any(each.back for each in taken):
            done = [each.key for each in taken if each.changes and each.key in group.queues]
            if not done or not group.waits_for_acks(done):
                return
        self._queues.waiters(group.group_id).wake()

    async def _load_all(
        self,
        group: QueueGroup,
        reserved: list[tuple[TopicIdPartition, PartitionQueue, Reservation]],
        wanted: _Wanted,
    ) -> list[Portion]:
        """Read what was reserved, cut to the size that is wanted."""
        portions: list[Portion] = []
        is_shared = wanted.grant is not None
        fit = cut_whole if is_shared else cut
        left_bytes = wanted.max_bytes if wanted.grant is None else wanted.grant(wanted.max_bytes)
        for key, queue, reservation in reserved:
            portion = await self._load(group, key, queue, reservation, opened=not is_shared)
            portions.append(portion)
            left_bytes = fit(portion, left_bytes, is_first=not portions[:-1])
            if wanted.rounds_up:
                round_up(group, portion, self._services.record_reader)
            sift_portion(self._services, group, portion)
        return portions

    def _sources(
        self, group: QueueGroup, partitions: Sequence[TopicPartition], wanted: _Wanted
    ) -> tuple[list[Source], dict[TopicIdPartition, list[Operation]]]:
        """Where to take from; first, what retention has taken away must be done with."""
        isolation = group.isolation
        sources: list[Source] = []
        trimmed: dict[TopicIdPartition, list[Operation]] = {}
        for each in partitions:
            partition = self._queues.sources.of(each)
            if isinstance(partition, RemoteSource) and not partition.is_live:
                continue  # its leader is away: the others have something meanwhile
            key = self._queues.key(each)
            queue = group.queues.get(key)
            if queue is None:
                continue  # its leader has not told where to begin
            if queue.follow(partition.lanes):  # those who wait have heard nothing of this source
                self._queues.waiters(group.group_id).wake()
            if partition.log_start > queue.start:
                trimmed[key] = [ops.Settled([(queue.start, partition.log_start)])]
            room = group.room(key) if wanted.is_locked else None
            sources.append(Source(key, partition.readable_to(isolation), room))
        return sources, trimmed

    async def _load(
        self,
        group: QueueGroup,
        key: TopicIdPartition,
        queue: PartitionQueue,
        reservation: Reservation,
        *,
        opened: bool,
    ) -> Portion:
        """Read what was reserved, and open it: what does not decode is known before it is taken."""
        partition = self._queues.sources.find(key)
        if partition is None or key not in group.queues:
            raise CoordinatorUnavailableError("the topic was just deleted")
        topic = self._services.topics.catalogue.by_name.get(partition.id.topic)
        opened = opened or (topic is not None and bool(topic.settings.ttl_ms))
        loaded = await self._services.record_reader.load(
            partition,
            reservation.offsets,
            opened=opened,
            max_bytes=MAX_CACHED_RECORD_BYTES,
            isolation=group.isolation,
        )
        shard = self._queues.receipt_shard(group)
        return Portion(partition, queue, key, reservation, loaded, shard, back=list(loaded.rest))
