"""The settings of groups, with Kafka's defaults where Kafka has the setting."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

OFFSETS_PARTITIONS: Final = 50
"""Of the internal topic that keeps their state."""

_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 24 * 60 * _MINUTE_MS


class MigrationPolicy(StrEnum):
    """Which groups with members may change between the classic and the KIP-848 protocol."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        """A member of the KIP-848 protocol converts a classic group by joining it."""
        return self in {MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL}

    @property
    def may_downgrade(self) -> bool:
        """A KIP-848 group becomes a classic one when only classic members are left."""
        return self in {MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL}


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One value for every bound and every delay of group coordination."""

    min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`; a shorter one is refused."""

    max_session_timeout_ms: int = 30 * _MINUTE_MS
    """`group.max.session.timeout.ms`; a longer one is refused."""

    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`: an empty group waits this long for more members."""

    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
    """A member whose first join is still parked after this is dropped; its client tries again."""

    max_group_size: int = 10_000
    """`group.max.size`, members of one group; a further join is refused."""

    max_member_bytes: int = 1024 * 1024
    """What one member says of itself; one that says more is refused."""

    max_group_bytes: int = 8 * 1024 * 1024
    """What the members of one group say, and their assignments; who adds to it is refused."""

    member_memory_bytes: int = 32 * 1024 * 1024
    """The same for all groups together."""

    max_groups: int = 100_000
    """Groups in one coordinator; a further one is refused until an old one goes."""

    consumer_session_timeout_ms: int = 45_000
    """`group.consumer.session.timeout.ms`, for members of the KIP-848 protocol."""

    consumer_heartbeat_interval_ms: int = 5_000
    """`group.consumer.heartbeat.interval.ms`, told to every such member."""

    consumer_min_session_timeout_ms: int = 45_000
    """`group.consumer.min.session.timeout.ms`, for the setting of a group."""

    consumer_max_session_timeout_ms: int = 60_000
    """`group.consumer.max.session.timeout.ms`, for the setting of a group."""

    consumer_min_heartbeat_interval_ms: int = 5_000
    """`group.consumer.min.heartbeat.interval.ms`, for the setting of a group."""

    consumer_max_heartbeat_interval_ms: int = 15_000
    """`group.consumer.max.heartbeat.interval.ms`, for the setting of a group."""

    streams_session_timeout_ms: int = 45_000
    """`group.streams.session.timeout.ms`, for members of Streams groups."""

    streams_heartbeat_interval_ms: int = 5_000
    """`group.streams.heartbeat.interval.ms`, told to every such member."""

    streams_min_session_timeout_ms: int = 45_000
    """`group.streams.min.session.timeout.ms`, for the setting of a group."""

    streams_max_session_timeout_ms: int = 60_000
    """`group.streams.max.session.timeout.ms`, for the setting of a group."""

    streams_min_heartbeat_interval_ms: int = 5_000
    """`group.streams.min.heartbeat.interval.ms`, for the setting of a group."""

    streams_max_heartbeat_interval_ms: int = 15_000
    """`group.streams.max.heartbeat.interval.ms`, for the setting of a group."""

    streams_standby_count: int = 0
    """`group.streams.num.standby.replicas`: copies of the state of each task of a Streams group,
    each in another process."""

    streams_max_standby_count: int = 2
    """`group.streams.max.standby.replicas`, for the setting of a group."""

    streams_initial_rebalance_delay_ms: int = 3_000
    """`group.streams.initial.rebalance.delay.ms`: an empty Streams group waits this long for more
    members before it assigns tasks."""

    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """`group.consumer.migration.policy`, for groups that have members."""

    share_min_session_timeout_ms: int = 45_000
    """`group.share.min.session.timeout.ms`; a group cannot be set to a shorter one."""

    share_max_session_timeout_ms: int = 60_000
    """`group.share.max.session.timeout.ms`; nor to a longer one."""

    share_min_heartbeat_interval_ms: int = 5_000
    """`group.share.min.heartbeat.interval.ms`; likewise."""

    share_max_heartbeat_interval_ms: int = 15_000
    """`group.share.max.heartbeat.interval.ms`; likewise."""

    share_min_record_lock_duration_ms: int = 15_000
    """`group.share.min.record.lock.duration.ms`; likewise."""

    share_max_record_lock_duration_ms: int = 60_000
    """`group.share.max.record.lock.duration.ms`; likewise."""

    share_max_delivery_count_limit: int = 10
    """`group.share.max.delivery.count.limit`; a group cannot be set to more deliveries."""

    share_max_partition_locks: int = 4_000
    """`group.share.max.partition.max.record.locks`; a group cannot be set to more locks."""

    max_regex_chars: int = 1_000
    """A longer subscription pattern is refused."""

    offsets_retention_ms: int = 7 * _DAY_MS
    """`offsets.retention.minutes`: how long offsets outlive the last reader."""

    offsets_check_interval_ms: int = 10 * _MINUTE_MS
    """`offsets.retention.check.interval.ms`: how often expired offsets are looked for."""

    offset_metadata_max_chars: int = 4_096
    """`offset.metadata.max.bytes`, counted in characters as Kafka does."""
