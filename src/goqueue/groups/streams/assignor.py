"""Who runs which task of a Streams group: balance first, then as few moves as balance allows.

Every process gets active tasks in proportion to its members (its threads), and the members of a
process differ by at most one. Within that, a task stays where it is; one that must move goes to a
process that has a copy of its state, if there is room. A standby never shares a process with the
active task or another standby, as they would share one folder on disk.
"""

from __future__ import annotations

import heapq
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Set as AbstractSet


class Role(StrEnum):
    """What a member does with a task."""

    ACTIVE = "active"
    """It processes records."""
    STANDBY = "standby"
    """It keeps a copy of the state, to take over quickly."""


TaskId: TypeAlias = tuple[str, int]
"""A subtopology and one of its partitions."""

Task: TypeAlias = tuple[Role, str, int]
"""A task in the role that one member has it in."""


class TaskMember(NamedTuple):
    """A member, as far as an assignment needs it."""

    process_id: str
    previous: frozenset[Task]


def assign_tasks(
    members: Mapping[str, TaskMember],
    task_counts: Mapping[str, int],
    stateful: AbstractSet[str],
    standby_count: int,
) -> dict[str, frozenset[Task]]:
    """Share out every task, with up to `standby_count` standbys for those that have state."""
    if not members:
        return {}
    tasks = [
        (subtopology_id, number)
        for subtopology_id in sorted(task_counts)
        for number in range(task_counts[subtopology_id])
    ]
    active = _Actives(members, tasks, stateful).share_out()
    shares: dict[str, set[Task]] = {member_id: set() for member_id in members}
    for task, member_id in active.items():
        shares[member_id].add((Role.ACTIVE, *task))
    if standby_count:
        with_state = [task for task in tasks if task[0] in stateful]
        standbys = _Standbys(members, active, shares, standby_count * len(with_state))
        for task in with_state:
            standbys.place(task, standby_count)
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _holders(members: Mapping[str, TaskMember], role: Role) -> dict[TaskId, list[str]]:
    """The members that had each task in a role, in the order of their ids."""
    found: dict[TaskId, list[str]] = {}
    for member_id in sorted(members):
        for held, subtopology_id, number in members[member_id].previous:
            if held is role:
                found.setdefault((subtopology_id, number), []).append(member_id)
    return found


def _by_process(members: Mapping[str, TaskMember]) -> dict[str, list[str]]:
    """The members of each process, in the order of their ids."""
    found: dict[str, list[str]] = {}
    for member_id in sorted(members):
        found.setdefault(members[member_id].process_id, []).append(member_id)
    return found


class _Actives:
    """The active tasks: quotas, what stays, then what must move."""

    def __init__(
        self,
        members: Mapping[str, TaskMember],
        tasks: list[TaskId],
        stateful: AbstractSet[str],
    ) -> None:
        self._members = members
        self._by_process = _by_process(members)
        self._had_active = _holders(members, Role.ACTIVE)
        self._had_standby = _holders(members, Role.STANDBY)
        # What has state is kept first: to move it costs a restore.
        self._tasks = sorted(tasks, key=lambda task: task[0] not in stateful)
        self._room = self._quotas()
        """How many tasks each member may still be given."""
        self._idlest = {
            process_id: _Idlest(found, self._fullness)
            for process_id, found in self._by_process.items()
        }

    def _quotas(self) -> dict[str, int]:
        """How many tasks each member shall have."""
        claims = Counter(self._had_active[t][0] for t in self._tasks if t in self._had_active)
        weights = {process_id: len(found) for process_id, found in self._by_process.items()}
        of_process = Counter(
            {each: sum(claims[m] for m in found) for each, found in self._by_process.items()}
        )
        quotas: dict[str, int] = {}
        for process_id, share in _split(len(self._tasks), weights, of_process).items():
            quotas |= _split(share, dict.fromkeys(self._by_process[process_id], 1), claims)
        return quotas

    def share_out(self) -> dict[TaskId, str]:
        """Each task with its member."""
        owner: dict[TaskId, str] = {}
        for prefer in (self._former_owners, self._neighbours):
            for task in self._tasks:
                if task not in owner:
                    self._give(task, prefer(task), owner)
        if left := [task for task in self._tasks if task not in owner]:
            idlest = _Idlest(self._room, self._fullness)
            for task in left:
                self._give(task, (idlest.next(),), owner)
        return owner

    def _fullness(self, member_id: str) -> float:
        return -self._room[member_id]

    def _give(self, task: TaskId, candidates: Iterable[str], owner: dict[TaskId, str]) -> None:
        for member_id in candidates:
            if self._room[member_id]:
                self._room[member_id] -= 1
                owner[task] = member_id
                return

    def _former_owners(self, task: TaskId) -> list[str]:
        return self._had_active.get(task, [])[:1]

    def _neighbours(self, task: TaskId) -> Iterable[str]:
        """The members of processes that have the state of a task on their disk."""
        held = self._had_active.get(task, [])[:1] + self._had_standby.get(task, [])
        processes = dict.fromkeys(self._members[member_id].process_id for member_id in held)
        return (self._idlest[process_id].next() for process_id in processes)


