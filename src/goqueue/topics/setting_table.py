"""The table of topic settings, under Kafka's names where Kafka has the setting."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.storage.config import Fsync
from goqueue.topics.setting import (
    LONG_MAX,
    Effect,
    Setting,
    choice,
    is_share,
    items,
    number,
    switch,
)

_HOUR_MS: Final = 3600 * 1000
_DAY_MS: Final = 24 * _HOUR_MS

LEAST_SEGMENT_BYTES: Final = 1 << 20
"""What `segment.bytes` has to be at least, as in Kafka; tests use `internal.segment.bytes`."""

_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+", re.ASCII)

_NO_TIERS: Final = "there is no remote storage"


class SchemaValidation(StrEnum):
    """What messages are held against before they are stored."""

    NONE = "none"
    LATEST = "latest"
    """The schema that they name, or else the latest of the topic's subject, if it has one."""
    ID = "id"
    """The schema that they must name, which must be one of the topic's subject."""


def _is_list_of_replicas(text: str) -> bool:
    return text.strip() in {"", "*"} or all(map(_REPLICA.fullmatch, items(text)))


def _throttled(name: str, side: str) -> Setting:
    return Setting(
        name,
        "",
        "* or partition:broker pairs with commas",
        _is_list_of_replicas,
        f"The replicas whose replication is throttled on the {side}'s side.",
        "list",
        Effect.NONE,
        "replication is not throttled",
    )


_RETENTION: Final = (
    Setting(
        "cleanup.policy",
        "delete",
        "delete, compact, both with a comma, or nothing",
        lambda text: set(items(text)) <= {"delete", "compact"},
        "Whether old segments are deleted, older records of a key are compacted away, both, or "
        "neither (an empty list).",
        "list",
    ),
    number("retention.ms", 7 * _DAY_MS, -1, "How long records are kept; -1 is for ever."),
    number("retention.bytes", -1, -1, "How much of a partition is kept; -1 is all of it."),
    number("delete.retention.ms", _DAY_MS, 0, "How long compaction keeps tombstones."),
    number(
        "min.compaction.lag.ms", 0, 0, "For how long compaction leaves a record alone at least."
    ),
    number(
        "max.compaction.lag.ms",
        LONG_MAX,
        1,
        "After how long a record is compacted, however little there is to compact.",
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        "0.5",
        "a number from 0 to 1",
        is_share,
        "How much of a partition must be uncompacted before compaction looks at it.",
        "double",
    ),
    number(
        "local.retention.ms",
        -2,
        -2,
        "How long records stay here that are in remote storage too; -2 is as retention.ms.",
        effect=Effect.NONE,
        note=_NO_TIERS,
    ),
    number(
        "local.retention.bytes",
        -2,
        -2,
        "How much stays here that is in remote storage too; -2 is as retention.bytes.",
        effect=Effect.NONE,
        note=_NO_TIERS,
    ),
    Setting(
        "remote.storage.enable",
        "false",
        "false: there is no remote storage",
        lambda text: text.strip().lower() == "false",
        "Whether segments are copied to remote storage.",
        "boolean",
        Effect.NONE,
        f"{_NO_TIERS}, so `true` is refused, as by a Kafka broker that has none",
    ),
    switch(
        "remote.log.copy.disable",
        "Whether segments are no longer copied to remote storage.",
        effect=Effect.NONE,
        note=_NO_TIERS,
    ),
    switch(
        "remote.log.delete.on.disable",
        "Whether remote segments are deleted when remote storage is disabled.",
        effect=Effect.NONE,
        note=_NO_TIERS,
    ),
)

_SEGMENTS: Final = (
    number(
        "segment.bytes",
        64 << 20,
        LEAST_SEGMENT_BYTES,
        "The size of a segment file.",
        kind="int",
        note="64 MiB by default, Kafka 1 GiB",
    ),
    number(
        "internal.segment.bytes",
        0,
        1,
        "The size of a segment file instead of segment.bytes, for tests: it may be tiny.",
        kind="int",
        note="instead of `segment.bytes`, for tests; not listed, as in Kafka",
        is_hidden=True,
    ),
    number("segment.ms", 7 * _DAY_MS, 1, "How long a segment may stay open."),
    number("segment.jitter.ms", 0, 0, "How much earlier a segment may be sealed, at random."),
    number(
        "index.interval.bytes", 4096, 0, "How far apart index entries are, in bytes.", kind="int"
    ),
    number(
        "segment.index.bytes",
        10 << 20,
        4,
        "The size of an index file.",
        kind="int",
        effect=Effect.NONE,
        note="an index is as large as its segment needs it; nothing is reserved for it",
    ),
    switch(
        "preallocate",
        "Whether a segment file gets its full size when it is made.",
        effect=Effect.NONE,
        note="files grow as they are appended to",
    ),
    number(
        "file.delete.delay.ms",
        60_000,
        0,
        "How long a file waits to be deleted.",
        effect=Effect.NONE,
        note="files are deleted at once; a read that has begun is finished",
    ),
)

