"""Which KIP-848 heartbeats are refused before the group looks at its members, and which after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.assignors import SERVER_ASSIGNORS
from goqueue.groups.messages import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerHeartbeat,
)
from goqueue.groups.reconciled.checks import check_member_heartbeat
from goqueue.model.errors import (
    InvalidGroupRequestError,
    UnreleasedInstanceError,
    UnsupportedAssignorError,
)

if TYPE_CHECKING:
    from goqueue.groups.consumer.member import ConsumerMember


def check_heartbeat(request: ConsumerHeartbeat) -> None:
    """Refuse a heartbeat that no group could accept.

    Raises:
        InvalidGroupRequestError: a field is missing, empty or out of range.
        UnsupportedAssignorError: the server has no such assignor.
    """
    check_member_heartbeat(
        request, (LEAVING_EPOCH, STATIC_LEAVING_EPOCH), instance_id=request.instance_id
    )
    if request.epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise InvalidGroupRequestError("leaving with epoch -2 needs an instance id")
    subscribes = request.subscribed_names is not None or request.subscribed_regex is not None
    if request.epoch == JOINING_EPOCH and not subscribes:
        raise InvalidGroupRequestError("the first heartbeat must name topics or a pattern")
    if request.server_assignor is not None and request.server_assignor not in SERVER_ASSIGNORS:
        raise UnsupportedAssignorError(
            f"there is no assignor {request.server_assignor!r}; there are "
            f"{', '.join(SERVER_ASSIGNORS)}"
        )


def check_released(member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    """Refuse to hand a static member's place to another process before it was given up.

    Raises:
        UnreleasedInstanceError: the holder has neither left nor run out of time.
    """
    if member.classic is not None:
        return  # processes of the classic protocol never say that they give up an instance id
    if member.member_id != request.member_id and member.epoch != STATIC_LEAVING_EPOCH:
        raise UnreleasedInstanceError(
            f"the instance id {request.instance_id!r} is held by {member.member_id!r}: wait until "
            "it leaves or its session ends, and give each process its own instance id"
        )
