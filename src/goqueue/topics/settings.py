"""The settings of one topic, typed, and which of them can be given together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import InvalidTopicConfigError
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.model.tuples import NamedTuple
from goqueue.records import Compression
from goqueue.records.batch import LOG_APPEND_TIME, BatchInfo
from goqueue.storage.compaction.cleanable import CompactionLimits
from goqueue.storage.config import Fsync, LogConfig
from goqueue.topics.setting import LONG_MAX, items
from goqueue.topics.setting_table import SETTINGS, SchemaValidation

if TYPE_CHECKING:
    from collections.abc import Iterator


_MAX_COMPRESSION_LEVEL: Final = 9
"""Higher levels, up to 22 in Kafka, are taken as this one: a batch is compressed while others wait,
some 60 ms a megabyte at this level and 2 s at the highest."""


class TimestampLimits(NamedTuple):
    """How far the timestamps of a topic's records may be from the time of their append."""

    after_ms: int | None
    before_ms: int | None
    """None is without bound."""

    def hold_by_header(self, info: BatchInfo, now_ms: int) -> bool:
        """Whether the header alone says that every record is within the limits."""
        return (
            self.before_ms is None
            and not info.attributes & LOG_APPEND_TIME
            and (self.after_ms is None or info.max_timestamp <= now_ms + self.after_ms)
        )


class TopicSettings(msgspec.Struct, frozen=True, dict=True):
    """Every setting of one topic, typed; `overrides` are those that were said for this topic.

    What every publish asks for is worked out once.
    """

    overrides: Mapping[str, str] = msgspec.field(default_factory=dict)
    defaults: Mapping[str, str] = msgspec.field(default_factory=dict)
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
        return min(self.number("max.message.bytes"), MAX_BATCH_BYTES)

    @cached_property
    def codec(self) -> Compression | None:
        """What batches are compressed with; None is whatever the producer chose."""
        name = self.text("compression.type")
        if name == "producer":
            return None
        return Compression.NONE if name == "uncompressed" else Compression[name.upper()]

    @cached_property
    def compression_level(self) -> int | None:
        """How hard `codec` tries; None is what it does by itself."""
        name = f"compression.{self.text('compression.type')}.level"
        level = self.number(name) if name in SETTINGS else None
        if level is None or (self.codec is Compression.GZIP and level < 0):
            return None
        return min(level, _MAX_COMPRESSION_LEVEL)

    def is_on(self, name: str) -> bool:
        """The value in force of a setting that is true or false."""
        return self.text(name).strip().lower() == "true"

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
            None if after_ms == LONG_MAX else after_ms,
            None if before_ms == LONG_MAX else before_ms,
        )

    @cached_property
    def schema_validation(self) -> SchemaValidation:
        """What values are held against."""
        return self._validation("goqueue.schema.validation", "confluent.value.schema.validation")

    @cached_property
    def key_schema_validation(self) -> SchemaValidation:
        """What keys are held against."""
        return self._validation("goqueue.key.schema.validation", "confluent.key.schema.validation")

    def _validation(self, name: str, confluents: str) -> SchemaValidation:
        own = SchemaValidation(self.text(name))
        is_asked = self.is_on(confluents)
        return SchemaValidation.ID if own is SchemaValidation.NONE and is_asked else own

    @cached_property
    def validates(self) -> bool:
        """Messages are held against schemas, their keys or their values."""
        both = {self.schema_validation, self.key_schema_validation}
        return both != {SchemaValidation.NONE}

    @cached_property
    def compacts(self) -> bool:
        """Older records of a key go."""
        return "compact" in items(self.text("cleanup.policy"))

    @property
    def deletes(self) -> bool:
        """Old segments go."""
        return "delete" in items(self.text("cleanup.policy"))

    @cached_property
    def compaction_limits(self) -> CompactionLimits:
        """When records of a compacted topic are compacted."""
        max_lag_ms = self.number("max.compaction.lag.ms")
        return CompactionLimits(
            float(self.text("min.cleanable.dirty.ratio")),
            self.number("min.compaction.lag.ms"),
            None if max_lag_ms == LONG_MAX else max_lag_ms,
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
        return self.is_on("goqueue.kafka.headers")

    @cached_property
    def rewrites(self) -> bool:
        """Batches may be stored otherwise than they were sent."""
        return self.codec is not None or self.stamps_append_time or self.compacts

    @cached_property
    def opens_all(self) -> bool:
        """Every batch is opened on its way in."""
        limits = self.timestamp_limits
        return self.rewrites or (limits is not None and limits.before_ms is not None)

    @cached_property
    def may_open(self) -> bool:
        """A batch may be opened on its way in; without it none is."""
        return self.opens_all or self.takes_kafka_headers

    @cached_property
    def may_delay(self) -> bool:
        """Messages may be delivered later than they are published."""
        return self.is_on("goqueue.delay.enable")

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
        return self.is_on("goqueue.ttl.dead.letter")

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
            segment_bytes=self.number("internal.segment.bytes") or self.number("segment.bytes"),
            segment_ms=self._segment_ms,
            segment_jitter_ms=self.number("segment.jitter.ms"),
            index_interval_bytes=max(self.number("index.interval.bytes"), 1),
            fsync=Fsync(self.text("goqueue.fsync")),
            fsync_interval_ms=max(self.number("flush.ms"), 1),
            flush_messages=self.number("flush.messages"),
        )


def check_overrides(overrides: Mapping[str, str], kept: Mapping[str, str] | None = None) -> None:
    """Refuse settings that do not exist or cannot have these values, naming all of them.

    `kept` are those that the topic has already: what an older version accepted does not keep
    anybody from changing the others.

    Raises:
        InvalidTopicConfigError: with one sentence for each problem.
    """
    kept = kept or {}
    problems = []
    for name, value in overrides.items():
        if kept.get(name) == value:
            continue
        setting = SETTINGS.get(name)
        if setting is None:
            problems.append(f"there is no topic setting {name!r}")
        elif (objection := setting.objection(value)) is not None:
            problems.append(objection)
    if not problems:
        problems.extend(_contradictions(TopicSettings(overrides)))
    if problems:
        raise InvalidTopicConfigError("; ".join(problems))


def _contradictions(settings: TopicSettings) -> Iterator[str]:
    least, most = (settings.number(f"{side}.compaction.lag.ms") for side in ("min", "max"))
    if least > most:
        yield (
            f"min.compaction.lag.ms is {least}, expected no more than max.compaction.lag.ms, "
            f"which is {most}"
        )
