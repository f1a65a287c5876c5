"""How a member of a group that the broker assigns comes to what it shall have, step by step.

A member owns `assigned` and `pending_revocation` together. It is told only `assigned`; what it
must give up stays its own until it no longer reports it, so nothing ever has two owners. What is
owned are the partitions of a KIP-848 group, or the tasks of a Streams group.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from goqueue.model.errors import FencedMemberEpochError

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.groups.messages import MemberHeartbeat

T = TypeVar("T")


class MemberState(StrEnum):
    """How far a member is on its way to the target."""

    STABLE = "stable"
    """It has all that its epoch's target gives it."""
    UNREVOKED = "unrevoked"
    """It must give up something before it goes to the next epoch."""
    UNRELEASED = "unreleased"
    """It waits for what others have not given up."""


class Reconciling(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Never changed in place: an event puts a new value where the old one was."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    epoch: int = 0
    """The target epoch that the member has reached; 0 before the first, -2 for a static member
    that is away and will be back."""
    previous_epoch: int = 0
    """Still accepted from a member that did not get the reply with the newest epoch."""
    state: MemberState = MemberState.STABLE
    assigned: frozenset[T] = msgspec.field(default_factory=frozenset)
    pending_revocation: frozenset[T] = msgspec.field(default_factory=frozenset)
    target: frozenset[T] = msgspec.field(default_factory=frozenset)
    """What the member shall have at the group's target epoch."""

    @property
    def owned(self) -> frozenset[T]:
        """Everything that is kept from others."""
        return self.assigned | self.pending_revocation

    @property
    def held_bytes(self) -> int:
        """What the member says of itself; what it owns is what there is anyway."""
        raise NotImplementedError

    def is_assigned_like(self, other: Any) -> bool:
        """Whether an assignor can tell two members apart only by what they have."""
        raise NotImplementedError

    def to_value(self) -> Any:
        """What of the member is stored: everything."""
        raise NotImplementedError

    @classmethod
    def from_value(cls, member_id: str, value: Any) -> Any:
        """A member as it was stored."""
        raise NotImplementedError

    def has_reached(self, target_epoch: int) -> bool:
        """Nothing is left to do for the member."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


M = TypeVar("M", bound=Reconciling[Any])


def updated_by(member: M, request: MemberHeartbeat[Any], **said: Any) -> M:
    """The member with what every heartbeat says, and `said`; silence keeps what it said before."""
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        **said,
    )


def reconcile(
    member: M,
    target_epoch: int,
    reported: frozenset[T] | None,
    is_free: Callable[[T], bool],
) -> M:
    """Take the member one step towards its target: first give up, then take what is free.

    `reported` is what the member says it owns, None when it says nothing; `is_free` tells whether
    no other member stands in the way.
    """
    if member.has_reached(target_epoch):
        return member
    if member.state is MemberState.UNREVOKED and _still_has(reported, member.pending_revocation):
        return member
    kept = member.assigned & member.target
    to_revoke = member.assigned - member.target
    if to_revoke and _still_has(reported, to_revoke):
        return replace(
            member, state=MemberState.UNREVOKED, assigned=kept, pending_revocation=to_revoke
        )
    missing = member.target - kept
    available = frozenset(filter(is_free, missing))
    return replace(
        member,
        state=MemberState.STABLE if available == missing else MemberState.UNRELEASED,
        epoch=target_epoch,
        previous_epoch=member.epoch if member.epoch != target_epoch else member.previous_epoch,
        assigned=kept | available,
        pending_revocation=frozenset(),
    )


def _still_has(reported: frozenset[T] | None, given_up: frozenset[T]) -> bool:
    """A member that says nothing is taken to have everything."""
    return reported is None or not reported.isdisjoint(given_up)


def check_epoch(member: Reconciling[T], epoch: int, reported: frozenset[T] | None) -> None:
    """Refuse a member that speaks for an epoch it is not in.

    The previous epoch is accepted with nothing owned beyond the assignment: then the reply that
    carried the newest epoch was lost.

    Raises:
        FencedMemberEpochError: the member must give up all it has and join again.
    """
    if epoch == member.epoch:
        return
    lost_reply = (
        epoch == member.previous_epoch
        and epoch < member.epoch
        and reported is not None
        and reported <= member.assigned
    )
    if not lost_reply:
        raise FencedMemberEpochError(
            f"{member.member_id!r} is at epoch {member.epoch}, its heartbeat says {epoch}: give up "
            "everything and join again with epoch 0"
        )
