"""The members of a Streams group, with an index of who holds which task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from goqueue.groups.encoding import StreamsMemberKey, put, remove
from goqueue.groups.member_memory import HeldBytes
from goqueue.groups.streams.assignor import Role
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from goqueue.groups.effects import Entry
    from goqueue.groups.streams.assignor import Task, TaskId
    from goqueue.groups.streams.member import StreamsMember


class StreamsRoster:
    """Members by id in the order they joined.

    Of `holders` of a task, at most one is active, and no two are of the same process: they would
    share one folder of state on disk.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, StreamsMember] = {}
        self.holders: dict[TaskId, dict[str, Role]] = {}
        self.held = HeldBytes()
        self._changed: set[str] = set()

    def put(self, member: StreamsMember) -> None:
        """Put a member where its older self was, if it has one."""
        old = self.members.get(member.member_id)
        if old == member:
            return
        if old is not None:
            self._unlink(old)
        self.members[member.member_id] = member
        self.held.put(member.member_id, member.held_bytes)
        self._link(member)
        self._changed.add(member.member_id)

    def remove(self, member_id: str) -> StreamsMember:
        """Let a member go; what it held is free."""
        member = self.members.pop(member_id)
        self.held.remove(member_id)
        self._unlink(member)
        self._changed.add(member_id)
        return member

    def _link(self, member: StreamsMember) -> None:
        for role, subtopology_id, number in member.owned:
            self.holders.setdefault((subtopology_id, number), {})[member.member_id] = role

    def _unlink(self, member: StreamsMember) -> None:
        for _, subtopology_id, number in member.owned:
            found = self.holders.get((subtopology_id, number), {})
            found.pop(member.member_id, None)
            if not found:
                self.holders.pop((subtopology_id, number), None)

    def is_free_for(self, member_id: str, task: Task) -> bool:
        """No other member stands in the way of a task."""
        role, subtopology_id, number = task
        process_id = self.members[member_id].process_id
        for holder_id, held_as in self.holders.get((subtopology_id, number), {}).items():
            if holder_id == member_id:
                continue
            if role is Role.ACTIVE and held_as is Role.ACTIVE:
                return False
            if self.members[holder_id].process_id == process_id:
                return False
        return True

    def retarget(self, target: Mapping[str, frozenset[Task]]) -> None:
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

    def entry(self, member_id: str) -> Entry:
        """What is stored of a member, or that nothing is."""
        key = StreamsMemberKey(self.group_id, member_id)
        member = self.members.get(member_id)
        return remove(key) if member is None else put(key, member.to_value())

    def check_invariants(self) -> None:
        """Raise `InvariantError` where a task has two owners or the index is wrong."""
        holders: dict[TaskId, dict[str, Role]] = {}
        targets: set[Task] = set()
        for member in self.members.values():
            if member.assigned & member.pending_revocation:
                raise InvariantError(f"{member.member_id!r} keeps and gives up a task")
            for role, subtopology_id, number in member.owned:
                holders.setdefault((subtopology_id, number), {})[member.member_id] = role
            active = {task for task in member.target if task[0] is Role.ACTIVE}
            if targets & active:
                raise InvariantError(f"the target gives {targets & active} to two members")
            targets |= active
        for task, found in holders.items():
            if list(found.values()).count(Role.ACTIVE) > 1:
                raise InvariantError(f"task {task} is active in {sorted(found)}")
            if len({self.members[each].process_id for each in found}) < len(found):
                raise InvariantError(f"task {task} is twice in one process: {sorted(found)}")
        held = {member_id: m.held_bytes for member_id, m in self.members.items()}
        if held != self.held.as_dict() or sum(held.values()) != self.held.total:
            raise InvariantError("the bytes of members are not what is counted")
        if holders != self.holders:
            raise InvariantError("the index of holders is not what the members own")
