"""Consumer groups as a use case: find the shard of a group and let it act."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

import mmh3

from goqueue.groups.member_memory import MemberMemory
from goqueue.groups.messages import (
    JOINING_EPOCH,
    ConsumerHeartbeatResult,
    Done,
    GroupOutcomes,
    JoinResult,
    LeaveResult,
    PartitionOutcomes,
    StreamsHeartbeatResult,
    SyncResult,
)
from goqueue.groups.shard import GroupShard
from goqueue.groups.streams.internal_topics import TopicCreation, with_internal_topics
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model import internal_topics
from goqueue.model.errors import GroupError, InconsistentGroupProtocolError, TopicError
from goqueue.model.lag import PartitionLag
from goqueue.model.topic_partition import TopicPartition
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.groups.coordinator import GroupCoordinator
    from goqueue.groups.effects import Effects, OffsetMove, Token
    from goqueue.groups.messages import (
        CommitRequest,
        ConsumerHeartbeat,
        HeartbeatRequest,
        JoinRequest,
        LeaveRequest,
        StreamsHeartbeat,
        SyncRequest,
    )
    from goqueue.groups.settings import GroupSettings
    from goqueue.metrics.registry import Histogram
    from goqueue.model.errors import GoQueueError
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.clock import Clock
    from goqueue.state.logs import StateLogs
    from goqueue.topics.catalogue import Topics
    from goqueue.tracing.log_groups import LogGroupTraces

OFFSETS_TOPIC: Final = internal_topics.CONSUMER_OFFSETS
OFFSETS_PARTITIONS: Final = 50


class QueueGroups(Protocol):
    """What consumer groups ask of queue groups, which may have the same names."""

    def knows(self, group_id: str) -> bool:
        """Whether there is a queue group of that name."""

    def shares(self, group_id: str) -> bool:
        """Whether its members share out messages rather than partitions."""


class GroupConfigs(Protocol):
    """The settings that groups may have of their own."""

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings that a group follows."""


class GroupServices(TopicCreation, Protocol):
    """What consumer groups need."""

    state_logs: StateLogs
    topics: Topics
    executor: Executor
    log_group_traces: LogGroupTraces
    partitions: Partitions
    measures: Measures
    clock: Clock

    @property
    def queues(self) -> QueueGroups:
        """The queue groups."""

    @property
    def coordinated_group_configs(self) -> GroupConfigs:
        """Their settings."""

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""


