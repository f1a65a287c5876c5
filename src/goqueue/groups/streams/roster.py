"""The members of a Streams group, with an index of who holds which task."""

from __future__ import annotations

from goqueue.groups.encoding import StreamsMemberKey
from goqueue.groups.reconciled.roster import ReconciledRoster
from goqueue.groups.streams.assignor import Role, Task, TaskId
from goqueue.groups.streams.member import StreamsMember
from goqueue.model.errors import InvariantError


class StreamsRoster(ReconciledRoster[StreamsMember]):
    """Of the holders of a task, at most one is active, and no two are of the same process.

    They would share one folder of state on disk.
    """

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, StreamsMemberKey)

    def slot_of(self, owned: Task) -> TaskId:
        """The task, in whatever role."""
        return owned[1:]

    def is_exclusive(self, owned: Task) -> bool:
        """Only one member runs a task; others may keep copies of its state."""
        return owned[0] is Role.ACTIVE

    def is_free_for(self, member_id: str, wanted: Task) -> bool:
        """No other member runs the task, and none of the same process has it."""
        process_id = self.members[member_id].process_id
        return not any(
            (self.is_exclusive(wanted) and self.is_exclusive(owned))
            or self.members[holder_id].process_id == process_id
            for holder_id, owned in self.holders.get(self.slot_of(wanted), {}).items()
            if holder_id != member_id
        )

    def check_invariants(self) -> None:  # type: ignore[override] # nobody is expected here
        """Raise `InvariantError` where a task has two owners or the index is wrong."""
        super().check_invariants()
        for task, found in self.holders.items():
            if len({self.members[each].process_id for each in found}) < len(found):
                raise InvariantError(f"task {task} is twice in one process: {sorted(found)}")
