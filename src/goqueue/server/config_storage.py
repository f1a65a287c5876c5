"""The settings of what is stored: logs and topics."""

# ruff: noqa: RUF009, FBT003 - `setting` makes a field, whatever its default is

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.partitions.upkeep import MaintenanceSettings
from goqueue.server.config_kinds import (
    DAY,
    MINUTE,
    SECOND,
    YEAR,
    Choice,
    Duration,
    Size,
    Switch,
    Whole,
)
from goqueue.server.config_table import setting
from goqueue.storage.config import Fsync
from goqueue.topics.setting_table import SETTINGS as TOPIC_SETTINGS

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
        Duration(1, 100 * YEAR),
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
        Duration(1, DAY),
        "The interval of `fsync: interval`.",
        name="sync_interval",
        topic="flush.ms",
        kafka="log.flush.interval.ms",
    )
    retention_check_ms: int = setting(
        round(_UPKEEP.retention_s * SECOND),
        Duration(10, DAY),
        "How often retention runs. It looks at logs that were appended to or have a segment due.",
        kafka="log.retention.check.interval.ms",
    )
    compaction_check_ms: int = setting(
        round(_UPKEEP.compaction_s * SECOND),
        Duration(10, DAY),
        "How often compaction runs. It looks at compacted logs that were appended to or are due.",
        kafka="log.cleaner.backoff.ms",
    )
    checkpoint_ms: int = setting(
        round(_UPKEEP.checkpoint_s * SECOND),
        Duration(10, DAY),
        "How often logs note how far they are safe, which bounds what a start after a crash scans.",
        name="checkpoint_interval",
        kafka="log.flush.offset.checkpoint.interval.ms",
    )
    producer_idle_ms: int = setting(
        _UPKEEP.producer_idle_ms,
        Duration(MINUTE, 100 * YEAR),
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
        round(_UPKEEP.disk_s * SECOND),
        Duration(10, DAY),
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
        Duration(0, 100 * YEAR, unlimited=True),
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
