"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from goqueue.groups.messages import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    Protocol,
    SyncRequest,
)
from goqueue.model.errors import CoordinatorLoadingError, MemberIdRequiredError
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import READ, group

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_MEMBER_ID_REQUIRED_FROM: Final = 4
_SKIP_ASSIGNMENT_FROM: Final = 9
_BATCHED_LEAVE_FROM: Final = 3


def _join_refused(ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    return {
        "error_code": code,
        "generation_id": -1,
        "protocol_name": "",
        "leader": "",
        "member_id": request.member_id,
        "members": [],
    }


class GroupMembersApi:
    """Members of groups whose assignment a client computes."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups

    @api(ApiKey.JOIN_GROUP, right=group(READ), long_poll=True, on_error=_join_refused)
    async def join_group(self, ctx: RequestContext, request: Struct) -> Response:
        """Be in the next generation; answered when it begins."""
        rebalance_ms = request.rebalance_timeout_ms
        join = JoinRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=ctx.client_id or "",
            client_host=ctx.client_host,
            session_timeout_ms=request.session_timeout_ms,
            # Before version 1 the one timeout served for both.
            rebalance_timeout_ms=request.session_timeout_ms if rebalance_ms < 0 else rebalance_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(Protocol(p.name, bytes(p.metadata)) for p in request.protocols),
            require_known_member_id=ctx.version >= _MEMBER_ID_REQUIRED_FROM,
            supports_skip_assignment=ctx.version >= _SKIP_ASSIGNMENT_FROM,
        )
        try:
            result = await self._groups.join(join)
        except MemberIdRequiredError as error:
            refused = _join_refused(ctx, request, ErrorCode.member_id_required)
            return {**refused, "member_id": error.member_id}  # type: ignore[dict-item]  # a mapping
        return {
            "error_code": ErrorCode.none,
            "generation_id": result.generation,
            "protocol_type": result.protocol_type,
            "protocol_name": result.protocol_name or "",
            "leader": result.leader_id,
            "skip_assignment": result.skip_assignment,
            "member_id": result.member_id,
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.instance_id,
                    "metadata": member.metadata,
                }
                for member in result.members
            ],
        }

    @api(ApiKey.SYNC_GROUP, right=group(READ), long_poll=True)
    async def sync_group(self, ctx: RequestContext, request: Struct) -> Response:
        """Get the assignment that the leader made."""
        result = await self._groups.sync(
            SyncRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                generation=request.generation_id,
                instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments={
                    each.member_id: bytes(each.assignment) for each in request.assignments
                },
            )
        )
        return {
            "error_code": ErrorCode.none,
            "protocol_type": result.protocol_type,
            "protocol_name": result.protocol_name,
            "assignment": result.assignment,
        }

    @api(ApiKey.HEARTBEAT, right=group(READ))
    async def heartbeat(self, ctx: RequestContext, request: Struct) -> Response:
        """Stay alive.

        While the group is being loaded every heartbeat is good, as Kafka answers it: members get a
        whole session when it is loaded, and clients take another answer for the end of theirs.
        """
        with suppress(CoordinatorLoadingError):
            await self._groups.heartbeat(
                HeartbeatRequest(
                    group_id=request.group_id,
                    member_id=request.member_id,
                    generation=request.generation_id,
                    instance_id=request.group_instance_id,
                )
            )
        return {"error_code": ErrorCode.none}

    @api(ApiKey.LEAVE_GROUP, right=group(READ))
    async def leave_group(self, ctx: RequestContext, request: Struct) -> Response:
        """Go, singly in old versions, in batches since."""
        if ctx.version < _BATCHED_LEAVE_FROM:
            leaving: tuple[LeavingMember, ...] = (LeavingMember(request.member_id),)
        else:
            leaving = tuple(
                LeavingMember(m.member_id, m.group_instance_id) for m in request.members
            )
        result = await self._groups.leave(LeaveRequest(group_id=request.group_id, members=leaving))
        members: list[dict[str, Any]] = [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "error_code": ErrorCode.none if error is None else code_for(error),
            }
            for member, error in result.members
        ]
        if ctx.version < _BATCHED_LEAVE_FROM:
            return {"error_code": members[0]["error_code"]}
        return {"error_code": ErrorCode.none, "members": members}
