"""What producers may write: WRITE on each topic and, in transactions, on the transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import AuthorizationFailedError, GoQueueError, TopicError
from goqueue.protocols.kafka.rights import ID_WRITE, TOPIC_DESCRIBE, TOPIC_WRITE, code_of
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.produce import PartitionResult, TopicResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.kafka.context import Peer, RequestContext
    from goqueue.protocols.permissions import Permissions
    from goqueue.publishing.straight import StraightWay
    from goqueue.wire.kafka.produce import ProduceRequest, TopicData


def may_write(peer: Peer, way: StraightWay) -> bool:
    """Whether a client may write to a partition."""
    return peer.session.permissions.allows(TOPIC_WRITE, way.partition.id.topic)


def permitted(
    ctx: RequestContext, request: ProduceRequest, name_of: Callable[[TopicData], str]
) -> tuple[ProduceRequest, GoQueueError | None]:
    """The request without the topics that the client may not write to, which are noted as refused.

    Beside it, why nothing at all may be written, as in Kafka: the transactional id is somebody
    else's.
    """
    refusal: GoQueueError | None = None
    if request.transactional_id is not None:
        try:
            ctx.may.require(ID_WRITE, request.transactional_id)
        except AuthorizationFailedError as error:
            refusal = error
    kept = []
    for topic in request.topics:
        code = _refusal(ctx.may, topic, name_of)
        if code is None:
            kept.append(topic)
        else:
            parts = [PartitionResult(each.partition, code) for each in topic.partitions]
            ctx.refuse("responses", [TopicResult(topic.name, topic.topic_id, parts)])
    return request._replace(topics=kept), refusal


def _refusal(
    may: Permissions, topic: TopicData, name_of: Callable[[TopicData], str]
) -> ErrorCode | None:
    """Why the client may not write to a topic; None if it may."""
    try:
        name = name_of(topic)
    except TopicError:
        return None  # there is no topic of this id, which is said where it is published
    if may.permits(TOPIC_WRITE, name):
        return None
    if topic.topic_id is not None and not may.allows(TOPIC_DESCRIBE, name):
        return ErrorCode.unknown_topic_id
    return code_of(TOPIC_WRITE)
