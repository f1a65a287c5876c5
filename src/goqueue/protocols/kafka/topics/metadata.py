"""Metadata: which nodes and topics there are, and who leads what."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import (
    GoQueueError,
    TopicExistsError,
    UnknownTopicError,
)
from goqueue.protocols.kafka.access.operations import cluster_operations, topic_operations
from goqueue.protocols.kafka.brokers import NONE, Brokers, leader_code
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import (
    CLUSTER_CREATE,
    TOPIC_CREATE,
    TOPIC_DESCRIBE,
    all_of,
    within,
)
from goqueue.protocols.kafka.topic_ids import topic_with_id
from goqueue.protocols.kafka.turns import Each, encode_in_turns, in_turns, once_each
from goqueue.topics.names import check_name
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from goqueue.broker.log_broker import LogBroker
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.protocols.permissions import Permissions
    from goqueue.topics.catalogue import Topic
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.reading import Struct


BURST: Final = 200
"""Topics that may be made at once by asking. Beyond it they are made at `PER_S`; one that may not
be made yet is unknown, and its client, which asks again, gets it later."""
PER_S: Final = 20.0


class CreationRate:
    """A bucket of topics that may be made, which fills up again."""

    def __init__(self, now_s: float) -> None:
        self._left = float(BURST)
        self._since_s = now_s

    def take(self, now_s: float) -> bool:
        """Whether one more may be made now; if so, it counts."""
        self._left = min(BURST, self._left + (now_s - self._since_s) * PER_S)
        self._since_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


_log = logging.getLogger(__name__)


class MetadataApi:
    """Answers what clients ask first and again whenever something surprises them."""

    def __init__(self, broker: LogBroker, brokers: Brokers) -> None:
        """Tell clients of each listener, by its name, the address to come back to."""
        self._broker = broker
        self._brokers = brokers
        self._creations = CreationRate(broker.clock.monotonic_s())

    @api(
        ApiKey.METADATA,
        right=all_of(
            within(TOPIC_DESCRIBE, note="each; a list of all topics has those that it covers"),
            within(CLUSTER_CREATE, TOPIC_CREATE, note="to create missing topics"),
        ),
    )
    async def metadata(self, ctx: RequestContext, request: Struct) -> Response:
        """Describe the node and the topics asked for, making missing ones where that is wanted."""
        everything = request.topics is None or (ctx.version == 0 and not request.topics)
        found: list[Topic | dict[str, Any]]
        if everything:
            topics = self._broker.topics.catalogue.by_name.values()
            found = [*ctx.may.visible(TOPIC_DESCRIBE, topics, lambda topic: topic.name)]
        else:
            may_create = bool(request.allow_auto_topic_creation)
            asked = once_each(request.topics, key=lambda each: each.topic_id or each.name)
            found = [
                await self._asked(ctx.may, topic, may_create=may_create)
                async for topic in in_turns(asked)
            ]
        asks_operations = request.include_topic_authorized_operations
        operations = partial(topic_operations, ctx.may, asked=asks_operations)
        return await encode_in_turns(
            ctx,
            {
                "brokers": [each._asdict() for each in self._brokers.all(ctx.listener_name)],
                "cluster_id": self._broker.settings.cluster_id,
                "controller_id": self._brokers.controller_id(ctx.listener_name),
                "topics": Each(found, partial(self._describe, operations)),
                "cluster_authorized_operations": cluster_operations(
                    ctx.may, asked=request.include_cluster_authorized_operations
                ),
            },
        )

    async def _asked(
        self, may: Permissions, topic: Struct, *, may_create: bool
    ) -> Topic | dict[str, Any]:
        """One topic that the client named, or the answer that says why there is none."""
        catalogue = self._broker.topics.catalogue
        try:
            name = topic.name or ""
            if not topic.topic_id:
                may.require(TOPIC_DESCRIBE, name)
            found = catalogue.by_id.get(topic.topic_id) or catalogue.by_name.get(name)
            if found is None and self._brokers.is_cluster:
                await self._broker.topics.refresh()
            catalogue = self._broker.topics.catalogue
            if topic.topic_id:
                return topic_with_id(self._broker.topics, may, topic.topic_id)
            found = catalogue.by_name.get(name)
            return found or await self._missing(may, name, may_create=may_create)
        except GoQueueError as error:
            return _without(topic.name, topic.topic_id, error)

    async def _missing(self, may: Permissions, name: str, *, may_create: bool) -> Topic:
        if not (may_create and self._broker.settings.auto_create_topics):
            raise UnknownTopicError(
                f"there is no topic {name!r}, and auto-creation was not requested"
            )
        if not may.allows(CLUSTER_CREATE):
            may.require(TOPIC_CREATE, name)
        check_name(name)
        if not self._creations.take(self._broker.clock.monotonic_s()):
            _log.warning(
                "topic %s is not auto-created yet: the rate of auto-created topics is limited", name
            )
            raise UnknownTopicError(
                f"there is no topic {name!r}, and it cannot be auto-created yet"
            )
        try:
            topic = await self._broker.create_topic(name)
        except TopicExistsError:
            return self._broker.topics.catalogue.topic(name)
        _log.info("auto-created topic %s with %d partitions", name, topic.partition_count)
        return topic

    def _describe(
        self, operations: Callable[[str], int], topic: Topic | dict[str, Any]
    ) -> dict[str, Any]:
        if isinstance(topic, dict):
            return {**topic, "topic_authorized_operations": operations(topic["name"] or "")}

        def describe(number: int) -> dict[str, Any]:
            leader, epoch, replicas, isr, _, offline = self._brokers.partition(
                topic.topic_id, number
            )
            return {
                "error_code": leader_code(leader),
                "partition_index": number,
                "leader_id": NONE if leader is None else leader,
                "leader_epoch": epoch,
                "replica_nodes": replicas,
                "isr_nodes": isr,
                "offline_replicas": offline,
            }

        return {
            "error_code": ErrorCode.none,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.is_internal,
            "partitions": Each(range(topic.partition_count), describe),
            "topic_authorized_operations": operations(topic.name),
        }


def _without(name: str | None, topic_id: UUID | None, error: GoQueueError) -> dict[str, Any]:
    return {
        "error_code": code_for(error),
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
    }
