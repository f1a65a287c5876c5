"""The members of a KIP-848 group with their indexes: instance ids, owners, what must be stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from goqueue.groups.encoding import MemberKey, put, remove
from goqueue.groups.member_memory import HeldBytes
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.consumer.member import ConsumerMember
    from goqueue.groups.effects import Entry
    from goqueue.model.topic_partition import TopicIdPartition


class ConsumerRoster:
    """Members by id in the order they joined. `owners` has at most one member a partition."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self.held = HeldBytes()
        self._changed: set[str] = set()

    def put(self, member: ConsumerMember) -> None:
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
        self.owners.update(dict.fromkeys(member.owned, member.member_id))
        self._changed.add(member.member_id)

    def remove(self, member_id: str) -> ConsumerMember:
        """Let a member go; what it owned is free."""
        member = self.members.pop(member_id)
        self.held.remove(member_id)
        self._unlink(member)
        self._changed.add(member_id)
        return member

    def _unlink(self, member: ConsumerMember) -> None:
        # While a log is replayed, a successor's entry may come before its predecessor's removal.
        member_id = member.member_id
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        for part in member.owned:
            if self.owners.get(part) == member_id:
                del self.owners[part]

    def holder(self, instance_id: str) -> ConsumerMember | None:
        """The member with an instance id."""
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_free_for(self, member_id: str, part: TopicIdPartition) -> bool:
        """No other member owns the partition."""
        return self.owners.get(part, member_id) == member_id

    def retarget(self, target: dict[str, frozenset[TopicIdPartition]]) -> None:
        """Give every member its part of a new target."""
        for member in list(self.members.values()):
            self.put(replace(member, target=target[member.member_id]))

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
        self.owners = {part: m.member_id for m in self.members.values() for part in m.owned}

    def entry(self, member_id: str) -> Entry:
        """What is stored of a member, or that nothing is."""
        key = MemberKey(self.group_id, member_id)
        member = self.members.get(member_id)
        return remove(key) if member is None else put(key, member.to_value())

    def check_invariants(self) -> None:
        """Raise `InvariantError` where a partition has two owners or an index is wrong."""
        owners: dict[TopicIdPartition, str] = {}
        targets: set[TopicIdPartition] = set()
        for member in self.members.values():
            if member.assigned & member.pending_revocation:
                raise InvariantError(f"{member.member_id!r} keeps and gives up a partition")
            for part in member.owned:
                if owners.setdefault(part, member.member_id) != member.member_id:
                    raise InvariantError(
                        f"{part} is owned by {owners[part]!r} and by {member.member_id!r}"
                    )
            if targets & member.target:
                raise InvariantError(f"the target gives {targets & member.target} to two members")
            targets |= member.target
        held = {member_id: m.held_bytes for member_id, m in self.members.items()}
        if held != self.held.as_dict() or sum(held.values()) != self.held.total:
            raise InvariantError("the bytes of members are not what is counted")
        if owners != self.owners:
            raise InvariantError("the index of owners is not what the members own")
        static = {m.instance_id: m.member_id for m in self.members.values()}
        static.pop(None, None)
        if static != self.static_ids:
            raise InvariantError(f"static members {static} are indexed as {self.static_ids}")
