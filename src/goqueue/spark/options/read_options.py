"""What a query asks for: Spark's options, read once, with every problem reported together.

Names are those of Spark's own Kafka connector wherever it has them. Spark hands options over in
lower case, so that is how they are looked up.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from goqueue.client.consuming.log_offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from goqueue.spark.options.bounds import (
    Bound,
    parse_assignment,
    parse_moment,
    parse_moments,
    parse_offsets,
)
from goqueue.spark.options.link_options import LINK_OPTIONS, parse_link
from goqueue.spark.options.option_reader import OptionReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.spark.kafka.settings import LinkSettings

READ_OPTIONS: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "groupId",
    "idlePoll",
    "chunkBytes",
    "kafka.isolation.level",
    "kafka.group.id",
    "valueFormat",
    "valueSchema",
    "valueSubject",
    "valueMessage",
    "valueMode",
    "schema.registry.url",
)
UNNEEDED: Final = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafka.client.dns.lookup",
    "kafka.connections.max.idle.ms",
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.heartbeat.interval.ms",
    "kafka.max.partition.fetch.bytes",
    "kafka.max.poll.interval.ms",
    "kafka.max.poll.records",
    "kafka.metadata.max.age.ms",
    "kafka.partition.assignment.strategy",
    "kafka.receive.buffer.bytes",
    "kafka.reconnect.backoff.max.ms",
    "kafka.reconnect.backoff.ms",
    "kafka.send.buffer.bytes",
    "kafka.session.timeout.ms",
)
"""Options of Spark's Kafka connector, and of the Java consumer below it, that have nothing to do
here: taken, and not looked at."""

_MB: Final = 1 << 20
DEFAULT_CHUNK_BYTES: Final = 4 * _MB
_CHUNK_BYTES: Final = (64 * 1024, 64 * _MB)
_ISOLATIONS: Final = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
_FORMATS: Final = ("binary", "json", "avro", "protobuf", "confluent")
_OF_PARSED_VALUES: Final = ("valueSchema", "valueSubject", "valueMessage", "valueMode")
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_TRIGGER: Final = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)

Mode = Literal["batch", "stream", "either"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions are read; exactly one of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    places: frozenset[TopicPartition] = frozenset()

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics to look up; None when all have to be."""
        if self.pattern is not None:
            return None
        return self.topics or tuple(sorted({topic for topic, _ in self.places}))


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one micro-batch may hold, and how little is worth one."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_s: float = 900.0


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values are turned into columns."""

    format: str = "binary"
    schema: str | None = None
    subject: str | None = None
    message: str | None = None
    """Of a Protobuf schema: the message's type; the first of the file if it is not said."""
    registry_url: str | None = None
    fails: bool = False
    """Whether a value that does not parse ends the query; otherwise it is null."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """One query, as its options describe it."""

    link: LinkSettings
    subscription: Subscription
    start: Bound
    end: Bound
    start_without_match: Literal["error", "latest"] = "error"
    isolation: int = READ_COMMITTED
    fail_on_data_loss: bool = True
    include_headers: bool = False
    columns: tuple[str, ...] | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    limits: Limits = Limits()
    group_id: str | None = None
    idle_poll_s: float = 1.0
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    value: ValueOptions = ValueOptions()


def parse_read_options(options: Mapping[str, str], mode: Mode) -> ReadOptions:
    """The options of a read.

    Raises:
        OptionsError: with every problem that there is.
    """
    reader = OptionReader(options, (*LINK_OPTIONS, *READ_OPTIONS), ignored=UNNEEDED)
    _check_mode(reader, mode)
    parsed = ReadOptions(
        link=parse_link(reader),
        subscription=_subscription(reader),
        start=_start(reader, mode),
        end=_end(reader),
        start_without_match=reader.choice(
            "startingOffsetsByTimestampStrategy", {"error": "error", "latest": "latest"}, "error"
        ),
        isolation=reader.choice("kafka.isolation.level", _ISOLATIONS, READ_COMMITTED),
        fail_on_data_loss=reader.flag("failOnDataLoss", default=True),
        include_headers=reader.flag("includeHeaders", default=False),
        columns=reader.names("columns"),
        min_partitions=reader.count("minPartitions"),
        max_records_per_partition=reader.count("maxRecordsPerPartition"),
        limits=_limits(reader),
        group_id=reader.text("groupId") or reader.text("kafka.group.id"),
        idle_poll_s=reader.duration_s("idlePoll", 1.0),
        chunk_bytes=reader.bounded("chunkBytes", DEFAULT_CHUNK_BYTES, _CHUNK_BYTES),
        value=_value(reader),
    )
    reader.finish()
    return parsed


def default_parallelism() -> int:
    """The cores of this machine: in local mode what Spark has, on a cluster a careful guess."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_mode(reader: OptionReader, mode: Mode) -> None:
    if mode == "either":
        return
    for name in _ENDING if mode == "stream" else _TRIGGER:
        if reader.has(name):
            other = "batch" if mode == "stream" else "streaming"
            reader.problem(f"{name} is for {other} queries: leave it out of this one")


