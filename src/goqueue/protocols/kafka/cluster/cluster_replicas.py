"""Leaders and replicas of a cluster: elections that operators ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.cluster.electing import elect_preferred, refuse_unclean
from goqueue.cluster.facts import not_in_cluster
from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import ElectionNotNeededError, GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.cluster.replicas import not_elected
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import ALTER, DESCRIBE, cluster
from goqueue.protocols.kafka.turns import in_turns
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.broker.broker import Broker
    from goqueue.cluster.view import ClusterView
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


class ClusterReplicasApi:
    """Answers who asks for another leader; other replicas there are none to be had yet."""

    def __init__(self, broker: Broker, view: ClusterView) -> None:
        self._broker = broker
        self._view = view

    @api(ApiKey.ELECT_LEADERS, right=cluster(ALTER), on_error=not_elected)
    async def elect_leaders(self, ctx: RequestContext, request: Struct) -> Response:
        """Let preferred replicas lead.

        As in Kafka, a request for all partitions is answered without those that need no election.
        """
        if request.election_type not in {_PREFERRED, _UNCLEAN}:
            return {"error_code": ErrorCode.invalid_request, "replica_election_results": []}
        is_all = request.topic_partitions is None
        results: dict[str, list[dict[str, Any]]] = {}
        async for partition in in_turns(self._asked(request)):
            error = await self._elect(partition, request.election_type)
            if is_all and isinstance(error, ElectionNotNeededError):
                continue
            results.setdefault(partition.topic, []).append(
                {
                    "partition_id": partition.partition,
                    "error_code": ErrorCode.none if error is None else code_for(error),
                    "error_message": None if error is None else str(error),
                }
            )
        return {
            "error_code": ErrorCode.none,
            "replica_election_results": [
                {"topic": topic, "partition_result": each} for topic, each in results.items()
            ],
        }

    def _asked(self, request: Struct) -> Iterable[TopicPartition]:
        if request.topic_partitions is None:
            topics = list(self._broker.topics.catalogue.by_name.values())
            return (
                TopicPartition(topic.name, number)
                for topic in topics
                for number in range(topic.partition_count)
            )
        return dict.fromkeys(
            TopicPartition(topic.topic, number)
            for topic in request.topic_partitions
            for number in topic.partitions
        )

    async def _elect(self, partition: TopicPartition, kind: int) -> GoQueueError | None:
        """Elect, or say why not."""
        try:
            topic = self._broker.topics.catalogue.require(partition)
            key = PartitionKey(topic.topic_id, partition.partition)
            if kind == _UNCLEAN:
                refuse_unclean(self._view, key, str(partition))
            else:
                await elect_preferred(self._broker.store, self._view, key, str(partition))
        except GoQueueError as error:
            return error
        return None

    @api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, right=cluster(ALTER))
    def alter_reassignments(self, ctx: RequestContext, request: Struct) -> Response:
        """Replicas stay on their nodes."""
        refusal = not_in_cluster("moving replicas to other nodes")
        return {
            "allow_replication_factor_change": request.allow_replication_factor_change,
            "error_code": code_for(refusal),
            "error_message": str(refusal),
            "responses": [],
        }

    @api(ApiKey.LIST_PARTITION_REASSIGNMENTS, right=cluster(DESCRIBE))
    def list_reassignments(self, ctx: RequestContext, request: Struct) -> Response:
        """None is ever in progress."""
        return {"error_code": ErrorCode.none, "error_message": None, "topics": []}
