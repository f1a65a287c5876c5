"""Reading from the leader of a partition on another node: Kafka's own Fetch, without a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError
from goqueue.partitions.elsewhere.leaders import check_answer
from goqueue.reading.fetch import Fetched
from goqueue.records.batch import walk
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.reading.fetch import FetchRequest, PartitionRead
    from goqueue.topics.catalogue import Topics
    from goqueue.topics.routes import Routes
    from goqueue.wire.kafka.reading import Struct

_VERSION: Final = 16
"""The last one that is not for replicas."""
_NO_SESSION: Final = -1


class RemoteFetch:
    """Fetches from other nodes."""

    def __init__(self, topics: Topics, routes: Routes) -> None:
        self._topics = topics
        self._routes = routes

    async def fetch(
        self, node_id: int, request: FetchRequest, reads: Sequence[PartitionRead]
    ) -> list[Fetched]:
        """Read partitions that a node leads, as `Fetcher.fetch` reads those that are led here.

        Raises:
            TopicError: a topic does not exist any more.
            PeerUnavailableError: the node cannot be reached.
        """
        wait_s = request.max_wait_ms / 1000
        answer = await self._routes.peers.ask(
            node_id,
            ApiKey.FETCH,
            _VERSION,
            wait_s=wait_s,
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            isolation_level=int(request.isolation),
            session_id=0,
            session_epoch=_NO_SESSION,
            topics=self._wanted(reads),
            forgotten_topics_data=[],
            rack_id="",
        )
        for each in reads:
            check_answer(each.partition, answer.error_code)
        told = {
            (topic.topic_id, each.partition_index): each
            for topic in answer.responses
            for each in topic.partitions
        }
        return [self._fetched(read, told) for read in reads]

    def _wanted(self, reads: Sequence[PartitionRead]) -> list[dict[str, Any]]:
        topics: dict[str, dict[str, Any]] = {}
        for read in reads:
            name, number = read.partition
            topic = topics.get(name)
            if topic is None:
                topic_id = self._topics.catalogue.topic(name).topic_id
                topic = topics[name] = {"topic_id": topic_id, "partitions": []}
            topic["partitions"].append(
                {
                    "partition": number,
                    "fetch_offset": read.offset,
                    "partition_max_bytes": read.max_bytes,
                }
            )
        return list(topics.values())

    def _fetched(self, read: PartitionRead, told: dict[Any, Struct]) -> Fetched:
        topic_id = self._topics.catalogue.topic(read.partition.topic).topic_id
        found = told[topic_id, read.partition.partition]
        error: GoQueueError | None = None
        try:
            check_answer(
                read.partition,
                found.error_code,
                offset=read.offset,
                log_start=found.log_start_offset,
                log_end=found.high_watermark,
            )
        except GoQueueError as refused:
            error = refused
        data = bytes(found.records or b"")
        count, next_offset = 0, read.offset
        for _, info in walk(data):
            count += info.count
            next_offset = info.next_offset
        aborted = [
            (each.producer_id, each.first_offset) for each in found.aborted_transactions or ()
        ]
        return Fetched(
            read,
            data,
            count,
            next_offset,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            error,
            aborted,
        )
