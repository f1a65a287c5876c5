"""Metadata: which topics there are, and that this node leads all of them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from goqueue.model.errors import (
    GoQueueError,
    TopicExistsError,
    UnknownTopicError,
)
from goqueue.protocols.kafka.api_keys import ApiKey
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.broker.broker import Broker
    from goqueue.broker.topics import Topic
    from goqueue.protocols.kafka.codec import Response
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.protocols.kafka.reading import Struct

_log = logging.getLogger(__name__)

NO_OPERATIONS: Final = -(1 << 31)
"""Kafka's way to say that nobody asked which operations are allowed."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where clients reach this node, as it is advertised."""

    host: str
    port: int


class MetadataApi:
    """Answers what clients ask first and again whenever something surprises them."""

    def __init__(self, broker: Broker, advertised: Mapping[str, Address]) -> None:
        """Tell clients of each listener, by its name, the address to come back to."""
        self._broker = broker
        self._advertised = advertised

    @api(ApiKey.METADATA, 0, 13)
    async def metadata(self, ctx: RequestContext, request: Struct) -> Response:
        """Describe the node and the topics asked for, making missing ones where that is wanted."""
        everything = request.topics is None or (ctx.version == 0 and not request.topics)
        if everything:
            topics = [self._describe(t) for t in self._broker.topics.catalogue.by_name.values()]
        else:
            may_create = bool(request.allow_auto_topic_creation)
            topics = [await self._asked(topic, may_create=may_create) for topic in request.topics]
        address = self._advertised[ctx.listener_name]
        node_id = self._broker.settings.node_id
        return {
            "brokers": [
                {"node_id": node_id, "host": address.host, "port": address.port, "rack": None}
            ],
            "cluster_id": self._broker.settings.cluster_id,
            "controller_id": node_id,
            "topics": topics,
            "cluster_authorized_operations": NO_OPERATIONS,
        }

    async def _asked(self, topic: Struct, *, may_create: bool) -> dict[str, Any]:
        """One topic that the client named, or why there is none."""
        catalogue = self._broker.topics.catalogue
        try:
            if topic.topic_id:
                return self._describe(catalogue.topic_with_id(topic.topic_id))
            found = catalogue.by_name.get(topic.name or "")
            if found is None:
                found = await self._missing(topic.name or "", may_create=may_create)
            return self._describe(found)
        except GoQueueError as error:
            return {
                "error_code": code_for(error),
                "name": topic.name,
                "topic_id": topic.topic_id,
                "is_internal": False,
                "partitions": [],
                "topic_authorized_operations": NO_OPERATIONS,
            }

    async def _missing(self, name: str, *, may_create: bool) -> Topic:
        if not (may_create and self._broker.settings.auto_create_topics):
            raise UnknownTopicError(f"there is no topic {name!r}, and it is not made by asking")
        try:
            topic = await self._broker.create_topic(name)
        except TopicExistsError:
            return self._broker.topics.catalogue.topic(name)
        _log.info("made topic %s with %d partitions, as asked", name, topic.partition_count)
        return topic

    def _describe(self, topic: Topic) -> dict[str, Any]:
        node_id = self._broker.settings.node_id
        return {
            "error_code": ErrorCode.none,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.is_internal,
            "partitions": [
                {
                    "error_code": ErrorCode.none,
                    "partition_index": partition.id.number,
                    "leader_id": node_id,
                    "leader_epoch": partition.leader_epoch,
                    "replica_nodes": [node_id],
                    "isr_nodes": [node_id],
                    "offline_replicas": [],
                }
                for partition in self._broker.partitions.of_topic(topic)
            ],
            "topic_authorized_operations": NO_OPERATIONS,
        }
