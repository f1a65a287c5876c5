"""The settings of one topic, under Kafka's names where Kafka has the setting."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from goqueue.broker.timestamps import TimestampLimits
from goqueue.model.errors import InvalidTopicConfigError
from goqueue.records import Compression
from goqueue.storage.cleanable import CompactionLimits
from goqueue.storage.config import Fsync, LogConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HOUR_MS: Final = 3600 * 1000
_DAY_MS: Final = 24 * _HOUR_MS
_LARGEST: Final = (1 << 63) - 1


class SchemaValidation(StrEnum):
    """What messages are held against before they are stored."""

    NONE = "none"
    LATEST = "latest"
    """The schema that they name, or else the latest of the topic's subject, if it has one."""
    ID = "id"
    """The schema that they must name, which must be one of the topic's subject."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: what it is called, what it may be, and what it is when nobody says."""

    name: str
    default: str
    expected: str
    accepts: Callable[[str], bool]
    documentation: str
    kind: str = "string"
    """The type that Kafka's DescribeConfigs reports."""


def _number(
    name: str,
    default: int,
    low: int,
    documentation: str,
    *,
    high: int = _LARGEST,
    kind: str = "long",
) -> Setting:
    def accepts(text: str) -> bool:
        try:
            return low <= int(text) <= high
        except ValueError:
            return False

    expected = f"a whole number from {low}" + (f" to {high}" if high != _LARGEST else "")
    return Setting(name, str(default), expected, accepts, documentation, kind)


def _choice(
    name: str, default: str, choices: tuple[str, ...], documentation: str, *, kind: str = "string"
) -> Setting:
    return Setting(
        name, default, f"one of {', '.join(choices)}", choices.__contains__, documentation, kind
    )


def _ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _policies(text: str) -> bool:
    return bool(text) and {part.strip() for part in text.split(",")} <= {"delete", "compact"}


_NO_EFFECT: Final = "Accepted because Kafka's tools set it; it has no effect here."
_WITHOUT_EFFECT: Final = {
    "file.delete.delay.ms": "60000",
    "flush.messages": str(_LARGEST),
    "follower.replication.throttled.replicas": "",
    "leader.replication.throttled.replicas": "",
    "message.downconversion.enable": "true",
    "message.timestamp.difference.max.ms": str(_LARGEST),
    "preallocate": "false",
    "remote.storage.enable": "false",
    "segment.index.bytes": "10485760",
    "unclean.leader.election.enable": "false",
}


SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            "cleanup.policy",
            "delete",
            "delete, compact, or both with a comma",
            _policies,
            "Whether old segments are deleted, older records of a key are compacted away, or both.",
            "list",
        ),
        _number("retention.ms", 7 * _DAY_MS, -1, "How long records are kept; -1 is for ever."),
        _number("retention.bytes", -1, -1, "How much of a partition is kept; -1 is all of it."),
        _number(
            "segment.bytes", 64 << 20, 1024, "The size of a segment file.", high=1 << 31, kind="int"
        ),
        _number("segment.ms", 7 * _DAY_MS, 1, "How long a segment may stay open."),
        _number("segment.jitter.ms", 0, 0, "How much earlier a segment may be sealed, at random."),
        _number(
            "index.interval.bytes",
            4096,
            1,
            "How far apart index entries are.",
            high=1 << 30,
            kind="int",
        ),
        _number(
            "max.message.bytes", 1_048_588, 0, "The largest batch taken.", high=64 << 20, kind="int"
        ),
        _choice(
            "compression.type",
            "producer",
            ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
            "How batches are stored: as the producer sent them, or compressed anew.",
        ),
        _choice(
            "message.timestamp.type",
            "CreateTime",
            ("CreateTime", "LogAppendTime"),
            "Whether records keep their producer's time or get the time of the append.",
        ),
        _number(
            "message.timestamp.after.max.ms",
            _HOUR_MS,
            0,
            "How far ahead of the broker's clock records may be dated; others are refused.",
        ),
        _number(
            "message.timestamp.before.max.ms",
            _LARGEST,
            0,
            "How far behind the broker's clock records may be dated; others are refused.",
        ),
        _number(
            "min.insync.replicas", 1, 1, "How many replicas an acks=all publish needs.", kind="int"
        ),
        _number("delete.retention.ms", _DAY_MS, 0, "How long compaction keeps tombstones."),
        _number(
            "min.compaction.lag.ms", 0, 0, "For how long compaction leaves a record alone at least."
        ),
        _number(
            "max.compaction.lag.ms",
            _LARGEST,
            1,
            "After how long a record is compacted, however little there is to compact.",
        ),
        Setting(
            "min.cleanable.dirty.ratio",
            "0.5",
            "a number from 0 to 1",
            _ratio,
            "How much of a partition must be uncompacted before compaction looks at it.",
            "double",
        ),
        _choice(
            "goqueue.fsync",
            "interval",
            tuple(Fsync),
            "When an acknowledged publish is on the disk: always, within an interval, or when the "
            "operating system likes.",
        ),
        _number("flush.ms", 1000, 1, "The interval of goqueue.fsync=interval."),
        _choice(
            "goqueue.schema.validation",
            "none",
            tuple(SchemaValidation),
            "Whether messages are held against schemas: not at all; against the one they name or "
            "else the subject's latest; or against the one that they must name.",
        ),
        _choice(
            "confluent.value.schema.validation",
            "false",
            ("false", "true"),
            "Confluent's name for goqueue.schema.validation=id.",
        ),
        _choice(
            "goqueue.kafka.headers",
            "false",
            ("true", "false"),
            "Whether the headers goqueue-priority, goqueue-deliver-at and goqueue-ttl of Kafka "
            "producers mean something. When they do, each batch is searched for them.",
            kind="boolean",
        ),
        _choice(
            "goqueue.delay.enable",
            "true",
            ("true", "false"),
            "Whether messages may be delayed.",
            kind="boolean",
        ),
        _number(
            "goqueue.delay.max.ms", 366 * _DAY_MS, 0, "How far ahead a message may be delayed."
        ),
        _number(
            "goqueue.delay.max.pending",
            1_000_000,
            0,
            "How many delayed messages may wait at once; 0 is without bound.",
        ),
        _number(
            "message.ttl.ms",
            0,
            0,
            "How long a message is worth delivering to queue groups, when it does not say so "
            "itself; 0 is for ever.",
        ),
        _choice(
            "goqueue.ttl.dead.letter",
            "false",
            ("true", "false"),
            "Whether messages that outlive their time in a queue group go to its dead letters.",
            kind="boolean",
        ),
        Setting(
            "goqueue.trace",
            "default",
            "default, or a number from 0 to 1",
            lambda text: text == "default" or _ratio(text),
            "The share of the topic's batches that is traced: 0 is none, 1 is all, default is what "
            "the broker's setting says (tracing.sampling).",
        ),
        *(
            Setting(name, default, "anything", lambda _: True, _NO_EFFECT)
            for name, default in _WITHOUT_EFFECT.items()
        ),
    )
}


