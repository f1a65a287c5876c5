"""The members of a group of any protocol, and the indexes that every group needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from goqueue.groups.member_memory import HeldBytes, held_by
from goqueue.model.errors import FencedInstanceError, InvariantError, UnknownMemberError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.groups.classic.member import ClassicMember
    from goqueue.groups.reconciled.member import Reconciling

M = TypeVar("M", bound="ClassicMember | Reconciling[Any]")


class Roster(Generic[M]):
    """Members by id in the order they joined."""

    def __init__(self) -> None:
        self.members: dict[str, M] = {}
        self.static_ids: dict[str, str] = {}
        """Instance id to the member id that holds it now."""
        self.held = HeldBytes()

    def get(self, member_id: str, instance_id: str | None = None) -> M:
        """The member that a request speaks for.

        Raises:
            UnknownMemberError: the group does not know the member or the instance.
            FencedInstanceError: another process has the instance id now.
        """
        if instance_id is not None:
            holder_id = self.static_ids.get(instance_id)
            if holder_id is None:
                raise UnknownMemberError(
                    f"no member has the instance id {instance_id!r}: join the group again"
                )
            if holder_id != member_id:
                raise FencedInstanceError(
                    f"the instance id {instance_id!r} belongs to {holder_id!r} now, not to "
                    f"{member_id!r}: two processes share it; give each its own"
                )
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberError(f"{member_id!r} is not a member of the group: join it again")
        return member

    def check_invariants(self, expected_ids: Iterable[str] = ()) -> None:
        """Raise `InvariantError` where an index and the members disagree.

        `expected_ids` were handed out and count, though nobody has joined with them.
        """
        static = {m.instance_id: m.member_id for m in self.members.values()}
        static.pop(None, None)
        if static != self.static_ids:
            raise InvariantError(f"static members {static} are indexed as {self.static_ids}")
        held = {member_id: m.held_bytes for member_id, m in self.members.items()}
        held |= {member_id: held_by([member_id]) for member_id in expected_ids}
        if held != self.held.as_dict() or sum(held.values()) != self.held.total:
            raise InvariantError("the bytes of members are not what is counted")
