"""Which KIP-848 heartbeats are refused before the group looks at its members, and which after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.assignors import SERVER_ASSIGNORS
from goqueue.groups.messages import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH
from goqueue.model.errors import (
    FencedInstanceError,
    InvalidGroupRequestError,
    UnknownMemberError,
    UnreleasedInstanceError,
    UnsupportedAssignorError,
)

if TYPE_CHECKING:
    from goqueue.groups.consumer.member import ConsumerMember
    from goqueue.groups.messages import ConsumerHeartbeat


def check_heartbeat(request: ConsumerHeartbeat) -> None:
    """Refuse a heartbeat that no group could accept.

    Raises:
        InvalidGroupRequestError: a field is missing, empty or out of range.
        UnsupportedAssignorError: the server has no such assignor.
    """
    for name, text in (
        ("group id", request.group_id),
        ("member id", request.member_id),
        ("instance id", request.instance_id),
        ("rack id", request.rack_id),
    ):
        if text == "":
            raise InvalidGroupRequestError(f"the {name} is empty: leave it out or give one")
    if request.epoch < STATIC_LEAVING_EPOCH:
        raise InvalidGroupRequestError(
            f"the member epoch is {request.epoch}; it is 0 to join, -1 or -2 to leave, else "
            "the one of the newest reply"
        )
    if request.epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise InvalidGroupRequestError("leaving with epoch -2 needs an instance id")
    if request.epoch == JOINING_EPOCH:
        _check_joining(request)
    if request.server_assignor is not None and request.server_assignor not in SERVER_ASSIGNORS:
        raise UnsupportedAssignorError(
            f"there is no assignor {request.server_assignor!r}; there are "
            f"{', '.join(SERVER_ASSIGNORS)}"
        )


def _check_joining(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms < 0:
        raise InvalidGroupRequestError("the first heartbeat must give a rebalance timeout")
    if request.owned is None or request.owned:
        raise InvalidGroupRequestError(
            "the first heartbeat must list its partitions, and have none: give up all of them "
            "before joining"
        )
    if request.subscribed_names is None and request.subscribed_regex is None:
        raise InvalidGroupRequestError("the first heartbeat must name topics or a pattern")


def is_leaving(request: ConsumerHeartbeat) -> bool:
    """Whether the member says goodbye."""
    return request.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


def check_holder(member: ConsumerMember | None, request: ConsumerHeartbeat) -> ConsumerMember:
    """The static member that a request speaks for, if the request comes from its holder.

    Raises:
        UnknownMemberError: nobody has the instance id.
        FencedInstanceError: somebody else has it.
    """
    if member is None:
        raise UnknownMemberError(
            f"no member has the instance id {request.instance_id!r}: join again with epoch 0"
        )
    if member.member_id != request.member_id:
        raise FencedInstanceError(
            f"the instance id {request.instance_id!r} belongs to {member.member_id!r}, not to "
            f"{request.member_id!r}"
        )
    return member


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
