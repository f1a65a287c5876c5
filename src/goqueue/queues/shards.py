"""The shards of queue groups: which partition holds a group, what can be read, what was loaded."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.groups.shard import not_coordinator
from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.model import internal_topics
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GroupNotFoundError,
    MetadataError,
)
from goqueue.partitions.damage import DamageKind, DamageReports
from goqueue.queues.delivery.settings import Mode
from goqueue.queues.remote_sources import RemoteSources
from goqueue.queues.shard import QueueShard
from goqueue.queues.sources import QueueSources
from goqueue.queues.start import StartServices
from goqueue.queues.turn_order import TurnOrder
from goqueue.reading.remote_fetch import RemoteFetch
from goqueue.state.certainty import Term, be_certain
from goqueue.state.coordinators import Family
from goqueue.state.shard import ShardStatus
from goqueue.storage.snapshot_kinds import SnapshotKind
from goqueue.topics.stored_ids import stored_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from uuid import UUID

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.groups.stats import OnMember
    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partitions import Partitions
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.traces import QueueTraces
    from goqueue.reading.record_reader import RecordReader
    from goqueue.state.certainty import Confirm
    from goqueue.state.logs import StateLogs
    from goqueue.topics.catalogue import Topics
    from goqueue.topics.routes import Routes

_log = logging.getLogger(__name__)

QUEUE_TOPIC: Final = internal_topics.QUEUE_STATE
QUEUE_PARTITIONS: Final = 8


class SourceSettings(Protocol):
    """What says where messages are read."""

    @property
    def remote_queue_sources(self) -> bool:
        """Whether only leaders are read, never the replicas of this node."""


class QueueServices(StartServices, Protocol):
    """What queue groups need."""

    store: MetadataStore
    state_logs: StateLogs
    topics: Topics
    damage: DamageReports
    partitions: Partitions
    measures: Measures
    queue_traces: QueueTraces
    record_reader: RecordReader
    routes: Routes

    @property
    def settings(self) -> SourceSettings:
        """Where messages are read."""

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""


class QueueLimits(Protocol):
    """How many groups and members there may be; each raises a `GroupQuotaExceededError`."""

    def admit_group(self, group_id: str) -> None:
        """A group is to be made."""

    def admit_member(self, group_id: str, count: int) -> None:
        """A group is to have so many members."""


class QueueShards:
    """One shard for each partition of the queue state topic that this node leads."""

    def __init__(self, services: QueueServices) -> None:
        self._services = services
        self._in_cluster = services.partitions.facts is not None
        if self._in_cluster:  # one node keeps a group's offsets and the state of its queues
            count = services.groups.shard_count
            self._family = Family(QUEUE_TOPIC, count, self._new_shard, OFFSETS_TOPIC, 1)
            services.groups.settle_with(self._family)
        else:
            self._family = Family(QUEUE_TOPIC, QUEUE_PARTITIONS, self._new_shard)
        self.remote_sources: RemoteSources | None = None
        if self._in_cluster:
            fetch = RemoteFetch(services.topics, services.routes)
            self.remote_sources = RemoteSources(fetch, services.routes)
        self.sources = QueueSources(
            services.topics,
            services.partitions,
            self.remote_sources,
            is_forced=services.settings.remote_queue_sources,
        )
        """Where the messages of groups come from."""
        self.limits: QueueLimits | None = None
        """Who bounds groups and members of tenants; set by the broker."""
        self.confirm: Confirm | None = None
        """Who says in which epoch this node keeps groups; None on one node, which keeps all."""
        self.on_dead: Callable[[QueueGroup], None] = lambda _group: None
        """Told of groups that may have dead messages; set by whoever moves them."""
        self.on_member: OnMember | None = None
        """Told of members of shared groups that join and that are gone."""
        self._making = asyncio.Lock()
        self._waiters: dict[str, TurnOrder] = {}
        self._forgetting: set[asyncio.Task[None]] = set()
        """One for each shard that was taken over and is looked through."""
        self._opening: dict[str, asyncio.Task[None]] = {}
        """One for each group that tries again to open partitions whose leaders did not answer."""

    async def start(self) -> None:
        """Load every group that is stored."""
        await self._services.state_logs.coordinators.start(self._family)

    async def stop(self) -> None:
        """Keep the state, and let everyone who waits go."""
        for task in (*self._forgetting, *self._opening.values()):
            task.cancel()
        if self.remote_sources is not None:
            self.remote_sources.stop()
        for waiters in self._waiters.values():
            waiters.wake()
        await asyncio.gather(*(shard.close() for shard in self._family.opened()))

    @property
    def in_cluster(self) -> bool:
        """Whether other nodes may keep groups."""
        return self._in_cluster

    # --- Finding ---------------------------------------------------------------------------------

    def find(self, group_id: str) -> QueueGroup | None:
        """A queue group, if there is one of that name.

        Raises:
            CoordinatorUnavailableError: another node knows.
        """
        shard = self._family.find(group_id)
        if shard is not None and shard.is_readable:
            return shard.groups.get(group_id)
        if shard is not None and self._in_cluster:
            raise shard.state.refusal()
        if QUEUE_TOPIC not in self._services.topics.catalogue.by_name:
            return None
        raise self._led_elsewhere()

    def _led_elsewhere(self) -> CoordinatorUnavailableError:
        if self._in_cluster:
            return not_coordinator()
        return CoordinatorUnavailableError("this node does not coordinate the group; try again")

    def knows(self, group_id: str) -> bool:
        """Whether there is a queue group of that name, as far as this node knows."""
        shard = self._family.find(group_id)
        return shard is not None and group_id in shard.groups

    def shares(self, group_id: str) -> bool:
        """Whether its members share out messages rather than partitions."""
        group = self.find(group_id)
        return group is not None and group.settings.mode is Mode.SHARED and not group.is_dormant

    def group(self, group_id: str) -> QueueGroup:
        """A queue group.

        Raises:
            GroupNotFoundError: there is none of that name.
        """
        group = self.find(group_id)
        if group is None:
            raise GroupNotFoundError(f"there is no queue group {group_id!r}")
        return group

    def __iter__(self) -> Iterator[QueueGroup]:
        shards = (shard for shard in self._family.opened() if shard.is_readable)
        return (each for shard in shards for each in shard.groups.values())

    def reading(self, key: TopicIdPartition, shard: QueueShard | None) -> list[QueueGroup]:
        """The groups of a shard, or of all, that read a partition."""
        shards = self._family.shards.values() if shard is None else (shard,)
        return [each for shard in shards for each in shard.groups.values() if key in each.queues]

    def shard_of(self, group: QueueGroup) -> QueueShard:
        """The shard that keeps a group."""
        return self._family.shards[self._family.number_of(group.group_id)]

    def shard_number(self, group_id: str) -> int:
        """Which partition of the queue state topic holds a group."""
        return self._family.number_of(group_id)

    def opened_shards(self) -> list[int]:
        """The numbers of the partitions of the queue state topic that this node leads."""
        return [number for number, shard in self._family.shards.items() if shard.state.is_open]

    def readable_shard(self, number: int) -> QueueShard:
        """The shard of a partition of the queue state topic.

        Raises:
            CoordinatorUnavailableError: another node keeps it, or it is being loaded.
        """
        shard = self._family.shards.get(number)
        if shard is None:
            raise self._led_elsewhere()
        if not shard.is_readable:
            raise shard.state.refusal()
        return shard

    def term(self, group_id: str) -> Term | None:
        """Where this node decides on a group; None where there is no doubt that it may."""
        shard = self._family.find(group_id) if self.confirm is not None else None
        return None if shard is None else Term(shard.state, shard.state.epoch)

    async def be_certain(self, term: Term | None) -> None:
        """Return when what was decided in a term may be refused. Raises like `be_certain`."""
        if term is not None and self.confirm is not None:
            await be_certain(term, self.confirm)

    def now_ms(self, group: QueueGroup | None = None) -> int:
        """The time by which leases, retries and sessions of a group are counted.

        In a cluster each shard has a clock, which goes on from its log: see `StateShard.now_ms`.
        """
        if group is None or not self._in_cluster:
            return self._services.state_logs.clock.now_ms()
        return self.shard_of(group).now_ms()

    def receipt_shard(self, group: QueueGroup) -> int | None:
        """What a receipt says of where its group is kept; on one node nothing."""
        return self._family.number_of(group.group_id) if self._in_cluster else None

    async def ready(self, group_id: str | None = None) -> None:
        """Wait while groups, or this one, are being built, except where a log refuses changes.

        In a cluster nobody waits: the group may be on its way elsewhere, and is asked for again.
        """
        if self._in_cluster:
            return
        found = None if group_id is None else self._family.find(group_id)
        for shard in self._family.opened() if group_id is None else filter(None, (found,)):
            if shard.state.is_open and shard.state.status is not ShardStatus.ACTIVE:
                with suppress(CoordinatorUnavailableError):
                    await shard.state.active()

    def waiters(self, group_id: str) -> TurnOrder:
        """Those who wait until a group has something for them."""
        found = self._waiters.get(group_id)
        if found is None:
            found = self._waiters[group_id] = TurnOrder()
        return found

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshots of all groups."""
        return self._family.snapshot_bytes

    async def _shard(self, group_id: str) -> QueueShard:
        """The shard of a group, made with the topic that it lives in where it is not there."""
        async with self._making:
            await self._services.create_internal_topic(QUEUE_TOPIC, QUEUE_PARTITIONS)
        shard = self._family.find(group_id)
        if shard is None:
            raise self._led_elsewhere()
        if self._in_cluster:
            shard.state.check()
        await shard.state.active()
        return shard

    def _new_shard(self, number: int) -> QueueShard:
        services = self._services
        log = services.state_logs.change_log(QUEUE_TOPIC, number, SnapshotKind.QUEUES)
        return QueueShard(
            log,
            services.executor,
            on_lost=partial(self._on_lost, str(log.partition.id)),
            on_change=self._on_change,
            on_timeout=self._on_timeout,
            on_gone=services.queue_traces.member_gone,
            on_loaded=self._on_loaded,
            on_left=self.tell_member,
            on_closed=self._on_closed if self._in_cluster else None,
        )

    def tell_member(self, group_id: str, member_id: str, reason: str | None) -> None:
        """A member of a shared group has joined, or is gone for a reason."""
        if self.on_member is not None:
            self.on_member(group_id, member_id, reason)

    def _on_loaded(self, shard: QueueShard) -> None:
        """Forget what was deleted while nobody kept these groups, and go on with what is dead."""
        topics = self._services.topics
        missing = shard.topic_ids() - topics.catalogue.by_id.keys()
        if missing and self._in_cluster:
            task = asyncio.get_running_loop().create_task(self._forget_gone(shard, missing))
            self._forgetting.add(task)
            task.add_done_callback(self._forgetting.discard)
        else:
            shard.close_topics(missing)
        if self._in_cluster:
            for group in shard.groups.values():
                self.on_dead(group)

    def _on_closed(self, groups: Iterable[QueueGroup]) -> None:
        """Another node keeps these groups: whoever waits for messages is to ask there."""
        for group in groups:
            waiters = self._waiters.pop(group.group_id, None)
            if waiters is not None:
                waiters.wake()

    async def _forget_gone(self, shard: QueueShard, missing: set[UUID]) -> None:
        """Whether topics were deleted, the store says: this node may not have heard of new ones."""
        try:
            known = await stored_ids(self._services.store)
        except MetadataError as error:
            _log.warning("queues of topics that may be deleted are kept: %s", error)
            return
        shard.close_topics(missing - known)

    def _on_lost(self, place: str, detail: str) -> None:
        self._services.damage.note(DamageKind.STATE, place, detail, hash(detail))

    def _on_change(self, group: QueueGroup) -> None:
        """Time has changed something in a group."""
        self.waiters(group.group_id).wake()
        self.on_dead(group)

    def _on_timeout(self, group: QueueGroup, key: TopicIdPartition, ranges: list[Range]) -> None:
        topic = self._services.topics.catalogue.by_id.get(key[0])
        if topic is not None:
            count = sum(end - first for first, end in ranges)
            self._services.measures.timed_out(topic.name, group.group_id, count)
        if self._services.queue_traces.is_on:
            self._services.queue_traces.timed_out(group, key, ranges)
