"""ShareGroupHeartbeat of our own clients: members of queue groups, shared or exclusive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    GoQueueError,
    InvalidGroupRequestError,
    InvariantError,
    UnknownMemberError,
)
from goqueue.model.limits import MAX_DELIVERIES, MAX_UNACKED, MAX_VISIBILITY_MS
from goqueue.protocols.kafka.errors import ErrorCode
from goqueue.protocols.kafka.groups.describing import by_topic_id
from goqueue.protocols.kafka.rights import TOPIC_READ
from goqueue.protocols.kafka.share.queue_fetch import named_error
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.share.members import JOINING_EPOCH, LEAVING_EPOCH

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.protocols.kafka.share.fetch_connections import FetchConnections
    from goqueue.queues.members import QueueMember

_MODES: Final = (Mode.SHARED, Mode.EXCLUSIVE)


class QueueHeartbeats:
    """Lets members into queue groups, and out again."""

    def __init__(self, broker: Broker, connections: FetchConnections) -> None:
        self._broker = broker
        self._members = broker.queue_members
        self._connections = connections

    async def heartbeat(self, ctx: RequestContext, request: Struct) -> Response:
        """Join, stay or go."""
        try:
            return await self._heartbeat(ctx, request)
        except InvariantError:
            raise
        except GoQueueError as error:
            return {**named_error(error), "member_id": request.member_id}

    async def _heartbeat(self, ctx: RequestContext, request: Struct) -> Response:
        if not request.member_id:
            raise InvalidGroupRequestError("the member id is empty: a member names itself")
        if request.member_epoch == JOINING_EPOCH:
            member = await self._join(ctx, request)
        else:
            found = self._members.find(request.group_id, request.member_id)
            if found is None:
                raise UnknownMemberError(f"there is no queue group {request.group_id!r}: join it")
            member = found
            if request.member_epoch == LEAVING_EPOCH:
                return await self._leave(member)
            await self._members.heartbeat(member)
        if request.queue.is_draining:
            self._broker.queues.group(member.group_id).draining.add(member.member_id)
            self._broker.queues.waiters(member.group_id).wake()
        return self._answer(member, request.queue.visibility_ms)

    async def _join(self, ctx: RequestContext, request: Struct) -> QueueMember:
        if not request.subscribed_topic_names:
            raise InvalidGroupRequestError("a joining member must name its topics")
        for name in request.subscribed_topic_names:
            ctx.may.require(TOPIC_READ, name)
        key = request.group_id, request.member_id
        member = await self._members.join(
            request.group_id,
            request.subscribed_topic_names,
            _settings(request.queue),
            client_id=ctx.client_id or "",
            client_host=ctx.client_host,
            member_id=request.member_id,
        )
        self._connections.forget(key)
        self._broker.queues.group(member.group_id).draining.discard(member.member_id)
        return member

    async def _leave(self, member: QueueMember) -> Response:
        self._connections.forget((member.group_id, member.member_id))
        await self._members.leave(member)
        self._broker.queues.waiters(member.group_id).wake()  # a fetch of it need not wait on
        return {
            "error_code": ErrorCode.none,
            "member_id": member.member_id,
            "member_epoch": LEAVING_EPOCH,
            "heartbeat_interval_ms": 0,
        }

    def _answer(self, member: QueueMember, visibility_ms: int) -> Response:
        group = self._broker.queues.group(member.group_id)
        topics = self._broker.topics.catalogue.by_name
        assigned = [
            (topics[each.topic].topic_id, each.partition)
            for each in self._members.partitions_of(member)
            if each.topic in topics
        ]
        owner = member.owner
        return {
            "error_code": ErrorCode.none,
            "member_id": member.member_id,
            "member_epoch": group.members.get(member.member_id).epoch
            if owner is None
            else owner.epoch,
            "heartbeat_interval_ms": (owner.heartbeat_interval_ms if owner is not None else 0)
            or group.settings.heartbeat_ms,
            "assignment": {"topic_partitions": by_topic_id(assigned)},
            "visibility_ms": visibility_ms or group.settings.visibility_ms,
        }


def _settings(queue: Struct) -> QueueSettings:
    """How the group works, if this member is its first."""
    if not 0 <= queue.mode < len(_MODES):
        raise InvalidGroupRequestError(
            f"queue.mode is {queue.mode}: expected 0 (shared) or 1 (exclusive)"
        )
    plain = QueueSettings()
    return QueueSettings(
        mode=_MODES[queue.mode],
        visibility_ms=_bounded(queue, "visibility_ms", MAX_VISIBILITY_MS) or plain.visibility_ms,
        max_deliveries=_bounded(queue, "max_deliveries", MAX_DELIVERIES) or plain.max_deliveries,
        max_unacked=_bounded(queue, "max_unacked", MAX_UNACKED) or plain.max_unacked,
        start_at_latest=queue.start_at_latest,
    )


def _bounded(queue: Struct, name: str, most: int) -> int:
    value: int = getattr(queue, name)
    if not 0 <= value <= most:
        raise InvalidGroupRequestError(
            f"queue.{name} is {value}: expected 1 to {most}, or 0 for the default"
        )
    return value
