"""Fills topics of a running broker with exact batches, over the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from goqueue.client.consuming.log_offsets import MISLED
from goqueue.client.link.addresses import parse_addresses
from goqueue.client.link.codes import RetriableBrokerError
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record, encode
from goqueue.spark.kafka.cluster import Cluster
from goqueue.spark.kafka.settings import LinkSettings
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class TopicWriter:
    """Writes, and does nothing that a test did not ask for."""

    def __init__(self, address: str) -> None:
        self._cluster = Cluster(LinkSettings(parse_addresses(address)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def _ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        return self._cluster.once(lambda: self._cluster.link.ask(api, version, **fields))

    def create(self, topic: str, partitions: int, **settings: object) -> None:
        """Make a topic; a setting `a.b` is written `a_b`. Old messages stay, unless it says so."""
        settings = {"retention_ms": -1, **settings}
        configs = [{"name": k.replace("_", "."), "value": str(v)} for k, v in settings.items()]
        wanted = {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": -1,
            "assignments": [],
            "configs": configs,
        }
        answer = self._ask(
            ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout_ms=10_000, validate_only=False
        )
        assert answer.topics[0].error_code == 0

    def append(self, topic: str, partition: int, records: Iterable[Record], **options: Any) -> int:
        """Store one batch and return its first offset."""
        return self.append_batch(topic, partition, encode(list(records), **options))

    def append_batch(self, topic: str, partition: int, batch: bytes | bytearray) -> int:
        data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
        fields = {"transactional_id": None, "acks": -1, "timeout_ms": 60_000, "topic_data": data}
        place = TopicPartition(topic, partition)
        result = self._at_leader(
            place, ApiKey.PRODUCE, 9, lambda said: said.responses[0].partition_responses[0], fields
        )
        return int(result.base_offset)

    def _at_leader(
        self,
        place: TopicPartition,
        api: ApiKey,
        version: int,
        find: Callable[[Any], Any],
        fields: dict[str, Any],
    ) -> Any:
        """Ask whoever leads a partition, and the next one if it has moved."""
        link = self._cluster.link

        async def ask() -> Any:
            said = await link.ask(api, version, node=await link.leader(place), **fields)
            result = find(said)
            if result.error_code in MISLED:
                link.misled(place)
                raise RetriableBrokerError(f"{place} has another leader")
            assert result.error_code == 0, result.error_code
            return result

        return self._cluster.retry("asking a leader", ask)

    def numbers(self, topic: str, partition: int, first: int, count: int, at_ms: int = 1) -> None:
        """Messages whose values are numbers, one batch of them, `at_ms` apart in time."""
        self.append(
            topic,
            partition,
            [
                Record(n, (first + n) * at_ms, b"%d" % partition, b"%d" % (first + n))
                for n in range(count)
            ],
        )

    def create_partitions(self, topic: str, count: int) -> None:
        answer = self._ask(
            ApiKey.CREATE_PARTITIONS,
            3,
            topics=[{"name": topic, "count": count, "assignments": None}],
            timeout_ms=10_000,
            validate_only=False,
        )
        assert answer.results[0].error_code == 0

    def delete_records(self, topic: str, partition: int, below: int) -> None:
        parts = [{"partition_index": partition, "offset": below}]
        fields = {"topics": [{"name": topic, "partitions": parts}], "timeout_ms": 10_000}
        place = TopicPartition(topic, partition)
        self._at_leader(
            place, ApiKey.DELETE_RECORDS, 2, lambda said: said.topics[0].partitions[0], fields
        )
