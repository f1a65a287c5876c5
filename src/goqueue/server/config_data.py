"""The settings of what is stored: logs, topics, groups, transactions."""

# ruff: noqa: RUF009, FBT003 - `setting` makes a field, whatever its default is

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from goqueue.delivery.settings import MAX_DELIVERIES, MAX_VISIBILITY_MS
from goqueue.groups.settings import MAX_STANDBYS, GroupSettings, MigrationPolicy
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.partitions.upkeep import MaintenanceSettings
from goqueue.server.config_kinds import Choice, Duration, Size, Switch, Whole
from goqueue.server.config_table import setting
from goqueue.storage.config import Fsync
from goqueue.topics.setting_table import SETTINGS as TOPIC_SETTINGS
from goqueue.transactions.settings import TransactionSettings

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_DAY: Final = 24 * 60 * _MINUTE
_YEAR: Final = 365 * _DAY

_GROUPS: Final = GroupSettings()
_TRANSACTIONS: Final = TransactionSettings()
_UPKEEP: Final = MaintenanceSettings()


def _topic_number(name: str) -> int:
    return int(TOPIC_SETTINGS[name].default)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSection:
    """How logs are kept. Topics may say otherwise for themselves where Kafka lets them."""

    segment_bytes: int = setting(
        _topic_number("segment.bytes"),
        Size(1024, 1 << 31),
        "The size of a segment file.",
        name="segment_size",
        topic="segment.bytes",
        kafka="log.segment.bytes",
    )
    segment_ms: int = setting(
        _topic_number("segment.ms"),
        Duration(1, 100 * _YEAR),
        "How long a segment takes appends at most, so that retention can reach its records.",
        name="segment_age",
        topic="segment.ms",
        kafka="log.roll.ms",
    )
    index_interval_bytes: int = setting(
        _topic_number("index.interval.bytes"),
        Size(1, 1 << 30),
        "How far apart the entries of an index are.",
        topic="index.interval.bytes",
        kafka="log.index.interval.bytes",
    )
    fsync: Fsync = setting(
        Fsync(TOPIC_SETTINGS["goqueue.fsync"].default),
        Choice(Fsync),
        "When an acknowledged message is on the disk: `always` before the acknowledgement, "
        "`interval` within the interval, `never` when the operating system likes. "
        "Whatever is chosen, a killed process loses nothing; only a power cut can.",
        flag="--fsync",
        topic="goqueue.fsync",
    )
    fsync_interval_ms: int = setting(
        _topic_number("flush.ms"),
        Duration(1, _DAY),
        "The interval of `fsync: interval`.",
        name="sync_interval",
        topic="flush.ms",
        kafka="log.flush.interval.ms",
    )
    retention_check_ms: int = setting(
        round(_UPKEEP.retention_s * _SECOND),
        Duration(10, _DAY),
        "How often retention runs. It looks at logs that were appended to or have a segment due.",
        kafka="log.retention.check.interval.ms",
    )
    compaction_check_ms: int = setting(
        round(_UPKEEP.compaction_s * _SECOND),
        Duration(10, _DAY),
        "How often compaction runs. It looks at compacted logs that were appended to or are due.",
        kafka="log.cleaner.backoff.ms",
    )
    checkpoint_ms: int = setting(
        round(_UPKEEP.checkpoint_s * _SECOND),
        Duration(10, _DAY),
        "How often logs note how far they are safe, which bounds what a start after a crash scans.",
        name="checkpoint_interval",
        kafka="log.flush.offset.checkpoint.interval.ms",
    )
    producer_idle_ms: int = setting(
        _UPKEEP.producer_idle_ms,
        Duration(_MINUTE, 100 * _YEAR),
        "How long an idempotent producer may be silent before it is forgotten.",
        name="producer_expiry",
        kafka="producer.id.expiration.ms",
    )
    disk_limit_percent: int = setting(
        round(_UPKEEP.disk_limit_percent),
        Whole(1, 100),
        "Publishing is refused while more than this share of the disk is in use.",
    )
    disk_check_ms: int = setting(
        round(_UPKEEP.disk_s * _SECOND),
        Duration(10, _DAY),
        "How often the disk's use is looked at.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsSection:
    """What a topic is like when its maker does not say."""

    auto_create: bool = setting(
        True,
        Switch(),
        "A topic that a client asks for and that does not exist is made.",
        kafka="auto.create.topics.enable",
    )
    partitions: int = setting(
        3,
        Whole(1, 10_000),
        "Partitions of a topic, also of one that is made because a client asked for it.",
        kafka="num.partitions",
    )
    replication_factor: int = setting(
        1,
        Whole(1, 32_767),
        "Copies of each partition. A node on its own holds one.",
        kafka="default.replication.factor",
    )
    retention_ms: int = setting(
        _topic_number("retention.ms"),
        Duration(0, 100 * _YEAR, unlimited=True),
        "How long messages are kept.",
        topic="retention.ms",
        kafka="log.retention.ms",
    )
    retention_bytes: int = setting(
        _topic_number("retention.bytes"),
        Size(0, 1 << 60, unlimited=True),
        "How much of each partition is kept.",
        name="retention_size",
        topic="retention.bytes",
        kafka="log.retention.bytes",
    )
    max_message_bytes: int = setting(
        _topic_number("max.message.bytes"),
        Size(0, MAX_BATCH_BYTES),
        "The largest batch that is taken.",
        name="max_message_size",
        topic="max.message.bytes",
        kafka="message.max.bytes",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSection:
    """Consumer groups."""

    min_session_timeout_ms: int = setting(
        _GROUPS.min_session_timeout_ms,
        Duration(1, _DAY),
        "A member that asks for a shorter session is refused.",
        kafka="group.min.session.timeout.ms",
    )
    max_session_timeout_ms: int = setting(
        _GROUPS.max_session_timeout_ms,
        Duration(1, _DAY),
        "A member that asks for a longer session is refused.",
        kafka="group.max.session.timeout.ms",
    )
    initial_rebalance_delay_ms: int = setting(
        _GROUPS.initial_rebalance_delay_ms,
        Duration(0, 10 * _MINUTE),
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
        "Metadata and assignments of the members of all groups; a member for which there is no "
        "room is refused.",
    )
    consumer_session_timeout_ms: int = setting(
        _GROUPS.consumer_session_timeout_ms,
        Duration(1, _DAY),
        "How long a member of the newer protocol (KIP-848) may be silent.",
        kafka="group.consumer.session.timeout.ms",
    )
    consumer_heartbeat_interval_ms: int = setting(
        _GROUPS.consumer_heartbeat_interval_ms,
        Duration(1, _DAY),
        "How often such a member is told to speak.",
        kafka="group.consumer.heartbeat.interval.ms",
    )
    consumer_min_session_timeout_ms: int = setting(
        _GROUPS.consumer_min_session_timeout_ms,
        Duration(1, _DAY),
        "The least that `consumer.session.timeout.ms` of a group may be.",
        kafka="group.consumer.min.session.timeout.ms",
    )
    consumer_max_session_timeout_ms: int = setting(
        _GROUPS.consumer_max_session_timeout_ms,
        Duration(1, _DAY),
        "The most that `consumer.session.timeout.ms` of a group may be.",
        kafka="group.consumer.max.session.timeout.ms",
    )
    consumer_min_heartbeat_interval_ms: int = setting(
        _GROUPS.consumer_min_heartbeat_interval_ms,
        Duration(1, _DAY),
        "The least that `consumer.heartbeat.interval.ms` of a group may be.",
        kafka="group.consumer.min.heartbeat.interval.ms",
    )
    consumer_max_heartbeat_interval_ms: int = setting(
        _GROUPS.consumer_max_heartbeat_interval_ms,
        Duration(1, _DAY),
        "The most that `consumer.heartbeat.interval.ms` of a group may be.",
        kafka="group.consumer.max.heartbeat.interval.ms",
    )
    streams_session_timeout_ms: int = setting(
        _GROUPS.streams_session_timeout_ms,
        Duration(1, _DAY),
        "The session timeout of members of Streams groups (KIP-1071).",
        kafka="group.streams.session.timeout.ms",
    )
    streams_heartbeat_interval_ms: int = setting(
        _GROUPS.streams_heartbeat_interval_ms,
        Duration(1, _DAY),
        "The heartbeat interval of such members.",
        kafka="group.streams.heartbeat.interval.ms",
    )
    streams_min_session_timeout_ms: int = setting(
        _GROUPS.streams_min_session_timeout_ms,
        Duration(1, _DAY),
        "The least that `streams.session.timeout.ms` of a group may be.",
        kafka="group.streams.min.session.timeout.ms",
    )
    streams_max_session_timeout_ms: int = setting(
        _GROUPS.streams_max_session_timeout_ms,
        Duration(1, _DAY),
        "The most that `streams.session.timeout.ms` of a group may be.",
        kafka="group.streams.max.session.timeout.ms",
    )
    streams_min_heartbeat_interval_ms: int = setting(
        _GROUPS.streams_min_heartbeat_interval_ms,
        Duration(1, _DAY),
        "The least that `streams.heartbeat.interval.ms` of a group may be.",
        kafka="group.streams.min.heartbeat.interval.ms",
    )
    streams_max_heartbeat_interval_ms: int = setting(
        _GROUPS.streams_max_heartbeat_interval_ms,
        Duration(1, _DAY),
        "The most that `streams.heartbeat.interval.ms` of a group may be.",
        kafka="group.streams.max.heartbeat.interval.ms",
    )
    streams_standby_count: int = setting(
        _GROUPS.streams_standby_count,
        Whole(0, MAX_STANDBYS),
        "Standbys of each task of a Streams group that has state, each in another process.",
        name="streams_standby_replicas",
        kafka="group.streams.num.standby.replicas",
    )
    streams_max_standby_count: int = setting(
        _GROUPS.streams_max_standby_count,
        Whole(0, MAX_STANDBYS),
        "The most that `streams.num.standby.replicas` of a group may be.",
        name="streams_max_standby_replicas",
        kafka="group.streams.max.standby.replicas",
    )
    streams_initial_rebalance_delay_ms: int = setting(
        _GROUPS.streams_initial_rebalance_delay_ms,
        Duration(0, 10 * _MINUTE),
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
        Duration(1, _DAY),
        "A share group cannot be set to a shorter `share.session.timeout.ms`.",
        kafka="group.share.min.session.timeout.ms",
    )
    share_max_session_timeout_ms: int = setting(
        _GROUPS.share_max_session_timeout_ms,
        Duration(1, _DAY),
        "A share group cannot be set to a longer `share.session.timeout.ms`.",
        kafka="group.share.max.session.timeout.ms",
    )
    share_min_heartbeat_interval_ms: int = setting(
        _GROUPS.share_min_heartbeat_interval_ms,
        Duration(1, _DAY),
        "A share group cannot be set to a shorter `share.heartbeat.interval.ms`.",
        kafka="group.share.min.heartbeat.interval.ms",
    )
    share_max_heartbeat_interval_ms: int = setting(
        _GROUPS.share_max_heartbeat_interval_ms,
        Duration(1, _DAY),
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
        Duration(_MINUTE, 100 * _YEAR),
        "How long committed offsets outlive a group's last member.",
        kafka="offsets.retention.minutes",
        kafka_unit=_MINUTE,
    )
    offsets_check_interval_ms: int = setting(
        _GROUPS.offsets_check_interval_ms,
        Duration(10, _DAY),
        "How often expired offsets are looked for.",
        kafka="offsets.retention.check.interval.ms",
    )
    offset_metadata_max_chars: int = setting(
        _GROUPS.offset_metadata_max_chars,
        Whole(0, 1_000_000),
        "Characters that may be committed with an offset.",
        name="offset_metadata_max",
        kafka="offset.metadata.max.bytes",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsSection:
    """Transactions."""

    max_timeout_ms: int = setting(
        _TRANSACTIONS.max_timeout_ms,
        Duration(_SECOND, _DAY),
        "A producer that wants its transactions to stay open for longer is refused.",
        kafka="transaction.max.timeout.ms",
    )
    session_timeout_ms: int = setting(
        _TRANSACTIONS.session_timeout_ms,
        Duration(_SECOND, _DAY),
        "An open transaction of an HTTP or gRPC producer that is silent for so long is aborted.",
    )
    id_expiration_ms: int = setting(
        _TRANSACTIONS.id_expiration_ms,
        Duration(_MINUTE, 100 * _YEAR),
        "A transactional id that nobody has used for so long is forgotten.",
        kafka="transactional.id.expiration.ms",
    )
    state_partitions: int = setting(
        16,
        Whole(1, 1000),
        "Partitions of the topic that holds transactions; fixed once it exists.",
        kafka="transaction.state.log.num.partitions",
    )
