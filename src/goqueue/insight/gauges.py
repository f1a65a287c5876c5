"""What the broker knows about itself, told when somebody asks for the metrics."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.groups.consumer.protocol import assigned_partitions
from goqueue.groups.describe import GroupListing, GroupType
from goqueue.groups.stats import LeaveReason
from goqueue.insight.group_views import is_listed, shared_state
from goqueue.metrics import names
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GroupNotFoundError,
    UnknownTopicError,
)
from goqueue.queues.delivery.settings import Mode
from goqueue.queues.views import queue_views
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.groups.coordinator import GroupCoordinator
    from goqueue.groups.service import Groups
    from goqueue.insight.backlogs import Backlogs
    from goqueue.insight.lag import GroupLag
    from goqueue.metrics.kinds import CounterName, GaugeName
    from goqueue.metrics.registry import Metrics, Samples
    from goqueue.partitions.clock_guard import ClockGuard
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.service import Queues
    from goqueue.runtime.clock import Clock
    from goqueue.schemas.service import Schemas
    from goqueue.topics.catalogue import Topics
    from goqueue.transactions.service import Transactions


class GaugeServices(Protocol):
    """What the gauges are read from."""

    topics: Topics
    partitions: Partitions
    groups: Groups
    queues: Queues
    transactions: Transactions
    schemas: Schemas
    lag: GroupLag
    backlogs: Backlogs
    metrics: Metrics
    clock: Clock
    clock_guard: ClockGuard


class BrokerGauges:
    """A source of metrics: topics, logs and groups, as they are right now."""

    def __init__(self, services: GaugeServices) -> None:
        self._services = services

    def __call__(self, samples: Samples) -> Iterator[None]:
        """Put every value, a topic or a group at a time; see `goqueue.metrics.registry.Source`."""
        services = self._services
        yield from self._put_topics(samples)
        self._put_backlogs(samples)
        yield
        consumers = 0
        for coordinator in list(services.groups.coordinators()):
            for group in coordinator.list_groups():
                # It is gone since it was listed, or another node coordinates it.
                with suppress(GroupNotFoundError, CoordinatorUnavailableError):
                    self._put_group(samples, coordinator, group)
                    consumers += group.member_count
                yield
            self._take_durations(coordinator)
        for queue_group in list(services.queues):
            if is_listed(queue_group):
                consumers += self._put_queue_group(samples, queue_group)
                yield
        samples.put(names.ACTIVE_CONSUMERS, consumers)
        jump = services.clock_guard.jump()
        samples.put(names.CLOCK_JUMP, 0 if jump is None else jump.jumped_ms / 1000)
        samples.put(names.SNAPSHOT_SIZE, services.queues.snapshot_bytes, SnapshotKind.QUEUES.label)
        samples.put(names.SNAPSHOT_SIZE, services.groups.snapshot_bytes, SnapshotKind.GROUPS.label)
        samples.put(
            names.SNAPSHOT_SIZE, services.schemas.snapshot_bytes, SnapshotKind.SCHEMAS.label
        )
        samples.put(
            names.SNAPSHOT_SIZE,
            services.transactions.snapshot_bytes,
            SnapshotKind.TRANSACTIONS.label,
        )

    def _put_topics(self, samples: Samples) -> Iterator[None]:
        services = self._services
        topics = list(services.topics.catalogue.by_name.values())
        samples.put(names.TOPIC_COUNT, len(topics))
        time_lookups = services.metrics.histogram(names.INDEX_LOOKUP_LATENCY, "time")
        count = failed = 0
        for topic in topics:
            try:
                partitions = services.partitions.of_topic(topic)
            except UnknownTopicError:
                continue  # it is gone since it was listed
            count += len(partitions)
            failed += sum(1 for each in partitions if each.failure is not None)
            _put_topic(samples, topic.name, partitions)
            for partition in partitions:
                for took_s in partition.take_lookup_times():
                    time_lookups.observe(took_s)
            yield
        self._put_replicas(samples, count, failed)

    def _put_replicas(self, samples: Samples, count: int, failed: int) -> None:
        """Every partition has one replica, this one, which leads; see `Partition`."""
        samples.put(names.PARTITION_COUNT, count)
        samples.put(names.LEADERS, count)
        samples.put(names.OFFLINE_PARTITIONS, failed)
        samples.put(names.UNDER_REPLICATED, failed)

    def _put_backlogs(self, samples: Samples) -> None:
        now_ms = self._services.clock.now_ms()
        for each in self._services.backlogs.all():
            labels = (each.topic, each.group_id)
            samples.put(names.OLDEST_AGE, each.oldest_age_s(now_ms), *labels)
            if each.drain_s is not None:
                samples.put(names.TIME_TO_DRAIN, each.drain_s, *labels)

    def _take_durations(self, coordinator: GroupCoordinator) -> None:
        durations_ms = coordinator.stats.durations_ms
        while durations_ms:
            group_type, duration_ms = durations_ms.popleft()
            latency = self._services.metrics.histogram(names.REBALANCE_LATENCY, group_type)
            latency.observe(duration_ms / 1000)

    def _put_group(
        self, samples: Samples, coordinator: GroupCoordinator, group: GroupListing
    ) -> None:
        """A group that a coordinator knows. Raises `GroupNotFoundError` when it does no more."""
        assigned = _assigned(coordinator, group)
        samples.put(names.GROUP_MEMBERS, group.member_count, group.group_id)
        samples.put(names.GROUP_GENERATION, group.generation, group.group_id)
        samples.put(names.GROUP_STATE, 1, group.group_id, group.state)
        queue_group = self._services.queues.find(group.group_id)
        if queue_group is None or queue_group.is_dormant:
            self._put_offsets(samples, group.group_id)
        samples.put(names.ASSIGNED_PARTITIONS, assigned, group.group_id)
        _put_stats(samples, coordinator, group.group_id)

    def _put_queue_group(self, samples: Samples, group: QueueGroup) -> int:
        """What no coordinator knows of a queue group; returns how many more members it has."""
        members = 0
        if group.settings.mode is Mode.SHARED:
            members = len(group.members)
            samples.put(names.GROUP_MEMBERS, members, group.group_id)
            samples.put(names.GROUP_GENERATION, group.members.epoch, group.group_id)
            samples.put(names.GROUP_STATE, 1, group.group_id, shared_state(group))
        self._put_offsets(samples, group.group_id)
        for view in queue_views(self._services.queues, group):
            topic, number = view.partition.id
            labels = (topic, group.group_id, str(number))
            samples.put(names.IN_FLIGHT, view.in_flight, *labels)
            samples.put(names.RETRIES_WAITING, view.waiting, *labels)
        return members

    def _put_offsets(self, samples: Samples, group_id: str) -> None:
        for line in self._services.lag.of(group_id):
            labels = (line.topic, group_id, str(line.partition))
            if line.committed is not None:
                samples.put(names.COMMITTED_OFFSET, line.committed, *labels)
            samples.put(names.LAG, line.lag, *labels)
            samples.put(names.UNCOMMITTED_LAG, line.uncommitted_lag, *labels)


_PLACES: Final = (
    names.LOG_SIZE,
    names.LOG_START_OFFSET,
    names.LOG_END_OFFSET,
    names.HIGH_WATERMARK,
)
_COUNTS: Final[tuple[tuple[GaugeName | CounterName, str | None], ...]] = (
    (names.SEGMENTS, None),
    (names.SEGMENTS_ACTIVE, None),
    (names.BYTES_WRITTEN, None),
    (names.SEGMENTS_CREATED, None),
    (names.SEGMENTS_DELETED, None),
    (names.INDEX_LOOKUPS, "offset"),
    (names.INDEX_LOOKUPS, "time"),
    (names.INDEX_REBUILDS, None),
)
"""The metrics of `LogFacts`, in its order."""


def _put_topic(samples: Samples, topic: str, partitions: Sequence[Partition]) -> None:
    """The logs of one topic, added up here unless partitions are told apart: thousands of them."""
    samples.put(names.TOPIC_PARTITIONS, len(partitions), topic)
    samples.put(names.TOPIC_MESSAGES, sum(each.message_count for each in partitions), topic)
    places = [_places(partition) for partition in partitions]
    if samples.partition_label:
        for partition, values in zip(partitions, places, strict=True):
            _put_places(samples, topic, str(partition.id.partition), values)
    elif partitions:
        _put_places(samples, topic, "", [sum(values) for values in zip(*places, strict=True)])
    facts = [partition.facts() for partition in partitions]
    for partition, each in zip(partitions, facts, strict=True):
        number = str(partition.id.partition)
        if each.segment_count > 1 or number == "0" or samples.partition_label:
            samples.put(names.COMPACTION_DIRTY_RATIO, each.dirty_ratio, topic, number)
    samples.put(
        names.SNAPSHOT_SIZE,
        sum(each.snapshot_bytes for each in partitions),
        SnapshotKind.PRODUCERS.label,
    )
    counts = zip(*(each[: len(_COUNTS)] for each in facts), strict=True)
    for (name, kind), values in zip(_COUNTS, counts, strict=bool(partitions)):
        labels = (topic,) if kind is None else (topic, kind)
        samples.put(name, sum(values), *labels)


def _places(partition: Partition) -> tuple[int, ...]:
    """In the order of `_PLACES`."""
    sizes = partition.size_bytes, partition.log_start, partition.log_end
    return *sizes, partition.high_watermark


def _put_places(samples: Samples, topic: str, number: str, values: Iterable[int]) -> None:
    for name, value in zip(_PLACES, values, strict=True):
        samples.put(name, value, topic, number)


def _assigned(coordinator: GroupCoordinator, group: GroupListing) -> int:
    """How many partitions the members of a group own."""
    if group.group_type is GroupType.CONSUMER:
        members = coordinator.describe_consumer(group.group_id).members
        return sum(len(member.assigned) for member in members)
    if group.group_type is GroupType.STREAMS:
        tasks = coordinator.describe_streams(group.group_id).members
        return sum(len(each.partitions) for each in tasks)
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