def _split(total: int, weights: Mapping[str, int], claims: Mapping[str, int]) -> dict[str, int]:
    """Whole parts of a total in proportion to weights.

    What is left over goes to the largest remainders, and of equal ones to who claims most beyond
    its part.
    """
    whole = sum(weights.values())
    parts = {each: total * weight // whole for each, weight in weights.items()}
    left_over = total - sum(parts.values())
    remainders = {each: total * weight % whole for each, weight in weights.items()}
    surplus = {each: claims.get(each, 0) - part for each, part in parts.items()}
    in_order = sorted(weights, key=lambda each: (-remainders[each], -surplus[each], each))
    for each in in_order[:left_over]:
        parts[each] += 1
    return parts


class _Standbys:
    """The standbys of tasks, one task after the other."""

    def __init__(
        self,
        members: Mapping[str, TaskMember],
        active: Mapping[TaskId, str],
        shares: dict[str, set[Task]],
        total: int,
    ) -> None:
        """`total` is how many standbys there shall be."""
        self._members = members
        self._active = active
        self._shares = shares
        self._had_standby = _holders(members, Role.STANDBY)
        self._had_active = _holders(members, Role.ACTIVE)
        self._most = -(-(len(active) + total) // len(members))
        """Tasks up to which a member is given a standby because it has the state already."""
        self._by_process = _by_process(members)
        self._loads = Counter(
            {each: sum(len(shares[m]) for m in found) for each, found in self._by_process.items()}
        )
        self._idle_processes = _Idlest(
            self._by_process, lambda each: self._loads[each] / len(self._by_process[each])
        )
        self._idle_members = {
            process_id: _Idlest(found, lambda member_id: len(self._shares[member_id]))
            for process_id, found in self._by_process.items()
        }

    def place(self, task: TaskId, count: int) -> None:
        """Give a task so many standbys, or as many as there are further processes."""
        taken = {self._members[self._active[task]].process_id}
        wanted = 1 + count
        for member_id in (*self._had_standby.get(task, ()), *self._had_active.get(task, ())):
            process_id = self._members[member_id].process_id
            has_room = len(self._shares[member_id]) < self._most
            if len(taken) < wanted and process_id not in taken and has_room:
                self._give(task, member_id, taken)
        while len(taken) < min(wanted, len(self._by_process)):
            process_id = self._idle_processes.next(taken)
            self._give(task, self._idle_members[process_id].next(), taken)

    def _give(self, task: TaskId, member_id: str, taken: set[str]) -> None:
        process_id = self._members[member_id].process_id
        taken.add(process_id)
        self._loads[process_id] += 1
        self._shares[member_id].add((Role.STANDBY, *task))


class _Idlest:
    """Who has least to do, where loads only ever grow."""

    def __init__(self, names: Iterable[str], load: Callable[[str], float]) -> None:
        self._load = load
        self._heap = [(load(name), name) for name in names]
        heapq.heapify(self._heap)

    def next(self, without: Collection[str] = ()) -> str:
        """The one with the least load; not all may be left out."""
        left_out = []
        while True:
            load, name = self._heap[0]
            now = self._load(name)
            if load != now:
                heapq.heapreplace(self._heap, (now, name))
            elif name in without:
                left_out.append(heapq.heappop(self._heap))
            else:
                break
        for each in left_out:
            heapq.heappush(self._heap, each)
        return name
