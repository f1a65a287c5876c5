"""Leaders and replicas on one node: it leads every partition and holds the only replica of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import BrokerApi, api
from goqueue.protocols.kafka.rights import ALTER, DESCRIBE, cluster
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_ELECTION_TYPES: Final = range(2)
"""Of the preferred replica, and of any that is left."""


def not_elected(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    """What is said when nothing may be elected: version 0 can say it at each partition only."""
    return {
        "error_code": code,
        "replica_election_results": [
            {
                "topic": topic.topic,
                "partition_result": [
                    {"partition_id": number, "error_code": code} for number in topic.partitions
                ],
            }
            for topic in request.topic_partitions or ()
        ],
    }


class ReplicasApi(BrokerApi):
    """Answers who asks for another leader or other replicas."""

    @api(ApiKey.ELECT_LEADERS, right=cluster(ALTER), on_error=not_elected)
    def elect_leaders(self, ctx: RequestContext, request: Struct) -> Response:
        """Every partition has the leader that it would elect.

        As in Kafka, a request for all partitions is answered without those that need no election,
        which here are all.
        """
        if request.election_type not in _ELECTION_TYPES:
            return {"error_code": ErrorCode.invalid_request, "replica_election_results": []}
        topics = request.topic_partitions
        if topics is None:
            topics = ()
        return {
            "error_code": ErrorCode.none,
            "replica_election_results": [
                {
                    "topic": topic.topic,
                    "partition_result": [
                        self._election(TopicPartition(topic.topic, number))
                        for number in dict.fromkeys(topic.partitions)
                    ],
                }
                for topic in topics
            ],
        }

    def _election(self, partition: TopicPartition) -> dict[str, Any]:
        code, message = self._missing(partition)
        if code is ErrorCode.none:
            code = ErrorCode.election_not_needed
            message = f"{partition.topic}-{partition.partition} has its preferred leader"
        return {"partition_id": partition.partition, "error_code": code, "error_message": message}

    @api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, right=cluster(ALTER))
    def alter_reassignments(self, ctx: RequestContext, request: Struct) -> Response:
        """Replicas stay where they are: an assignment to this node alone is taken as done."""
        return {
            "allow_replication_factor_change": request.allow_replication_factor_change,
            "error_code": ErrorCode.none,
            "error_message": None,
            "responses": [
                {
                    "name": topic.name,
                    "partitions": [self._reassigned(topic.name, each) for each in topic.partitions],
                }
                for topic in request.topics
            ],
        }

    def _reassigned(self, topic: str, asked: Struct) -> dict[str, Any]:
        code, message = self._missing(TopicPartition(topic, asked.partition_index))
        if code is ErrorCode.none and asked.replicas is None:
            code = ErrorCode.no_reassignment_in_progress
            message = "no reassignment of this partition is in progress"
        elif code is ErrorCode.none:
            message = self._replicas_objection(asked.replicas)
            code = ErrorCode.none if message is None else ErrorCode.invalid_replica_assignment
        return {
            "partition_index": asked.partition_index,
            "error_code": code,
            "error_message": message,
        }

    def _replicas_objection(self, replicas: Sequence[int]) -> str | None:
        if not replicas:
            return "the assignment has no replicas"
        node_id = self._broker.settings.node_id
        for each in replicas:
            if each != node_id:
                return f"there is no broker {each} to hold a replica, only {node_id}"
        if len(replicas) > 1:
            return f"broker {node_id} is named more than once"
        return None

    @api(ApiKey.LIST_PARTITION_REASSIGNMENTS, right=cluster(DESCRIBE))
    def list_reassignments(self, ctx: RequestContext, request: Struct) -> Response:
        """None is ever in progress."""
        return {"error_code": ErrorCode.none, "error_message": None, "topics": []}

    def _missing(self, partition: TopicPartition) -> tuple[ErrorCode, str | None]:
        try:
            self._broker.topics.catalogue.require(partition)
        except GoQueueError as error:
            return code_for(error), str(error)
        return ErrorCode.none, None