_DURABILITY: Final = (
    choice(
        "goqueue.fsync",
        "interval",
        tuple(Fsync),
        "When an acknowledged publish is on the disk: always, within an interval, or when the "
        "operating system likes.",
    ),
    number(
        "flush.ms",
        1000,
        0,
        "The interval of goqueue.fsync=interval.",
        note="1 s by default, Kafka leaves it to the operating system",
    ),
    number(
        "flush.messages",
        LONG_MAX,
        1,
        "After how many records that are not on the disk the next is acknowledged only when it "
        "is; 1 is every record.",
    ),
    number(
        "min.insync.replicas",
        1,
        1,
        "How many replicas have to be in sync before an acks=all publish is taken and anything is "
        "committed.",
        kind="int",
        note="2 by default with three replicas, 1 on a single node. A value above the number of "
        "replicas counts as that number, as in Kafka",
    ),
    switch(
        "unclean.leader.election.enable",
        "Whether a replica that is not in sync may become the leader.",
        effect=Effect.NONE,
        note="a replica out of sync leads only when all replicas may have lost messages",
    ),
    _throttled("follower.replication.throttled.replicas", "follower"),
    _throttled("leader.replication.throttled.replicas", "leader"),
)

_BATCHES: Final = (
    number(
        "max.message.bytes",
        1_048_588,
        0,
        "The largest batch taken.",
        kind="int",
        note=f"a batch is never larger than {MAX_BATCH_BYTES} bytes",
    ),
    choice(
        "compression.type",
        "producer",
        ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "How batches are stored: as the producer sent them, or compressed anew.",
    ),
    number(
        "compression.gzip.level",
        -1,
        1,
        "How hard gzip tries where batches are compressed anew; -1 is its own default.",
        high=9,
        also=(-1,),
        kind="int",
    ),
    number(
        "compression.lz4.level",
        9,
        1,
        "How hard LZ4 tries where batches are compressed anew.",
        high=17,
        kind="int",
        note="levels above 9 count as 9, which bounds the time that one batch takes",
    ),
    number(
        "compression.zstd.level",
        3,
        -131_072,
        "How hard zstd tries where batches are compressed anew.",
        high=22,
        kind="int",
        note="levels above 9 count as 9, which bounds the time that one batch takes",
    ),
    choice(
        "message.timestamp.type",
        "CreateTime",
        ("CreateTime", "LogAppendTime"),
        "Whether records keep their producer's time or get the time of the append.",
    ),
    number(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        0,
        "How far ahead of the broker's clock records may be dated; others are refused.",
    ),
    number(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        0,
        "How far before the broker's clock records may be dated; others are refused.",
    ),
)

_OWN: Final = (
    choice(
        "goqueue.schema.validation",
        "none",
        tuple(SchemaValidation),
        "Whether messages are held against schemas: not at all; against the one they name or "
        "else the subject's latest; or against the one that they must name.",
    ),
    switch(
        "confluent.value.schema.validation", "Confluent's name for goqueue.schema.validation=id."
    ),
    choice(
        "goqueue.key.schema.validation",
        "none",
        tuple(SchemaValidation),
        "Whether the keys of messages are held against schemas, as goqueue.schema.validation says "
        "it of values.",
    ),
    switch(
        "confluent.key.schema.validation", "Confluent's name for goqueue.key.schema.validation=id."
    ),
    switch(
        "goqueue.kafka.headers",
        "Whether the headers goqueue-priority, goqueue-deliver-at and goqueue-ttl of Kafka "
        "producers mean something. When they do, each batch is searched for them.",
    ),
    switch("goqueue.delay.enable", "Whether messages may be delayed.", default=True),
    number("goqueue.delay.max.ms", 366 * _DAY_MS, 0, "How far ahead a message may be delayed."),
    number(
        "goqueue.delay.max.pending",
        1_000_000,
        0,
        "How many delayed messages may wait at once; 0 is without bound.",
    ),
    number(
        "message.ttl.ms",
        0,
        0,
        "How long a message is worth delivering to queue groups, when it does not say so "
        "itself; 0 is for ever.",
    ),
    switch(
        "goqueue.ttl.dead.letter",
        "Whether messages whose TTL expires in a queue group go to its dead letters.",
    ),
    Setting(
        "goqueue.trace",
        "default",
        "default, or a number from 0 to 1",
        lambda text: text == "default" or is_share(text),
        "The share of the topic's batches that is traced: 0 is none, 1 is all, default is what "
        "the broker's setting says (tracing.sampling).",
    ),
)

OWN_SETTINGS: Final = frozenset(each.name for each in _OWN) | {"goqueue.fsync"}
"""Those that Kafka does not have."""

SETTINGS: Final[dict[str, Setting]] = {
    each.name: each for each in (*_RETENTION, *_SEGMENTS, *_DURABILITY, *_BATCHES, *_OWN)
}
"""Every topic setting."""

LISTED: Final = tuple(each for each in SETTINGS.values() if not each.is_hidden)
"""Those that are shown."""
