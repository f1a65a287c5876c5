"""Deleting the records of a partition up to an offset, wherever it is led."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.partitions.elsewhere.leaders import check_answer
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.elsewhere.leaders import Leaders
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.topic_changes import TopicChanges

_VERSION: Final = 2
_TIMEOUT_S: Final = 30.0
_HIGH_WATERMARK: Final = -1


class RecordDeletion:
    """Lets partitions start later."""

    def __init__(self, changes: TopicChanges, leaders: Leaders) -> None:
        self._changes = changes
        self._leaders = leaders

    async def delete(self, place: TopicPartition, offset: int | None) -> int:
        """Delete the records below an offset, or all; returns where the partition starts then.

        Raises:
            TopicError, StorageError: as `TopicChanges.delete_records`.
            ClusterError: its leader does not answer, or not all replicas have followed.
        """

        async def here(_: Partition) -> int:
            return await self._changes.delete_records(place, offset)

        async def there(node_id: int) -> int:
            return await self._ask(node_id, place, offset)

        return await self._leaders.ask(place, here, there)

    async def _ask(self, node_id: int, place: TopicPartition, offset: int | None) -> int:
        wanted = _HIGH_WATERMARK if offset is None else offset
        answer = await self._leaders.routes.peers.ask(
            node_id,
            ApiKey.DELETE_RECORDS,
            _VERSION,
            wait_s=_TIMEOUT_S,
            topics=[
                {
                    "name": place.topic,
                    "partitions": [{"partition_index": place.partition, "offset": wanted}],
                }
            ],
            timeout_ms=round(_TIMEOUT_S * 1000),
        )
        ((told,),) = (topic.partitions for topic in answer.topics)
        check_answer(place, told.error_code, offset=wanted)
        start: int = told.low_watermark
        return start
