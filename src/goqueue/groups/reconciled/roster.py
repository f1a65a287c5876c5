"""The members of a group that the broker assigns, and an index of who holds what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from goqueue.groups.encoding import MemberKey, StreamsMemberKey, put, remove
from goqueue.groups.roster import Roster
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from goqueue.groups.effects import Entry
    from goqueue.groups.reconciled.member import Reconciling

R = TypeVar("R", bound="Reconciling[Any]")


class ReconciledRoster(Roster[R]):
    """Here nothing has two holders; the tasks of Streams groups, which may, are a subclass."""

    def __init__(self, group_id: str, key: type[MemberKey | StreamsMemberKey]) -> None:
        super().__init__()
        self.holders: dict[Hashable, dict[str, Any]] = {}
        """What is owned (`slot_of`) to its holders, each with what exactly it owns of it."""
        self._group_id = group_id
        self._key = key
        self._changed: set[str] = set()

    def slot_of(self, owned: Any) -> Hashable:
        """What it is that a member owns, in whatever role."""
        return owned  # type: ignore[no-any-return] # a partition

    def is_exclusive(self, _owned: Any) -> bool:
        """Whether no two members may own it at once."""
        return True

    def is_free_for(self, member_id: str, wanted: Any) -> bool:
        """No other member stands in the way."""
        return self.holders.get(self.slot_of(wanted), {}).keys() <= {member_id}

    def put(self, member: R) -> None:
        """Put a member where its older self was, if it has one."""
        old = self.members.get(member.member_id)
        if old == member:
            return
        if old is not None:
            self._unlink(old)
        self.members[member.member_id] = member
        self.held.put(member.member_id, member.held_bytes)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        for owned in member.owned:
            self.holders.setdefault(self.slot_of(owned), {})[member.member_id] = owned
        self._changed.add(member.member_id)

    def remove(self, member_id: str) -> R:
        """Let a member go; what it held is free."""
        member = self.members.pop(member_id)
        self.held.remove(member_id)
        self._unlink(member)
        self._changed.add(member_id)
        return member

    def _unlink(self, member: R) -> None:
        # While a log is replayed, a successor's entry may come before its predecessor's removal.
        if self.static_ids.get(member.instance_id or "") == member.member_id:
            del self.static_ids[member.instance_id or ""]
        for slot in map(self.slot_of, member.owned):
            found = self.holders[slot]
            found.pop(member.member_id, None)
            if not found:
                del self.holders[slot]

    def holder(self, instance_id: str | None) -> R | None:
        """The member with an instance id."""
        return self.members.get(self.static_ids.get(instance_id or "", ""))

    def retarget(self, target: Mapping[str, frozenset[Any]]) -> None:
        """Give every member its part of a new target; who is not in it gets nothing."""
        for member in list(self.members.values()):
            self.put(replace(member, target=target.get(member.member_id, frozenset())))

    def take_changes(self) -> Iterator[Entry]:
        """One entry for each member that changed since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return map(self.entry, changed)

    def finish_loading(self) -> None:
        """The members were just loaded: what is stored is what they are."""
        self._changed.clear()
        self.static_ids = {
            m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None
        }

    def entry(self, member_id: str) -> Entry:
        """What is stored of a member, or that nothing is."""
        key = self._key(self._group_id, member_id)
        member = self.members.get(member_id)
        return remove(key) if member is None else put(key, member.to_value())

    def forget(self) -> Iterator[Entry]:
        """What removes all members from the log."""
        return (remove(self._key(self._group_id, each)) for each in self.members)

    def check_invariants(self) -> None:  # type: ignore[override] # nobody is expected here
        """Raise `InvariantError` where something has two owners or an index is wrong."""
        super().check_invariants()
        holders: dict[Hashable, dict[str, Any]] = {}
        targets: set[Any] = set()
        for member in self.members.values():
            if member.assigned & member.pending_revocation:
                raise InvariantError(f"{member.member_id!r} owns and revokes the same")
            for owned in member.owned:
                holders.setdefault(self.slot_of(owned), {})[member.member_id] = owned
            target = set(filter(self.is_exclusive, member.target))
            if targets & target:
                raise InvariantError(f"the target gives {targets & target} to two members")
            targets |= target
        for slot, found in holders.items():
            if sum(map(self.is_exclusive, found.values())) > 1:
                raise InvariantError(f"{slot} is owned by {sorted(found)}")
        if holders != self.holders:
            raise InvariantError("the index of holders is not what the members own")
