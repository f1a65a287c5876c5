"""How far the logs of replicas reach, for a controller that has to choose among what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.cluster.elections import LogEnd
from goqueue.cluster.records import PartitionKey
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.cluster.hello import NodeIdentity
    from goqueue.partitions.partitions import Partitions
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.topics.catalogue import Topics
    from goqueue.wire.kafka.reading import Struct


class LogEndsApi:
    """Answers for the replicas that are open here; those that are not are left out."""

    def __init__(self, identity: NodeIdentity, topics: Topics, partitions: Partitions) -> None:
        self._identity = identity
        self._topics = topics
        self._partitions = partitions

    @api(ApiKey.LOG_ENDS, 0, 0, right=NODES)
    def log_ends(self, _ctx: RequestContext, request: Struct) -> Response:
        """The last epoch, the start and the end of each log that was asked for."""
        found = []
        for asked in request.partitions:
            end = log_end(
                self._topics, self._partitions, PartitionKey(asked.topic_id, asked.partition_index)
            )
            if end is not None:
                found.append(
                    {
                        "topic_id": asked.topic_id,
                        "partition_index": asked.partition_index,
                        "last_epoch": end.last_epoch,
                        "start_offset": end.start,
                        "end_offset": end.end,
                    }
                )
        return {
            "throttle_time_ms": 0,
            "error_code": ErrorCode.none,
            "incarnation": self._identity.incarnation,
            "partitions": found,
        }


def log_end(topics: Topics, partitions: Partitions, key: PartitionKey) -> LogEnd | None:
    """How far the log of a replica reaches that is open here."""
    topic = topics.catalogue.by_id.get(key.topic_id)
    if topic is None:
        return None
    partition = partitions.replica(TopicPartition(topic.name, key.partition))
    if partition is None or not partition.is_fetchable:
        return None  # what is damaged may be patched, or cut off
    end = partition.log_end
    return LogEnd(partition.epochs.epoch_at(end - 1), end, partition.log_start)
