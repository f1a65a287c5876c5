"""What the broker knows about itself, told when somebody asks for the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.coordination import GROUPS_NAME
from goqueue.broker.group_views import view_group
from goqueue.broker.lag import group_lag
from goqueue.broker.partition import LOG_STATE_NAME
from goqueue.broker.queue_views import queue_views
from goqueue.broker.queues import QUEUES_NAME
from goqueue.broker.schemas import SCHEMAS_NAME
from goqueue.broker.transactions import TRANSACTIONS_NAME
from goqueue.delivery.settings import Mode
from goqueue.groups.consumer_protocol import assigned_partitions
from goqueue.groups.describe import GroupType
from goqueue.groups.stats import LeaveReason
from goqueue.metrics import names
from goqueue.storage.compaction import dirty_ratio

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.partition import Partition
    from goqueue.groups.coordinator import GroupCoordinator
    from goqueue.groups.describe import GroupListing
    from goqueue.metrics.registry import Samples


class BrokerGauges:
    """A source of metrics: topics, logs, groups and the disk, as they are right now."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __call__(self, samples: Samples) -> None:
        """Put every value; see `goqueue.metrics.registry.Source`."""
        broker = self._broker
        topics = broker.topics.catalogue.by_name
        samples.put(names.TOPIC_COUNT, len(topics))
        for topic in topics.values():
            samples.put(names.TOPIC_PARTITIONS, topic.partition_count, topic.name)
            for partition in broker.partitions.of_topic(topic):
                _put_partition(samples, partition)
                latency = broker.metrics.histogram(names.INDEX_LOOKUP_LATENCY, "time")
                while partition.log.stats.time_lookups_s:
                    latency.observe(partition.log.stats.time_lookups_s.popleft())
        broker.health.put(samples)
        self._put_backlogs(samples)
        consumers = 0
        for coordinator in broker.groups.coordinators():
            consumers += self._put_groups(samples, coordinator)
            self._take_durations(coordinator)
        consumers += self._put_queue_groups(samples)
        samples.put(names.ACTIVE_CONSUMERS, consumers)
        samples.put(names.SNAPSHOT_SIZE, broker.groups.snapshot_bytes, GROUPS_NAME)
        samples.put(names.SNAPSHOT_SIZE, broker.schemas.snapshot_bytes, SCHEMAS_NAME)
        samples.put(names.SNAPSHOT_SIZE, broker.transactions.snapshot_bytes, TRANSACTIONS_NAME)

    def _put_backlogs(self, samples: Samples) -> None:
        now_ms = self._broker.clock.now_ms()
        for each in self._broker.backlogs.all():
            labels = (each.topic, each.group_id)
            samples.put(names.OLDEST_AGE, each.oldest_age_s(now_ms), *labels)
            if each.drain_s is not None:
                samples.put(names.TIME_TO_DRAIN, each.drain_s, *labels)

    def _take_durations(self, coordinator: GroupCoordinator) -> None:
        latency = self._broker.metrics.histogram(names.REBALANCE_LATENCY)
        durations_ms = coordinator.stats.durations_ms
        while durations_ms:
            latency.observe(durations_ms.popleft() / 1000)

    def _put_groups(self, samples: Samples, coordinator: GroupCoordinator) -> int:
        """The groups of one coordinator; returns how many members they have."""
        members = 0
        for group in coordinator.list_groups():
            members += group.member_count
            samples.put(names.GROUP_MEMBERS, group.member_count, group.group_id)
            samples.put(names.GROUP_GENERATION, group.generation, group.group_id)
            samples.put(names.GROUP_STATE, 1, group.group_id, group.state)
            queue_group = self._broker.queues.find(group.group_id)
            if queue_group is None or queue_group.is_dormant:
                self._put_offsets(samples, group.group_id)
            samples.put(names.ASSIGNED_PARTITIONS, _assigned(coordinator, group), group.group_id)
            _put_stats(samples, coordinator, group.group_id)
        return members

    def _put_queue_groups(self, samples: Samples) -> int:
        """What no coordinator knows of queue groups; returns how many more members they have."""
        broker = self._broker
        members = 0
        samples.put(names.SNAPSHOT_SIZE, broker.queues.snapshot_bytes, QUEUES_NAME)
        for group in broker.queues:
            if group.is_internal or group.is_dormant:
                continue
            if group.settings.mode is Mode.SHARED:
                members += len(group.members)
                state = view_group(broker, group.group_id).listing.state
                samples.put(names.GROUP_MEMBERS, len(group.members), group.group_id)
                samples.put(names.GROUP_GENERATION, group.members.epoch, group.group_id)
                samples.put(names.GROUP_STATE, 1, group.group_id, state)
            self._put_offsets(samples, group.group_id)
            for view in queue_views(broker, group):
                topic, number = view.partition.id
                labels = (topic, group.group_id, str(number))
                samples.put(names.IN_FLIGHT, view.in_flight, *labels)
                samples.put(names.RETRIES_WAITING, view.waiting, *labels)
        return members

    def _put_offsets(self, samples: Samples, group_id: str) -> None:
        for line in group_lag(self._broker, group_id):
            labels = (line.topic, group_id, str(line.partition))
            samples.put(names.COMMITTED_OFFSET, line.committed, *labels)
            samples.put(names.LAG, line.lag, *labels)


