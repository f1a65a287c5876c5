"""DescribeTopicPartitions: topics page by page, where Metadata answers with all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.model.errors import InvalidTopicNameError
from goqueue.protocols.kafka.access.operations import NO_OPERATIONS, topic_operations
from goqueue.protocols.kafka.brokers import NONE, leader_code
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.limits import MAX_DESCRIBED_PARTITIONS
from goqueue.protocols.kafka.registry import BrokerApi, api
from goqueue.protocols.kafka.rights import TOPIC_DESCRIBE, within
from goqueue.topics.names import check_name
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.protocols.permissions import Permissions
    from goqueue.topics.catalogue import Topic
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.reading import Struct


class TopicPartitionsApi(BrokerApi):
    """Describes the partitions of topics in pages, in the order of the topics' names."""

    @api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, right=within(TOPIC_DESCRIBE, note="each"))
    def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """One page, and where the next one begins; null after the last."""
        at_topic, at_partition = "", 0
        if request.cursor is not None:
            at_topic, at_partition = request.cursor.topic_name, request.cursor.partition_index
        if at_partition < 0:
            names = dict.fromkeys(each.name for each in request.topics)
            refused = [_without(name, ErrorCode.invalid_request) for name in names]
            return {"topics": refused, "next_cursor": None}
        left = max(min(request.response_partition_limit, MAX_DESCRIBED_PARTITIONS), 1)
        topics: list[dict[str, Any]] = []
        for name in self._names(ctx.may, request, at_topic):
            first = at_partition if name == at_topic else 0
            if left <= 0:
                return {"topics": topics, "next_cursor": _cursor(name, first)}
            topic = self._broker.topics.catalogue.by_name.get(name)
            code = None if topic is not None else _why_missing(name)
            if not ctx.may.permits(TOPIC_DESCRIBE, name):
                code = ErrorCode.topic_authorization_failed
            if topic is None or code is not None:
                topics.append(_without(name, code or ErrorCode.none))
                left -= 1
                continue
            end = min(topic.partition_count, first + left)
            topics.append(self._topic(ctx.may, topic, first, end))
            if end < topic.partition_count:
                return {"topics": topics, "next_cursor": _cursor(name, end)}
            left -= end - first
        return {"topics": topics, "next_cursor": None}

    def _names(self, may: Permissions, request: Struct, at_topic: str) -> list[str]:
        """What is left to describe; the cursor's topic is told even if it is gone meanwhile."""
        if not request.topics:
            known = self._broker.topics.catalogue.by_name
            names = set(may.visible(TOPIC_DESCRIBE, known, lambda name: name))
        else:
            names = {each.name for each in request.topics}
            if request.cursor is not None:
                names.add(at_topic)
        return sorted(name for name in names if name >= at_topic)

    def _topic(self, may: Permissions, topic: Topic, first: int, end: int) -> dict[str, Any]:
        return {
            "error_code": ErrorCode.none,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.is_internal,
            "partitions": [self._partition(topic, number) for number in range(first, end)],
            "topic_authorized_operations": topic_operations(may, topic.name, asked=True),
        }

    def _partition(self, topic: Topic, number: int) -> dict[str, Any]:
        leader, epoch, replicas, isr, elr, offline = self._broker.facts.partition(
            topic.topic_id, number
        )
        return {
            "error_code": leader_code(leader),
            "partition_index": number,
            "leader_id": NONE if leader is None else leader,
            "leader_epoch": epoch,
            "replica_nodes": replicas,
            "isr_nodes": isr,
            "eligible_leader_replicas": elr,
            "last_known_elr": [],
            "offline_replicas": offline,
        }


def _cursor(name: str, number: int) -> dict[str, Any]:
    return {"topic_name": name, "partition_index": number}


def _without(name: str, code: ErrorCode) -> dict[str, Any]:
    return {
        "error_code": code,
        "name": name,
        "topic_id": None,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _why_missing(name: str) -> ErrorCode:
    try:
        check_name(name)
    except InvalidTopicNameError as error:
        return code_for(error)
    return ErrorCode.unknown_topic_or_partition
