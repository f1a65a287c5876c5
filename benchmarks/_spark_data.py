"""The messages that the Spark benchmarks read: in a topic, and the same ones in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks._logs import FIRST_TIMESTAMP_MS
from benchmarks._turns import expect
from goqueue.client.link.addresses import parse_addresses
from goqueue.records import Record, encode
from goqueue.spark.kafka.cluster import Cluster
from goqueue.spark.kafka.fetching import Chunk, whole_batches
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.kafka.settings import LinkSettings
from goqueue.spark.reading.columns import ARROW_TYPES, RowBuilder, default_columns
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

VALUE_BYTES: Final = 100
PER_BATCH: Final = 500
_CHUNK_BATCHES: Final = 64
COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, priority string"
)


def batch_at(first: int, count: int = PER_BATCH) -> bytearray:
    """A batch of messages whose time stamps follow their offsets, a millisecond apart."""
    return encode(
        [
            Record(
                number,
                FIRST_TIMESTAMP_MS + first + number,
                b"key-%04d" % (number % 1000),
                b"%0*d" % (VALUE_BYTES, first + number),
            )
            for number in range(count)
        ]
    )


class Topic:
    """A topic of a running broker, and a way to fill it faster than a client would."""

    def __init__(self, address: str, name: str, partitions: int) -> None:
        self._cluster = Cluster(LinkSettings(parse_addresses(address)))
        self.name = name
        self.partitions = partitions
        answer = self._ask(
            ApiKey.CREATE_TOPICS,
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": -1,
                    "assignments": [],
                    "configs": [{"name": "retention.ms", "value": "-1"}],
                }
            ],
            timeout_ms=30_000,
            validate_only=False,
        )
        expect(answer.topics[0].error_code == 0, f"made topic {name}")

    def _ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        return self._cluster.once(lambda: self._cluster.link.ask(api, version, **fields))

    def fill(self, messages: int) -> None:
        """So many messages, spread evenly, with time stamps that rise alike in all partitions."""
        batches = messages // self.partitions // PER_BATCH
        for number in range(batches):
            batch = batch_at(number * PER_BATCH)
            self.send([(partition, batch) for partition in range(self.partitions)])

    def send(self, batches: Sequence[tuple[int, bytes | bytearray]]) -> None:
        """One request with a batch for each of some partitions."""
        answer = self._ask(
            ApiKey.PRODUCE,
            9,
            transactional_id=None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                {
                    "name": self.name,
                    "partition_data": [
                        {"index": partition, "records": batch} for partition, batch in batches
                    ],
                }
            ],
        )
        for topic in answer.responses:
            for part in topic.partition_responses:
                expect(part.error_code == 0, f"stored a batch: {part.error_code}")


class MemorySource(DataSource):
    """The same rows through the same decoder, without a broker: what the rest of the way costs."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "memory_batches"

    def schema(self) -> str:
        """All columns but headers."""
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - one schema only
        """Two tasks with half of the rows each."""
        return MemoryReader(int(self.options["rows"]))


class MemoryReader(DataSourceReader):
    """Decodes one chunk again and again."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        """As many as there are cores."""
        return [InputPartition(number) for number in range(2)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task."""
        names = default_columns(include_headers=False)
        schema = pa.schema([pa.field(name, ARROW_TYPES[name]) for name in names])
        builder = RowBuilder(schema, names)
        data = b"".join(_stamped(number) for number in range(_CHUNK_BATCHES))
        source = OffsetRange("memory", "", partition.value, 0, 1 << 60)
        chunk = Chunk(source, 0, memoryview(data), list(whole_batches(memoryview(data))), ())
        for _ in range(self._rows // 2 // (_CHUNK_BATCHES * PER_BATCH)):
            yield from builder.batches(chunk)


def _stamped(number: int) -> bytes:
    batch = batch_at(number * PER_BATCH)
    batch[:8] = (number * PER_BATCH).to_bytes(8, "big")
    return bytes(batch)
