"""Consumer groups as a use case: find the shard of a group and let it act."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from goqueue.groups.effects import answered
from goqueue.groups.member_memory import MemberMemory
from goqueue.groups.messages import (
    JOINING_EPOCH,
    CommitRequest,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    Done,
    GroupOutcomes,
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeaveRequest,
    LeaveResult,
    PartitionOutcomes,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    SyncRequest,
    SyncResult,
)
from goqueue.groups.settings import OFFSETS_PARTITIONS, GroupSettings
from goqueue.groups.shard import GroupShard
from goqueue.groups.shards import OFFSETS_TOPIC, GroupShards
from goqueue.groups.streams.internal_topics import with_internal_topics
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    FencedCoordinatorError,
    GoQueueError,
    GroupError,
    InconsistentGroupProtocolError,
    MetadataError,
)
from goqueue.model.lag import PartitionLag
from goqueue.model.topic_partition import TopicPartition
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.groups.coordinator import GroupCoordinator
    from goqueue.groups.effects import Effects, OffsetMove, Token
    from goqueue.groups.stats import OnMember
    from goqueue.metrics.registry import Histogram
    from goqueue.partitions.elsewhere.figures import PartitionFigures
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.topic_changes import TopicChanges
    from goqueue.runtime.clock import Clock
    from goqueue.state.logs import StateLogs
    from goqueue.tracing.log_groups import LogGroupTraces

_log = logging.getLogger(__name__)
_R = TypeVar("_R")


class Groups(GroupShards):
    """Every consumer group and Streams group of this broker.

    Each coroutine is one request to a group; it raises `GroupError` when the group refuses.
    """

    def __init__(
        self,
        state_logs: StateLogs,
        changes: TopicChanges,
        figures: PartitionFigures,
        clock: Clock,
        executor: Executor,
        *,
        settings: GroupSettings,
        partition_count: int = OFFSETS_PARTITIONS,
        settings_of: Callable[[str], GroupSettings],
        measures: Measures,
        traces: LogGroupTraces,
        facts: ClusterFacts | None = None,
    ) -> None:
        """`facts` tell who leads what, in a cluster."""
        super().__init__(changes.topics, partition_count, self._new_shard, facts)
        self._state_logs = state_logs
        self._changes = changes
        self._figures = figures
        self._clock = clock
        self._executor = executor
        self._settings_of = settings_of
        self._measures = measures
        self._traces = traces
        self.settings = settings
        self._memory = MemberMemory(settings)
        self._forgetting: set[asyncio.Task[None]] = set()
        """One for each shard that was taken over and is looked through."""
        self._catalogue = TopicCatalogue()
        self.is_queue_group: Callable[[str], bool] = lambda _: False
        """Whether there is a queue group of the same name."""
        self.shares_messages: Callable[[str], bool] = lambda _: False
        """Whether its members share out messages rather than partitions."""

        self.on_member: OnMember | None = None
        """Told of members that join and that are gone; set by whoever wants to know."""

    def refuse_groups_by(self, admit_group: Callable[[str], None]) -> None:
        """Ask before a group is made; `admit_group` raises where it may not be."""
        self._memory.admit_group = admit_group

    async def start(self) -> None:
        """Make the internal topic if need be, and load every group that is stored in it.

        In a cluster the controller makes it, and groups are loaded where their partitions are led.
        """
        if self._facts is None:
            await self._changes.create_internal(OFFSETS_TOPIC, self._family.partition_count)
        await self._state_logs.coordinators.start(self._family)

    async def stop(self) -> None:
        """Send everyone away and keep the state."""
        for task in self._forgetting:
            task.cancel()
        await asyncio.gather(*(shard.close() for shard in self._family.opened()))

    def follow_settings(self, group_id: str) -> None:
        """Let a group follow its changed settings from its next event on."""
        self.coordinator(group_id).follow_settings(group_id)

    def _new_shard(self, number: int) -> GroupShard:
        log = self._state_logs.log(OFFSETS_TOPIC, number, SnapshotKind.GROUPS)
        return GroupShard(
            log,
            self.settings,
            self._memory,
            log.now_ms,
            self._executor,
            settings_of=self._settings_of,
            on_rebalance=self._traces.rebalanced,
            on_member=self._tell_member,
            on_gone=self._on_gone,
            on_moved=self._on_moved,
            on_loaded=None if self._facts is None else self._on_loaded,
        )

    def _tell_member(self, group_id: str, member_id: str, reason: str | None) -> None:
        if self.on_member is not None:
            self.on_member(group_id, member_id, reason)

    def _on_loaded(self, shard: GroupShard) -> None:
        task = asyncio.get_running_loop().create_task(self._forget_gone(shard))
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    async def _forget_gone(self, shard: GroupShard) -> None:
        """Forget offsets of topics that were deleted while nobody coordinated these groups.

        Whether they were, the store says: this node may not have heard yet of one that is new.
        """
        for name in shard.coordinator.topics_with_offsets() - self._topics.catalogue.by_name.keys():
            try:
                is_gone = await self._topics.is_gone(name)
            except MetadataError as error:
                _log.warning("offsets of topic %s are kept, which may be deleted: %s", name, error)
                continue
            if is_gone and name not in self._topics.catalogue.by_name:
                shard.forget_topic(name)

    def _on_moved(self, moves: Sequence[OffsetMove]) -> None:
        """Offsets were committed: what lies between the old and the new one was consumed.

        A first commit counts from the log start, as lag does; see `goqueue.model.lag`.
        """
        for move in moves:
            count = 0
            if not move.is_reset:
                place = TopicPartition(*move.part)
                figures = self._figures.of(place)
                if figures is not None:  # or it was deleted meanwhile
                    start, end = figures.log_start, figures.log_end
                    before = PartitionLag(*move.part, move.before, start, end).position
                    count = max(min(move.after, end) - before, 0)
                    if count and self._traces.is_on:
                        self._traces.committed(place, before, before + count, move.group_id)
            self._measures.committed(move.part[0], move.group_id, count)

    def _on_gone(self, group_id: str) -> None:
        """A group was deleted, or nothing is left of it; a queue group may be of the same name."""
        if not self.is_queue_group(group_id):
            self._measures.forget_group(group_id)

    async def _ask(
        self,
        group_id: str,
        event: Callable[[GroupCoordinator, Token, int], Effects],
        result: type[_R],
        latency: Histogram | None = None,
    ) -> _R:
        """Let the coordinator of a group see an event; returns its answer, or raises it."""
        started_s = self._clock.monotonic_s()
        try:
            return await self._shard_of(group_id).submit(event, result)
        finally:
            if latency is not None:
                latency.observe(self._clock.monotonic_s() - started_s)

    # --- Members ---------------------------------------------------------------------------------

    async def join(self, request: JoinRequest) -> JoinResult:
        """JoinGroup: returns when the next generation begins."""
        self._refuse_share_group(request.group_id)
        topics = self.topics()
        return await self._ask(
            request.group_id,
            lambda core, token, now_ms: core.join(request, topics, token, now_ms),
            JoinResult,
        )

    async def sync(self, request: SyncRequest) -> SyncResult:
        """SyncGroup: returns when the leader's assignment is durable."""
        return await self._ask(
            request.group_id,
            lambda core, token, now_ms: core.sync(request, token, now_ms),
            SyncResult,
        )

    async def heartbeat(self, request: HeartbeatRequest) -> Done:
        """Heartbeat of the classic protocol."""
        return await self._ask(
            request.group_id,
            lambda core, token, now_ms: core.heartbeat(request, token, now_ms),
            Done,
            self._measures.heartbeat_latency,
        )

    async def leave(self, request: LeaveRequest) -> LeaveResult:
        """LeaveGroup, with an outcome for each member."""
        return await self._ask(
            request.group_id,
            lambda core, token, now_ms: core.leave(request, token, now_ms),
            LeaveResult,
        )

    async def consumer_heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        """Everything a member of the KIP-848 protocol says."""
        if request.epoch == JOINING_EPOCH:
            self._refuse_share_group(request.group_id)
        topics = self.topics()
        return await self._ask(
            request.group_id,
            lambda core, token, now_ms: core.consumer_heartbeat(request, topics, token, now_ms),
            ConsumerHeartbeatResult,
            self._measures.heartbeat_latency,
        )

    async def streams_heartbeat(self, request: StreamsHeartbeat) -> StreamsHeartbeatResult:
        """Everything a member of a Streams group says; internal topics it lacks are created."""
        if request.epoch == JOINING_EPOCH:
            self._refuse_share_group(request.group_id)
        topics = self.topics()
        result = await self._ask(
            request.group_id,
            lambda core, token, now_ms: core.streams_heartbeat(request, topics, token, now_ms),
            StreamsHeartbeatResult,
            self._measures.heartbeat_latency,
        )
        return await with_internal_topics(self._changes, result)

    def _refuse_share_group(self, group_id: str) -> None:
        if self.shares_messages(group_id):
            raise InconsistentGroupProtocolError(
                f"group {group_id!r} is a queue group, expected a consumer group: choose another "
                "group name"
            )

    def topics(self) -> TopicCatalogue:
        """The topics, as far as assignments need them."""
        catalogue = self._topics.catalogue
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
        measures = self._measures
        try:
            outcomes = await self._ask(
                request.group_id,
                lambda core, token, now_ms: core.commit(request, token, now_ms),
                PartitionOutcomes,
                measures.commit_latency,
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
        try:
            coordinator = self.coordinator(group_id)
        except CoordinatorUnavailableError:
            return  # it is counted where it belongs
        is_known = coordinator.knows(group_id)
        coordinator.commit_refused(group_id)
        self._measures.commit_refused(group_id if is_known else "", error)

    async def stage(
        self, producer_id: int, request: CommitRequest, guard: object = None
    ) -> PartitionOutcomes:
        """Note offsets that count when a producer's transaction commits.

        A `guard` is what the fences gave before the transaction's coordinator was asked.

        Raises:
            CoordinatorUnavailableError: the transaction has ended since, or the group has moved.
        """

        def stage(core: GroupCoordinator, token: Token, now_ms: int) -> Effects:
            if guard is not None:
                try:
                    core.fences.check_verified(producer_id, guard)
                except CoordinatorUnavailableError as error:
                    return answered(token, error)
            return core.stage(producer_id, request, token, now_ms)

        return await self._ask(request.group_id, stage, PartitionOutcomes)

    async def complete_transaction(
        self, number: int, producer_id: int, coordinator_epoch: int, *, commit: bool
    ) -> None:
        """End a producer's transaction in the groups of one shard; done twice, it is done once.

        Raises:
            FencedCoordinatorError: a later coordinator has ended a transaction of the producer.
            CoordinatorUnavailableError: it could not be stored; try again.
        """

        def complete(core: GroupCoordinator, token: Token, now_ms: int) -> Effects:
            effects = answered(token, Done())
            try:
                core.fences.pass_through(producer_id, coordinator_epoch, now_ms, effects)
            except FencedCoordinatorError as error:
                return answered(token, error)
            effects.add(core.complete_transaction(producer_id, commit=commit))
            return effects

        await self._shard(number).submit(complete, Done)

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> PartitionOutcomes:
        """Forget how far a group has read topics that it does not read any more."""
        return await self._ask(
            group_id,
            lambda core, token, _: core.delete_offsets(group_id, partitions, token),
            PartitionOutcomes,
        )

    async def delete(self, group_id: str) -> GroupOutcomes:
        """Delete a group without members, with its offsets."""
        return await self._ask(
            group_id,
            lambda core, token, now_ms: core.delete_groups([group_id], token, now_ms),
            GroupOutcomes,
        )

    def forget_topic(self, name: str) -> None:
        """A topic is gone, and so is how far anyone has read it."""
        for shard in self._family.shards.values():
            shard.forget_topic(name)