class Groups:
    """Every consumer group and Streams group of this broker.

    Each coroutine is one request to a group; it raises `GroupError` when the group refuses.
    """

    def __init__(
        self,
        services: GroupServices,
        settings: GroupSettings,
        partition_count: int = OFFSETS_PARTITIONS,
    ) -> None:
        self._services = services
        self.settings = settings
        self._partition_count = partition_count
        self._shards: dict[int, GroupShard] = {}
        self._memory = MemberMemory(settings)
        self._catalogue = TopicCatalogue()

    async def start(self) -> None:
        """Make the internal topic if need be, and load every group that is stored in it."""
        topics = self._services.topics
        await self._services.create_internal_topic(OFFSETS_TOPIC, self._partition_count)
        self._partition_count = topics.catalogue.topic(OFFSETS_TOPIC).partition_count
        for number in range(self._partition_count):
            await self._open_shard(number)

    async def stop(self) -> None:
        """Send everyone away and keep the state."""
        await asyncio.gather(*(shard.close() for shard in self._shards.values()))

    def follow_settings(self, group_id: str) -> None:
        """Let a group follow its changed settings from its next event on."""
        self.coordinator(group_id).follow_settings(group_id)

    async def _open_shard(self, number: int) -> None:
        """This node leads a partition of the topic: load what is in it."""
        services = self._services
        log = services.state_logs.log(OFFSETS_TOPIC, number, SnapshotKind.GROUPS)
        shard = self._shards[number] = GroupShard(
            log,
            self.settings,
            self._memory,
            services.state_logs.clock.now_ms,
            services.executor,
            settings_of=services.coordinated_group_configs.settings_of,
            on_rebalance=services.log_group_traces.rebalanced,
            on_gone=self._on_gone,
            on_moved=self._on_moved,
        )
        await shard.state.open(log.partition.leader_epoch)

    def _on_moved(self, moves: Sequence[OffsetMove]) -> None:
        """Offsets were committed: what lies between the old and the new one was consumed.

        A first commit counts from the log start, as lag does; see `goqueue.model.lag`.
        """
        traces = self._services.log_group_traces
        for move in moves:
            count = 0
            if not move.is_reset:
                with suppress(TopicError):  # deleted meanwhile
                    partition = self._services.partitions.partition(TopicPartition(*move.part))
                    start, end = partition.log_start, partition.log_end
                    before = PartitionLag(*move.part, move.before, start, end).position
                    count = max(min(move.after, end) - before, 0)
                    if count and traces.is_on:
                        traces.committed(partition.id, before, before + count, move.group_id)
            self._services.measures.committed(move.part[0], move.group_id, count)

    def _on_gone(self, group_id: str) -> None:
        """A group was deleted, or nothing is left of it; a queue group may be of the same name."""
        if not self._services.queues.knows(group_id):
            self._services.measures.forget_group(group_id)

    def shard_number(self, group_id: str) -> int:
        """Which partition of the offsets topic holds the group."""
        number: int = mmh3.hash(group_id, signed=False)
        return number % self._partition_count

    def _shard_of(self, group_id: str) -> GroupShard:
        return self._shards[self.shard_number(group_id)]

    def coordinator(self, group_id: str) -> GroupCoordinator:
        """The coordinator of a group, for reading.

        Raises:
            CoordinatorUnavailableError: its state is being built.
        """
        return self._shard_of(group_id).read()

    def coordinators(self) -> Iterator[GroupCoordinator]:
        """Every coordinator that has groups, for reading."""
        return (shard.coordinator for shard in self._shards.values())

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshots of all groups."""
        return sum(shard.state.log.snapshot_bytes for shard in self._shards.values())

    @contextmanager
    def _timed(self, latency: Histogram) -> Iterator[None]:
        """Measure a request from its arrival to its answer, also when that is a refusal."""
        started_s = self._services.clock.monotonic_s()
        try:
            yield
        finally:
            latency.observe(self._services.clock.monotonic_s() - started_s)

    # --- Members ---------------------------------------------------------------------------------

    async def join(self, request: JoinRequest) -> JoinResult:
        """JoinGroup: returns when the next generation begins."""
        self._refuse_share_group(request.group_id)
        shard = self._shard_of(request.group_id)
        topics = self.topics()
        return await shard.submit(
            lambda token, now_ms: shard.coordinator.join(request, topics, token, now_ms), JoinResult
        )

    async def sync(self, request: SyncRequest) -> SyncResult:
        """SyncGroup: returns when the leader's assignment is durable."""
        shard = self._shard_of(request.group_id)
        return await shard.submit(
            lambda token, now_ms: shard.coordinator.sync(request, token, now_ms), SyncResult
        )

    async def heartbeat(self, request: HeartbeatRequest) -> Done:
        """Heartbeat of the classic protocol."""
        shard = self._shard_of(request.group_id)
        with self._timed(self._services.measures.heartbeat_latency):
            return await shard.submit(
                lambda token, now_ms: shard.coordinator.heartbeat(request, token, now_ms), Done
            )

    async def leave(self, request: LeaveRequest) -> LeaveResult:
        """LeaveGroup, with an outcome for each member."""
        shard = self._shard_of(request.group_id)
        return await shard.submit(
            lambda token, now_ms: shard.coordinator.leave(request, token, now_ms), LeaveResult
        )

    async def consumer_heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        """Everything a member of the KIP-848 protocol says."""
        if request.epoch == JOINING_EPOCH:
            self._refuse_share_group(request.group_id)
        shard = self._shard_of(request.group_id)
        topics = self.topics()
        with self._timed(self._services.measures.heartbeat_latency):
            return await shard.submit(
                lambda token, now_ms: shard.coordinator.consumer_heartbeat(
                    request, topics, token, now_ms
                ),
                ConsumerHeartbeatResult,
            )

    async def streams_heartbeat(self, request: StreamsHeartbeat) -> StreamsHeartbeatResult:
        """Everything a member of a Streams group says; internal topics it lacks are created."""
        if request.epoch == JOINING_EPOCH:
            self._refuse_share_group(request.group_id)
        shard = self._shard_of(request.group_id)
        topics = self.topics()
        with self._timed(self._services.measures.heartbeat_latency):
            result = await shard.submit(
                lambda token, now_ms: shard.coordinator.streams_heartbeat(
                    request, topics, token, now_ms
                ),
                StreamsHeartbeatResult,
            )
        if not result.missing_topics:
            return result
        return await with_internal_topics(self._services, result)

    def _refuse_share_group(self, group_id: str) -> None:
        if self._services.queues.shares(group_id):
            raise InconsistentGroupProtocolError(
                f"{group_id!r} shares out messages, not partitions: choose another name for a "
                "consumer group"
            )

    def topics(self) -> TopicCatalogue:
        """The topics, as far as assignments need them."""
        catalogue = self._services.topics.catalogue
        if self._catalogue.version != catalogue.version:
            self._catalogue = TopicCatalogue(
                catalogue.version,
                {
                    name: TopicInfo(topic.topic_id, topic.partition_count, topic.is_internal)
                    for name, topic in catalogue.by_name.items()
                },
            )
        return self._catalogue

    # --- Offsets and administration --------------------------------------------------------------

    async def commit(self, request: CommitRequest) -> PartitionOutcomes:
        """OffsetCommit: returns when the offsets are stored."""
        self._refuse_share_group(request.group_id)
        shard = self._shard_of(request.group_id)
        measures = self._services.measures
        try:
            with self._timed(measures.commit_latency):
                outcomes = await shard.submit(
                    lambda token, now_ms: shard.coordinator.commit(request, token, now_ms),
                    PartitionOutcomes,
                )
        except GroupError as error:
            self.commit_refused(request.group_id, error)
            raise
        for _, refusal in outcomes.partitions:
            if refusal is not None:
                measures.commit_refused(request.group_id, refusal)
        return outcomes

    def commit_refused(self, group_id: str, error: GoQueueError) -> None:
        """Count a commit that was refused, here or before it came here."""
        coordinator = self.coordinator(group_id)
        is_known = coordinator.knows(group_id)
        coordinator.commit_refused(group_id)
        self._services.measures.commit_refused(group_id if is_known else "", error)

    async def stage(self, producer_id: int, request: CommitRequest) -> PartitionOutcomes:
        """Note offsets that count when a producer's transaction commits."""
        shard = self._shard_of(request.group_id)
        return await shard.submit(
            lambda token, now_ms: shard.coordinator.stage(producer_id, request, token, now_ms),
            PartitionOutcomes,
        )

    async def complete_transaction(self, number: int, producer_id: int, *, commit: bool) -> None:
        """End a producer's transaction in the groups of one shard; done twice, it is done once.

        Raises:
            CoordinatorUnavailableError: it could not be stored; try again.
        """
        shard = self._shards[number]

        def complete(token: Token, _: int) -> Effects:
            effects = shard.coordinator.complete_transaction(producer_id, commit=commit)
            effects.reply(token, Done())
            return effects

        await shard.submit(complete, Done)

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> PartitionOutcomes:
        """Forget how far a group has read topics that it does not read any more."""
        shard = self._shard_of(group_id)
        return await shard.submit(
            lambda token, _: shard.coordinator.delete_offsets(group_id, partitions, token),
            PartitionOutcomes,
        )

    async def delete(self, group_id: str) -> GroupOutcomes:
        """Delete a group without members, with its offsets."""
        shard = self._shard_of(group_id)
        return await shard.submit(
            lambda token, now_ms: shard.coordinator.delete_groups([group_id], token, now_ms),
            GroupOutcomes,
        )

    def forget_topic(self, name: str) -> None:
        """A topic is gone, and so is how far anyone has read it."""
        for shard in self._shards.values():
            shard.forget_topic(name)
