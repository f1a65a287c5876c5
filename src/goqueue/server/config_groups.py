"""The settings of groups and transactions."""

from __future__ import annotations

from typing import Final

from goqueue.groups.settings import GroupSettings, MigrationPolicy
from goqueue.model.limits import MAX_DELIVERIES, MAX_STANDBY_REPLICAS, MAX_VISIBILITY_MS
from goqueue.server.config_kinds import DAY, MINUTE, SECOND, YEAR, Choice, Duration, Size, Whole
from goqueue.server.config_table import Section, setting
from goqueue.transactions.settings import TransactionSettings

_GROUPS: Final = GroupSettings()
_TRANSACTIONS: Final = TransactionSettings()


class GroupsSection(Section):
    """Consumer groups."""

    min_session_timeout_ms: int = setting(
        _GROUPS.min_session_timeout_ms,
        Duration(1, DAY),
        "A member with a shorter session timeout is refused.",
        kafka="group.min.session.timeout.ms",
    )
    max_session_timeout_ms: int = setting(
        _GROUPS.max_session_timeout_ms,
        Duration(1, DAY),
        "A member with a longer session timeout is refused.",
        kafka="group.max.session.timeout.ms",
    )
    initial_rebalance_delay_ms: int = setting(
        _GROUPS.initial_rebalance_delay_ms,
        Duration(0, 10 * MINUTE),
        "How long an empty group waits for more members before its first rebalance.",
        kafka="group.initial.rebalance.delay.ms",
    )
    max_group_size: int = setting(
        _GROUPS.max_group_size,
        Whole(1, 1_000_000),
        "Members of one group; a further one is refused.",
        name="max_size",
        kafka="group.max.size",
    )
    member_memory_bytes: int = setting(
        _GROUPS.member_memory_bytes,
        Size(1 << 20, 1 << 40),
        "Memory for metadata and assignments of the members of all groups; beyond it members are "
        "refused.",
    )
    consumer_session_timeout_ms: int = setting(
        _GROUPS.consumer_session_timeout_ms,
        Duration(1, DAY),
        "The session timeout of members of the consumer protocol (KIP-848).",
        kafka="group.consumer.session.timeout.ms",
    )
    consumer_heartbeat_interval_ms: int = setting(
        _GROUPS.consumer_heartbeat_interval_ms,
        Duration(1, DAY),
        "The heartbeat interval of such members.",
        kafka="group.consumer.heartbeat.interval.ms",
    )
    consumer_min_session_timeout_ms: int = setting(
        _GROUPS.consumer_min_session_timeout_ms,
        Duration(1, DAY),
        "The least that `consumer.session.timeout.ms` of a group may be.",
        kafka="group.consumer.min.session.timeout.ms",
    )
    consumer_max_session_timeout_ms: int = setting(
        _GROUPS.consumer_max_session_timeout_ms,
        Duration(1, DAY),
        "The most that `consumer.session.timeout.ms` of a group may be.",
        kafka="group.consumer.max.session.timeout.ms",
    )
    consumer_min_heartbeat_interval_ms: int = setting(
        _GROUPS.consumer_min_heartbeat_interval_ms,
        Duration(1, DAY),
        "The least that `consumer.heartbeat.interval.ms` of a group may be.",
        kafka="group.consumer.min.heartbeat.interval.ms",
    )
    consumer_max_heartbeat_interval_ms: int = setting(
        _GROUPS.consumer_max_heartbeat_interval_ms,
        Duration(1, DAY),
        "The most that `consumer.heartbeat.interval.ms` of a group may be.",
        kafka="group.consumer.max.heartbeat.interval.ms",
    )
    streams_session_timeout_ms: int = setting(
        _GROUPS.streams_session_timeout_ms,
        Duration(1, DAY),
        "The session timeout of members of Streams groups (KIP-1071).",
        kafka="group.streams.session.timeout.ms",
    )
    streams_heartbeat_interval_ms: int = setting(
        _GROUPS.streams_heartbeat_interval_ms,
        Duration(1, DAY),
        "The heartbeat interval of such members.",
        kafka="group.streams.heartbeat.interval.ms",
    )
    streams_min_session_timeout_ms: int = setting(
        _GROUPS.streams_min_session_timeout_ms,
        Duration(1, DAY),
        "The least that `streams.session.timeout.ms` of a group may be.",
        kafka="group.streams.min.session.timeout.ms",
    )
    streams_max_session_timeout_ms: int = setting(
        _GROUPS.streams_max_session_timeout_ms,
        Duration(1, DAY),
        "The most that `streams.session.timeout.ms` of a group may be.",
        kafka="group.streams.max.session.timeout.ms",
    )
    streams_min_heartbeat_interval_ms: int = setting(
        _GROUPS.streams_min_heartbeat_interval_ms,
        Duration(1, DAY),
        "The least that `streams.heartbeat.interval.ms` of a group may be.",
        kafka="group.streams.min.heartbeat.interval.ms",
    )
    streams_max_heartbeat_interval_ms: int = setting(
        _GROUPS.streams_max_heartbeat_interval_ms,
        Duration(1, DAY),
        "The most that `streams.heartbeat.interval.ms` of a group may be.",
        kafka="group.streams.max.heartbeat.interval.ms",
    )
    streams_standby_count: int = setting(
        _GROUPS.streams_standby_count,
        Whole(0, MAX_STANDBY_REPLICAS),
        "Standby replicas of each stateful task of a Streams group, each in another process.",
        name="streams_standby_replicas",
        kafka="group.streams.num.standby.replicas",
    )
    streams_max_standby_count: int = setting(
        _GROUPS.streams_max_standby_count,
        Whole(0, MAX_STANDBY_REPLICAS),
        "The most that `streams.num.standby.replicas` of a group may be.",
        name="streams_max_standby_replicas",
        kafka="group.streams.max.standby.replicas",
    )
    streams_initial_rebalance_delay_ms: int = setting(
        _GROUPS.streams_initial_rebalance_delay_ms,
        Duration(0, 10 * MINUTE),
        "How long an empty Streams group waits for more members before it assigns tasks.",
        kafka="group.streams.initial.rebalance.delay.ms",
    )
    migration_policy: MigrationPolicy = setting(
        _GROUPS.migration_policy,
        Choice(MigrationPolicy),
        "Which groups with members change protocol: `upgrade` lets a classic group become a "
        "KIP-848 one when a member of that protocol joins it, `downgrade` lets it become a classic "
        "one when the last such member has left, `bidirectional` both, `disabled` neither.",
        kafka="group.consumer.migration.policy",
    )
    share_min_session_timeout_ms: int = setting(
        _GROUPS.share_min_session_timeout_ms,
        Duration(1, DAY),
        "A share group cannot be set to a shorter `share.session.timeout.ms`.",
        kafka="group.share.min.session.timeout.ms",
    )
    share_max_session_timeout_ms: int = setting(
        _GROUPS.share_max_session_timeout_ms,
        Duration(1, DAY),
        "A share group cannot be set to a longer `share.session.timeout.ms`.",
        kafka="group.share.max.session.timeout.ms",
    )
    share_min_heartbeat_interval_ms: int = setting(
        _GROUPS.share_min_heartbeat_interval_ms,
        Duration(1, DAY),
        "A share group cannot be set to a shorter `share.heartbeat.interval.ms`.",
        kafka="group.share.min.heartbeat.interval.ms",
    )
    share_max_heartbeat_interval_ms: int = setting(
        _GROUPS.share_max_heartbeat_interval_ms,
        Duration(1, DAY),
        "A share group cannot be set to a longer `share.heartbeat.interval.ms`.",
        kafka="group.share.max.heartbeat.interval.ms",
    )
    share_min_record_lock_duration_ms: int = setting(
        _GROUPS.share_min_record_lock_duration_ms,
        Duration(1, MAX_VISIBILITY_MS),
        "A share group cannot be set to a shorter `share.record.lock.duration.ms`.",
        kafka="group.share.min.record.lock.duration.ms",
    )
    share_max_record_lock_duration_ms: int = setting(
        _GROUPS.share_max_record_lock_duration_ms,
        Duration(1, MAX_VISIBILITY_MS),
        "A share group cannot be set to a longer `share.record.lock.duration.ms`.",
        kafka="group.share.max.record.lock.duration.ms",
    )
    share_max_delivery_count_limit: int = setting(
        _GROUPS.share_max_delivery_count_limit,
        Whole(2, MAX_DELIVERIES),
        "A share group cannot be set to a larger `share.delivery.count.limit`.",
        kafka="group.share.max.delivery.count.limit",
    )
    share_max_partition_locks: int = setting(
        _GROUPS.share_max_partition_locks,
        Whole(100, 1_000_000),
        "A share group cannot be set to a larger `share.partition.max.record.locks`.",
        kafka="group.share.max.partition.max.record.locks",
    )
    offsets_partitions: int = setting(
        16,
        Whole(1, 1000),
        "Partitions of the topic that holds committed offsets; fixed once it exists.",
        kafka="offsets.topic.num.partitions",
    )
    offsets_retention_ms: int = setting(
        _GROUPS.offsets_retention_ms,
        Duration(MINUTE, 100 * YEAR),
        "Retention of committed offsets after the last member has left.",
        kafka="offsets.retention.minutes",
        kafka_unit=MINUTE,
    )
    offsets_check_interval_ms: int = setting(
        _GROUPS.offsets_check_interval_ms,
        Duration(10, DAY),
        "How often expired offsets are removed.",
        kafka="offsets.retention.check.interval.ms",
    )
    offset_metadata_max_chars: int = setting(
        _GROUPS.offset_metadata_max_chars,
        Whole(0, 1_000_000),
        "Characters that may be committed with an offset.",
        name="offset_metadata_max",
        kafka="offset.metadata.max.bytes",
    )


class TransactionsSection(Section):
    """Transactions."""

    max_timeout_ms: int = setting(
        _TRANSACTIONS.max_timeout_ms,
        Duration(SECOND, DAY),
        "A producer with a longer transaction timeout is refused.",
        kafka="transaction.max.timeout.ms",
    )
    session_timeout_ms: int = setting(
        _TRANSACTIONS.session_timeout_ms,
        Duration(SECOND, DAY),
        "An open transaction of an HTTP or gRPC producer without a heartbeat for this long is "
        "aborted.",
    )
    id_expiration_ms: int = setting(
        _TRANSACTIONS.id_expiration_ms,
        Duration(MINUTE, 100 * YEAR),
        "A transactional id that is unused for this long expires.",
        kafka="transactional.id.expiration.ms",
    )
    state_partitions: int = setting(
        16,
        Whole(1, 1000),
        "Partitions of the topic that holds transactions; fixed once it exists.",
        kafka="transaction.state.log.num.partitions",
    )
