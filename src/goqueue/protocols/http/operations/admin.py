"""What operators do: compact, see where groups are coordinated, see whether a topic is growing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import GroupPath, TopicPath
from goqueue.protocols.http.api.places import LOCAL, gather
from goqueue.protocols.http.api.rights import ALTER, DESCRIBE, on_cluster, on_group, on_topic
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.operations.admin_shapes import (
    CompactAnswer,
    CompactBody,
    CompactedPartition,
    Coordinator,
    Coordinators,
    GroupCoordinatorAnswer,
    ScalingStatus,
)
from goqueue.protocols.http.operations.operation_merges import (
    merge_compacted,
    merge_coordinators,
    merge_maintenance,
    merge_resumed,
    merge_scaling,
)
from goqueue.protocols.http.operations.operation_shapes import MaintenanceResumed, MaintenanceStatus

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.partitions.partition import Partition
    from goqueue.protocols.http.api.served_node import ServedNode
    from goqueue.runtime.clock_watch import ClockJump
    from goqueue.topics.catalogue import Topic


_TAG: Final = "admin"


class AdminRoutes:
    """Operation."""

    def __init__(self, node: ServedNode) -> None:
        self._node = node

    @route(
        "POST",
        "/admin/topics/{topic}/compact",
        right=on_topic(ALTER),
        tag=_TAG,
        place=gather(merge_compacted),
    )
    async def compact(self, path: TopicPath, body: CompactBody) -> CompactAnswer:
        """Compact a topic now, to the newest message of each key."""
        broker = self._node.broker
        topic = broker.topics.catalogue.topic(path.topic)
        if not topic.settings.compacts:
            raise FieldError(
                f"topic {topic.name!r} has cleanup.policy={topic.settings.text('cleanup.policy')}: "
                "compaction would delete messages that it keeps",
                field="topic",
                location="path",
                expected="a topic whose cleanup.policy includes compact",
            )
        chosen = broker.partitions.of_topic(topic)
        if body.partitions is not None:
            wanted = set(body.partitions)
            if not wanted <= set(range(topic.partition_count)):
                raise FieldError(
                    f"topic {topic.name!r} has partitions 0 to {topic.partition_count - 1}",
                    field="partitions",
                    expected=f"numbers from 0 to {topic.partition_count - 1}",
                )
            chosen = [each for each in chosen if each.id.partition in wanted]
        results = [await self._compact(topic, each, dry_run=body.dry_run) for each in chosen]
        led = [done for done, each in zip(results, chosen, strict=True) if each.is_leading]
        return CompactAnswer(topic.name, body.dry_run, led)

    async def _compact(
        self, topic: Topic, partition: Partition, *, dry_run: bool
    ) -> CompactedPartition:
        now_ms = self._node.broker.clock.now_ms()
        plan = partition.cleanable(topic.settings.compaction_limits, now_ms)
        found = CompactedPartition(
            partition=partition.id.partition,
            dirty_ratio=partition.facts().dirty_ratio,
            due=plan.is_due and partition.failure is None,
            bytes_before=partition.size_bytes,
            bytes_after=None,
            records_before=None,
            records_after=None,
            duration_ms=None,
        )
        if dry_run:
            return found
        stats = await self._node.maintenance.compact(partition.id)
        if stats is not None:
            found.bytes_after = partition.size_bytes
            found.records_before = stats.records_before
            found.records_after = stats.records_after
            found.duration_ms = round(stats.duration_s * 1000)
        return found

    @route(
        "GET",
        "/admin/topics/{topic}/scaling-status",
        right=on_topic(DESCRIBE),
        tag=_TAG,
        place=gather(merge_scaling),
    )
    @route(
        "GET",
        "/admin/scaling/{topic}",
        right=on_topic(DESCRIBE),
        tag=_TAG,
        place=gather(merge_scaling),
    )
    async def scaling(self, path: TopicPath) -> ScalingStatus:
        """Whether partitions are being added to a topic."""
        broker = self._node.broker
        topic = broker.topics.catalogue.topic(path.topic)
        target = broker.topic_changes.growing.get(topic.name)
        return ScalingStatus(topic.name, target is not None, topic.partition_count, target)

    @route(
        "GET",
        "/admin/coordinators",
        right=on_cluster(DESCRIBE),
        tag=_TAG,
        place=gather(merge_coordinators),
    )
    async def coordinators(self) -> Coordinators:
        """List the group coordinators."""
        broker = self._node.broker
        count = broker.groups.shard_count
        groups = [0] * count
        for coordinator in broker.groups.coordinators():
            for listing in coordinator.list_groups():
                groups[broker.groups.shard_number(listing.group_id)] += 1
        return Coordinators(
            OFFSETS_TOPIC,
            [
                Coordinator(number, _coordinator(broker, number), group_count)
                for number, group_count in enumerate(groups)
            ],
        )

    @route(
        "GET", "/admin/coordinators/groups/{group}", right=on_group(DESCRIBE), tag=_TAG, place=LOCAL
    )
    async def coordinator_of(self, path: GroupPath) -> GroupCoordinatorAnswer:
        """Find the coordinator of a group."""
        broker = self._node.broker
        number = broker.groups.shard_number(path.group)
        node_id = _coordinator(broker, number)
        return GroupCoordinatorAnswer(path.group, OFFSETS_TOPIC, number, node_id)


def _coordinator(broker: Broker, number: int) -> int:
    """The node that leads a partition of the offsets topic; -1 while there is none."""
    topic = broker.topics.catalogue.by_name.get(OFFSETS_TOPIC)
    if topic is None:
        return -1  # a cluster makes it when enough nodes are active
    leader = broker.facts.partition(topic.topic_id, number).leader
    return -1 if leader is None else leader


class MaintenanceRoutes:
    """Maintenance: retention and TTL."""

    def __init__(self, broker: Broker) -> None:
        self._guard = broker.clock_guard

    @route(
        "GET",
        "/admin/maintenance",
        right=on_cluster(DESCRIBE),
        tag=_TAG,
        place=gather(merge_maintenance),
    )
    async def maintenance(self) -> MaintenanceStatus:
        """Whether retention and TTL are stopped because the wall clock has jumped."""
        stopped = self._guard.stopped()
        if stopped is None:
            return MaintenanceStatus("running")
        return MaintenanceStatus("stopped", stopped, _jumped(self._guard.jump()))

    @route(
        "POST",
        "/admin/maintenance/resume",
        right=on_cluster(ALTER),
        tag=_TAG,
        place=gather(merge_resumed),
    )
    async def resume_maintenance(self) -> MaintenanceResumed:
        """Accept the wall clock's time and resume retention and TTL."""
        jump = self._guard.resume()
        return MaintenanceResumed(jump is not None, _jumped(jump))


def _jumped(jump: ClockJump | None) -> int:
    return 0 if jump is None else jump.jumped_ms
