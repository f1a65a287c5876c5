"""What a write asks for: Spark's options, read once, with every problem reported together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from goqueue.model.partitioning import PARTITIONERS
from goqueue.records import Compression
from goqueue.spark.options.link_options import LINK_OPTIONS, parse_link
from goqueue.spark.options.option_reader import OptionReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.spark.kafka.settings import LinkSettings

WRITE_OPTIONS: Final = (
    "topic",
    "guarantee",
    "partitioner",
    "batchBytes",
    "txnAppId",
    "txnVersion",
    "taskRowsPerSecond",
    "kafka.transaction.timeout.ms",
    "kafka.compression.type",
)
UNNEEDED: Final = (
    "checkpointLocation",
    "queryName",
    "path",
    "includeHeaders",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.buffer.memory",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.key.serializer",
    "kafka.linger.ms",
    "kafka.max.block.ms",
    "kafka.max.in.flight.requests.per.connection",
    "kafka.max.request.size",
    "kafka.retries",
    "kafka.value.serializer",
)
"""What Spark itself hands on, and options of its Kafka connector that have nothing to do here."""

DEFAULT_TIMEOUT_S: Final = 15 * 60.0
DEFAULT_BATCH_BYTES: Final = 512 * 1024
_BATCH_BYTES: Final = (1024, 32 << 20)
_NAME_CHARACTERS: Final = 150
"""A transactional id has room for some more."""
_MAX_NUMBER: Final = 2**63 - 1
_COMPRESSIONS: Final = {each.name.lower(): each for each in Compression}
_GUARANTEES: Final[dict[str, Guarantee]] = {
    "exactly-once": "exactly-once",
    "at-least-once": "at-least-once",
}

Guarantee = Literal["exactly-once", "at-least-once"]
Mode = Literal["batch", "stream"]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """One write, as its options describe it."""

    link: LinkSettings
    topic: str | None = None
    """Where every row goes; None: the column `topic` says it."""
    guarantee: Guarantee = "exactly-once"
    partitioner: str = "mmh3"
    timeout_ms: int = round(DEFAULT_TIMEOUT_S * 1000)
    """Between a task's first row and the driver's commit; then the broker gives up on the task."""
    compression: Compression = Compression.NONE
    batch_bytes: int = DEFAULT_BATCH_BYTES
    """What a record batch may take before compression; half of what topics allow by default."""
    application: tuple[str, int] | None = None
    """Who writes and its how manieth write it is, so that the same one is not done twice."""
    task_rows_per_s: float | None = None
    """How fast each task may write; None for as fast as it can."""

    @property
    def is_transactional(self) -> bool:
        """Nothing is visible before the driver's commit."""
        return self.guarantee == "exactly-once"


def parse_write_options(options: Mapping[str, str], mode: Mode) -> WriteOptions:
    """The options of a write.

    Raises:
        OptionsError: with every problem that there is.
    """
    reader = OptionReader(options, (*LINK_OPTIONS, *WRITE_OPTIONS), ignored=UNNEEDED)
    timeout_s = reader.duration_s(
        "kafka.transaction.timeout.ms", DEFAULT_TIMEOUT_S, may_be_zero=False
    )
    parsed = WriteOptions(
        link=parse_link(reader),
        topic=reader.text("topic"),
        guarantee=reader.choice("guarantee", _GUARANTEES, "exactly-once"),
        partitioner=reader.choice("partitioner", {name: name for name in PARTITIONERS}, "mmh3"),
        timeout_ms=round(timeout_s * 1000),
        compression=reader.choice("kafka.compression.type", _COMPRESSIONS, Compression.NONE),
        batch_bytes=reader.bounded("batchBytes", DEFAULT_BATCH_BYTES, _BATCH_BYTES),
        application=application_of(reader, mode),
        task_rows_per_s=reader.parsed("taskRowsPerSecond", _rate),
    )
    if parsed.application is not None and not parsed.is_transactional:
        reader.problem("txnAppId and txnVersion need guarantee=exactly-once")
    reader.finish()
    return parsed


def application_of(reader: OptionReader, mode: Mode) -> tuple[str, int] | None:
    """Both options or none, and only where Spark does not number the batches itself."""
    name = reader.text("txnAppId")
    number = reader.parsed("txnVersion", _number)
    if not (reader.has("txnAppId") or reader.has("txnVersion")):
        return None
    if mode == "stream":
        reader.problem("txnAppId and txnVersion are for batch writes: a stream has its own numbers")
    elif name is None or (number is None and not reader.has("txnVersion")):
        reader.problem("txnAppId and txnVersion belong together: give both")
    elif "::" in name or len(name) > _NAME_CHARACTERS:
        reader.problem(f"txnAppId: expected at most {_NAME_CHARACTERS} characters without '::'")
    if name is None or number is None:
        return None
    return name, number


def _rate(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ValueError(f"expected more than 0 rows a second, not {text!r}")
    return found


def _number(text: str) -> int:
    if not text.strip().isdecimal() or int(text) > _MAX_NUMBER:
        raise ValueError(f"expected a number from 0 to {_MAX_NUMBER}, not {text!r}")
    return int(text)