def _subscription(reader: OptionReader) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if reader.has(name)]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        reader.problem(f"exactly one of subscribe, subscribePattern and assign; given: {said}")
    topics = reader.names("subscribe")
    pattern = reader.parsed("subscribePattern", _pattern)
    places = reader.parsed("assign", parse_assignment)
    return Subscription(topics or (), pattern, places or frozenset())


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


def _start(reader: OptionReader, mode: Mode) -> Bound:
    bound = _bound(reader, "starting")
    if bound is None:
        return Bound(everywhere=EARLIEST if mode == "batch" else LATEST)
    if mode == "batch" and (bound.everywhere == LATEST or LATEST in bound.offsets.values()):
        reader.problem("startingOffsets cannot be latest (-1) in a batch query: it would be empty")
    return bound


def _end(reader: OptionReader) -> Bound:
    bound = _bound(reader, "ending")
    if bound is None:
        return Bound(everywhere=LATEST)
    if bound.everywhere == EARLIEST or EARLIEST in bound.offsets.values():
        reader.problem("endingOffsets cannot be earliest (-2): the query would be empty")
    return bound


def _bound(reader: OptionReader, side: str) -> Bound | None:
    """What one side says; times go before offsets, as in Spark's Kafka connector."""
    moment = reader.parsed(f"{side}Timestamp", parse_moment)
    moments = reader.parsed(f"{side}OffsetsByTimestamp", parse_moments)
    offsets = reader.parsed(f"{side}Offsets", parse_offsets)
    return (None if moment is None else Bound(moment_ms=moment)) or moments or offsets


def _limits(reader: OptionReader) -> Limits:
    return Limits(
        max_offsets=reader.count("maxOffsetsPerTrigger"),
        max_bytes=reader.size_bytes("maxBytesPerTrigger"),
        min_offsets=reader.count("minOffsetsPerTrigger"),
        max_delay_s=reader.duration_s("maxTriggerDelay", 900.0),
    )


def _url(text: str) -> str:
    if not text.strip().lower().startswith(("http://", "https://")):
        raise ValueError(f"expected http://host:port, not {text!r}")
    return text.strip()


def _value(reader: OptionReader) -> ValueOptions:
    value = ValueOptions(
        format=reader.choice("valueFormat", {name: name for name in _FORMATS}, "binary"),
        schema=reader.text("valueSchema"),
        subject=reader.text("valueSubject"),
        message=reader.text("valueMessage"),
        registry_url=reader.parsed("schema.registry.url", _url),
        fails=reader.choice("valueMode", {"permissive": False, "failfast": True}, default=False),
    )
    if value.format == "binary":
        for name in filter(reader.has, _OF_PARSED_VALUES):
            reader.problem(f"{name} needs a valueFormat: {', '.join(_FORMATS[1:])}")
    elif value.schema is None and not reader.has("schema.registry.url"):
        reader.problem(
            f"valueFormat={value.format} needs valueSchema, or schema.registry.url with the schema"
        )
    return value