def _put_partition(samples: Samples, partition: Partition) -> None:
    topic, log = partition.id.topic, partition.log
    labels = (topic, str(partition.id.number))
    samples.put(names.LOG_SIZE, log.size_bytes, *labels)
    samples.put(names.LOG_START_OFFSET, log.start_offset, *labels)
    samples.put(names.LOG_END_OFFSET, log.end_offset, *labels)
    samples.put(names.COMPACTION_DIRTY_RATIO, dirty_ratio(log), *labels)
    samples.put(names.SEGMENTS, len(log.segments), topic)
    samples.put(names.SEGMENTS_ACTIVE, 1 if log.segments.active else 0, topic)
    samples.put(names.BYTES_WRITTEN, log.stats.bytes_written, topic)
    samples.put(names.SEGMENTS_CREATED, log.stats.segments_created, topic)
    samples.put(names.SEGMENTS_DELETED, log.stats.segments_deleted, topic)
    samples.put(names.INDEX_LOOKUPS, log.stats.offset_lookups, topic, "offset")
    samples.put(names.INDEX_LOOKUPS, log.stats.time_lookups, topic, "time")
    samples.put(names.SNAPSHOT_SIZE, partition.snapshot_bytes, LOG_STATE_NAME)
    rebuilds = sum(segment.index_rebuilds for segment in log.segments)
    samples.put(names.INDEX_REBUILDS, rebuilds, topic)


def _assigned(coordinator: GroupCoordinator, group: GroupListing) -> int:
    """How many partitions the members of a group own."""
    if group.group_type is GroupType.CONSUMER:
        members = coordinator.describe_consumer(group.group_id).members
        return sum(len(member.assigned) for member in members)
    classic = coordinator.describe_classic(group.group_id).members
    return sum(len(assigned_partitions(member.assignment) or ()) for member in classic)


def _put_stats(samples: Samples, coordinator: GroupCoordinator, group_id: str) -> None:
    stats = coordinator.group_stats(group_id)
    samples.put(names.PARTITIONS_ASSIGNED, stats.partitions_assigned, group_id)
    samples.put(names.PARTITIONS_REVOKED, stats.partitions_revoked, group_id)
    samples.put(names.GROUP_JOINS, stats.joins, group_id)
    samples.put(names.HEARTBEATS, stats.heartbeats, group_id)
    for reason, count in stats.reasons.items():
        samples.put(names.REBALANCES, count, group_id, reason)
    for cause, count in stats.leaves.items():
        samples.put(names.GROUP_LEAVES, count, group_id, cause)
    unheard = stats.leaves[LeaveReason.SESSION_TIMEOUT]
    idle = stats.leaves[LeaveReason.REBALANCE_TIMEOUT] + stats.leaves[LeaveReason.SYNC_TIMEOUT]
    samples.put(names.SESSION_TIMEOUTS, unheard, group_id)
    samples.put(names.HEARTBEAT_TIMEOUTS, idle, group_id)
