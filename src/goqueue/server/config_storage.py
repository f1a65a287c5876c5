"""The settings of what is stored: logs and topics."""

# ruff: noqa: FBT003 - the first argument of `setting` is its default

from __future__ import annotations

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
from goqueue.server.config_table import Section, setting
from goqueue.storage.config import Fsync
from goqueue.topics.setting_table import SETTINGS as TOPIC_SETTINGS

_UPKEEP: Final = MaintenanceSettings()


def _topic_number(name: str) -> int:
    return int(TOPIC_SETTINGS[name].default)


class StorageSection(Section):
    """Logs on disk. Topics may override these settings where Kafka allows it."""

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
        "The maximum age of the active segment, so that retention can reach its records.",
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
        "`interval` within the interval, `never` when the operating system writes it. In every "
        "mode a killed process loses nothing; only a power cut can lose messages.",
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
        "How often retention runs, over logs with appends or expired segments.",
        kafka="log.retention.check.interval.ms",
    )
    compaction_check_ms: int = setting(
        round(_UPKEEP.compaction_s * SECOND),
        Duration(10, DAY),
        "How often compaction runs, over compacted logs with appends or that are due.",
        kafka="log.cleaner.backoff.ms",
    )
    checkpoint_ms: int = setting(
        round(_UPKEEP.checkpoint_s * SECOND),
        Duration(10, DAY),
        "How often logs write a checkpoint, which bounds the scan of a start after a crash.",
        name="checkpoint_interval",
        kafka="log.flush.offset.checkpoint.interval.ms",
    )
    producer_idle_ms: int = setting(
        _UPKEEP.producer_idle_ms,
        Duration(MINUTE, 100 * YEAR),
        "The state of an idempotent producer expires after this time without a batch.",
        name="producer_expiry",
        kafka="producer.id.expiration.ms",
    )
    disk_limit_percent: int = setting(
        round(_UPKEEP.disk_limit_percent),
        Whole(1, 100),
        "Publishing is refused while more than this percentage of the disk is in use.",
    )
    disk_check_ms: int = setting(
        round(_UPKEEP.disk_s * SECOND),
        Duration(10, DAY),
        "How often the disk usage is checked.",
    )


class TopicsSection(Section):
    """Defaults of new topics."""

    auto_create: bool = setting(
        True,
        Switch(),
        "Create a topic when a client requests one that does not exist.",
        kafka="auto.create.topics.enable",
    )
    partitions: int = setting(
        3,
        Whole(1, 10_000),
        "Partitions of a new topic, also of an auto-created one.",
        kafka="num.partitions",
    )
    max_partitions: int = setting(
        100_000,
        Whole(1, 10_000_000),
        "Partitions of all topics together, but for internal ones. A topic, or partitions, beyond "
        "that is refused.",
    )
    replication_factor: int = setting(
        1,
        Whole(1, 32_767),
        "Replicas of each partition. A single node holds one. Not set, in a cluster: 3, or as many "
        "as there are nodes if they are fewer.",
        kafka="default.replication.factor",
    )
    min_insync_replicas: int = setting(
        _topic_number("min.insync.replicas"),
        Whole(1, 32_767),
        "In-sync replicas that a message with acks=all needs. Not set, in a cluster: 2 if there "
        "are 3 replicas or more.",
        topic="min.insync.replicas",
        kafka="min.insync.replicas",
    )
    retention_ms: int = setting(
        _topic_number("retention.ms"),
        Duration(0, 100 * YEAR, unlimited=True),
        "Retention time of messages.",
        topic="retention.ms",
        kafka="log.retention.ms",
    )
    retention_bytes: int = setting(
        _topic_number("retention.bytes"),
        Size(0, 1 << 60, unlimited=True),
        "Retention size of each partition.",
        name="retention_size",
        topic="retention.bytes",
        kafka="log.retention.bytes",
    )
    max_message_bytes: int = setting(
        _topic_number("max.message.bytes"),
        Size(0, MAX_BATCH_BYTES),
        "The largest batch that is accepted.",
        name="max_message_size",
        topic="max.message.bytes",
        kafka="message.max.bytes",
    )
