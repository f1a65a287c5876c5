"""Which nodes hold the replicas of a new partition.

Leaders and replicas are spread by what nodes hold already, least first; replicas of a partition are
on different racks as far as there are racks; and the second replicas of one leader's partitions are
spread too, so that its death is shared by the others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from goqueue.cluster.records import PartitionRecord
from goqueue.model.errors import InvalidAssignmentError, InvalidReplicationError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from goqueue.cluster.view import ClusterView


class Candidate(NamedTuple):
    """A node that may hold replicas."""

    node_id: int
    is_active: bool = True
    """One that is away is taken only where there are too few others."""
    rack: str | None = None
    leader_count: int = 0
    replica_count: int = 0


def candidates(
    active: Collection[int],
    known: Collection[int],
    racks: dict[int, str | None],
    records: Iterable[PartitionRecord],
) -> list[Candidate]:
    """Every known node with what it holds now."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for record in records:
        leaders[record.preferred] += 1
        replicas.update(record.replicas)
    return [
        Candidate(each, each in active, racks.get(each), leaders[each], replicas[each])
        for each in sorted({*active, *known})
    ]


def place(
    nodes: Sequence[Candidate], partition_count: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """The nodes of each partition, its preferred leader first.

    Raises:
        InvalidReplicationError: there are fewer nodes than replicas, or no replicas are wanted.
    """
    if not 1 <= replication_factor <= len(nodes):
        raise InvalidReplicationError(
            f"a replication factor of {replication_factor} in a cluster of {len(nodes)} nodes: "
            f"ask for 1 to {len(nodes)} replicas, or add nodes"
        )
    placer = _Placer(nodes)
    return [placer.next(replication_factor) for _ in range(partition_count)]


class _Placer:
    """Hands out nodes one partition after the other."""

    def __init__(self, nodes: Sequence[Candidate]) -> None:
        self._nodes = {each.node_id: each for each in nodes}
        self._leaders = Counter({each.node_id: each.leader_count for each in nodes})
        self._replicas = Counter({each.node_id: each.replica_count for each in nodes})
        self._seconds: Counter[tuple[int, int]] = Counter()
        """How often a node is first in line after a leader."""

    def next(self, replication_factor: int) -> tuple[int, ...]:
        leader = min(self._nodes, key=self._leader_rank)
        chosen = [leader]
        while len(chosen) < replication_factor:
            left = [each for each in self._nodes if each not in chosen]
            racks = {self._nodes[each].rack for each in chosen}
            chosen.append(min(left, key=lambda each: self._follower_rank(each, leader, racks)))
        self._leaders[leader] += 1
        self._replicas.update(chosen)
        if len(chosen) > 1:
            self._seconds[leader, chosen[1]] += 1
        return tuple(chosen)

    def _leader_rank(self, node_id: int) -> tuple[bool, int, int, int]:
        away = not self._nodes[node_id].is_active
        return away, self._leaders[node_id], self._replicas[node_id], node_id

    def _follower_rank(
        self, node_id: int, leader: int, racks: Collection[str | None]
    ) -> tuple[bool, bool, int, int, int]:
        node = self._nodes[node_id]
        is_same_rack = node.rack is not None and node.rack in racks
        seconds = self._seconds[leader, node_id]
        return not node.is_active, is_same_rack, self._replicas[node_id], seconds, node_id


def check_assignments(
    assignments: Sequence[Sequence[int]], known: Collection[int], new_count: int | None = None
) -> None:
    """Take replicas on nodes that exist, one list a partition, all of one length.

    Raises:
        InvalidAssignmentError: a node is unknown or named twice, a list is empty or of another
            length, or there are not `new_count` lists.
    """
    if new_count is not None and len(assignments) != new_count:
        raise InvalidAssignmentError(
            f"replicas are assigned for {len(assignments)} partitions and {new_count} are new: "
            "give one list of nodes for each new partition"
        )
    for partition, replicas in enumerate(assignments):
        named = list(replicas)
        if not named or len(named) != len(assignments[0]):
            raise InvalidAssignmentError(
                f"partition {partition} is assigned to nodes {named} and partition 0 to "
                f"{list(assignments[0])}: give every partition the same number of nodes, at least 1"
            )
        if len(set(named)) != len(named):
            raise InvalidAssignmentError(
                f"partition {partition} is assigned to nodes {named}: name each node once"
            )
        unknown = sorted(set(named).difference(known))
        if unknown:
            raise InvalidAssignmentError(
                f"partition {partition} is assigned to nodes {named} and there is no node "
                f"{unknown[0]}: the nodes are {sorted(known)}"
            )


def first_record(
    replicas: Sequence[int], view: ClusterView, min_isr: int
) -> PartitionRecord | None:
    """The record of a new partition: whoever is active is in sync; None when nobody is."""
    isr = tuple(each for each in replicas if view.is_active(each))
    if not isr:
        return None
    incarnation = view.nodes[isr[0]].incarnation
    return PartitionRecord(
        tuple(replicas), isr, isr[0], leader_incarnation=incarnation, min_isr=min_isr
    )
