"""DescribeQuorum: the metadata store stands for the metadata log, and its nodes for voters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import DESCRIBE, cluster
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.brokers import Brokers
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_METADATA_TOPIC: Final = "__cluster_metadata"
_LEADER_EPOCH: Final = 1
"""Of a leader that was never elected against another."""


class QuorumApi:
    """Describes those who share the metadata; the controller is the leader."""

    def __init__(self, broker: Broker, brokers: Brokers) -> None:
        self._broker = broker
        self._brokers = brokers

    @api(ApiKey.DESCRIBE_QUORUM, right=cluster(DESCRIBE))
    async def describe_quorum(self, ctx: RequestContext, request: Struct) -> Response:
        """Who votes, and how far they are: the revision of the metadata is the offset."""
        revision = await self._broker.topics.revision()
        nodes = self._brokers.all(ctx.listener_name)
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "topics": [
                {
                    "topic_name": topic.topic_name,
                    "partitions": [
                        self._partition(ctx, topic.topic_name, each.partition_index, revision)
                        for each in topic.partitions
                    ],
                }
                for topic in request.topics
            ],
            "nodes": [
                {
                    "node_id": each.node_id,
                    "listeners": [
                        {"name": ctx.listener_name, "host": each.host, "port": each.port}
                    ],
                }
                for each in nodes
            ],
        }

    def _partition(
        self, ctx: RequestContext, topic: str, number: int, revision: int
    ) -> dict[str, Any]:
        if (topic, number) != (_METADATA_TOPIC, 0):
            return {
                "partition_index": number,
                "error_code": ErrorCode.unknown_topic_or_partition,
                "error_message": f"only {_METADATA_TOPIC}-0 has a quorum",
                "leader_id": -1,
                "leader_epoch": -1,
                "high_watermark": -1,
                "current_voters": [],
                "observers": [],
            }
        now_ms = self._broker.clock.now_ms()
        return {
            "partition_index": number,
            "error_code": ErrorCode.none,
            "error_message": None,
            "leader_id": self._brokers.controller_id(ctx.listener_name),
            "leader_epoch": _LEADER_EPOCH,
            "high_watermark": revision,
            "current_voters": [
                {
                    "replica_id": each.node_id,
                    "replica_directory_id": None,
                    "log_end_offset": revision,
                    "last_fetch_timestamp": now_ms,
                    "last_caught_up_timestamp": now_ms,
                }
                for each in self._brokers.all(ctx.listener_name)
            ],
            "observers": [],
        }