@dataclass(frozen=True)
class TopicSettings:
    """Every setting of one topic, typed; `overrides` are those that were said for this topic.

    What every publish asks for is worked out once.
    """

    overrides: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What this broker uses where a topic says nothing, if not the product's own default."""

    def text(self, name: str) -> str:
        """The value in force, as it was written."""
        if name in self.overrides:
            return self.overrides[name]
        return self.defaults.get(name, SETTINGS[name].default)

    def number(self, name: str) -> int:
        """The value in force of a numeric setting."""
        return int(self.text(name))

    @cached_property
    def max_message_bytes(self) -> int:
        """The largest batch taken."""
        return self.number("max.message.bytes")

    @cached_property
    def codec(self) -> Compression | None:
        """What batches are compressed with; None is whatever the producer chose."""
        name = self.text("compression.type")
        if name == "producer":
            return None
        return Compression.NONE if name == "uncompressed" else Compression[name.upper()]

    @cached_property
    def stamps_append_time(self) -> bool:
        """Records get the time of the append instead of their producer's."""
        return self.text("message.timestamp.type") == "LogAppendTime"

    @cached_property
    def timestamp_limits(self) -> TimestampLimits | None:
        """How far timestamps may be from the time of the append; None where they do not count."""
        if self.stamps_append_time:
            return None
        after_ms, before_ms = (
            self.number(f"message.timestamp.{side}.max.ms") for side in ("after", "before")
        )
        return TimestampLimits(
            None if after_ms == _LARGEST else after_ms,
            None if before_ms == _LARGEST else before_ms,
        )

    @cached_property
    def schema_validation(self) -> SchemaValidation:
        """What messages are held against."""
        own = SchemaValidation(self.text("goqueue.schema.validation"))
        is_asked = self.text("confluent.value.schema.validation") == "true"
        return SchemaValidation.ID if own is SchemaValidation.NONE and is_asked else own

    @cached_property
    def validates(self) -> bool:
        """Messages are held against schemas."""
        return self.schema_validation is not SchemaValidation.NONE

    @cached_property
    def compacts(self) -> bool:
        """Older records of a key go."""
        return "compact" in self.text("cleanup.policy")

    @property
    def deletes(self) -> bool:
        """Old segments go."""
        return "delete" in self.text("cleanup.policy")

    @cached_property
    def compaction_limits(self) -> CompactionLimits:
        """When records of a compacted topic are compacted."""
        max_lag_ms = self.number("max.compaction.lag.ms")
        return CompactionLimits(
            float(self.text("min.cleanable.dirty.ratio")),
            self.number("min.compaction.lag.ms"),
            None if max_lag_ms == _LARGEST else max_lag_ms,
        )

    @property
    def retention_ms(self) -> int | None:
        """None is for ever."""
        value = self.number("retention.ms")
        return value if value >= 0 else None

    @property
    def retention_bytes(self) -> int | None:
        """None is without bound."""
        value = self.number("retention.bytes")
        return value if value >= 0 else None

    @cached_property
    def takes_kafka_headers(self) -> bool:
        """Headers of Kafka producers say how their records are to be delivered."""
        return self.text("goqueue.kafka.headers") == "true"

    @cached_property
    def may_delay(self) -> bool:
        """Messages may be delivered later than they are published."""
        return self.text("goqueue.delay.enable") == "true"

    @cached_property
    def max_delay_ms(self) -> int:
        """How far ahead a message may be delayed."""
        return self.number("goqueue.delay.max.ms")

    @cached_property
    def max_pending(self) -> int | None:
        """How many delayed messages may wait at once; None is without bound."""
        return self.number("goqueue.delay.max.pending") or None

    @cached_property
    def ttl_ms(self) -> int | None:
        """How long messages without a life of their own are worth delivering; None is for ever."""
        return self.number("message.ttl.ms") or None

    @cached_property
    def dead_letters_expired(self) -> bool:
        """Messages that outlive their time go to the dead letters instead of just going."""
        return self.text("goqueue.ttl.dead.letter") == "true"

    @cached_property
    def trace_rate(self) -> float | None:
        """The share of batches that is traced; None is what the broker says."""
        text = self.text("goqueue.trace")
        return None if text == "default" else float(text)

    @property
    def _segment_ms(self) -> int:
        """How long a segment may stay open: compaction reaches only what is sealed."""
        segment_ms, max_lag_ms = self.number("segment.ms"), self.compaction_limits.max_lag_ms
        bounded = self.compacts and max_lag_ms is not None
        return min(segment_ms, max_lag_ms) if bounded and max_lag_ms else segment_ms

    def log_config(self) -> LogConfig:
        """What the log of each partition is told."""
        return LogConfig(
            segment_bytes=self.number("segment.bytes"),
            segment_ms=self._segment_ms,
            segment_jitter_ms=self.number("segment.jitter.ms"),
            index_interval_bytes=self.number("index.interval.bytes"),
            fsync=Fsync(self.text("goqueue.fsync")),
            fsync_interval_ms=self.number("flush.ms"),
        )


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Refuse settings that do not exist or cannot have these values, naming all of them.

    Raises:
        InvalidTopicConfigError: with one sentence for each problem.
    """
    problems = []
    for name, value in overrides.items():
        setting = SETTINGS.get(name)
        if setting is None:
            problems.append(f"there is no topic setting {name!r}")
        elif not setting.accepts(value):
            problems.append(f"{name} is {value!r}, expected {setting.expected}")
    if problems:
        raise InvalidTopicConfigError("; ".join(problems))
