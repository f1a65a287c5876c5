"""Which nodes the replicas of partitions may be assigned to, and which were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvalidAssignmentError, InvalidReplicationError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Replication(NamedTuple):
    """What was asked for of the replicas of new partitions; one node holds the only one of each."""

    factor: int | None = None
    """How many there shall be; None is what the broker does by itself."""
    assignments: Sequence[Sequence[int]] | None = None
    """The nodes of each new partition, the preferred leader first; None leaves them to the
    broker."""


ANYWHERE: Final = Replication()


def check_factor(factor: int | None) -> None:
    """Let a node on its own hold the only replica.

    Raises:
        InvalidReplicationError: more are wanted, or none.
    """
    if factor not in {None, 1}:
        raise InvalidReplicationError(f"replication factor {factor}, and there is 1 broker")


def check_assignments(
    assignments: Sequence[Sequence[int]], node_id: int, new_count: int | None = None
) -> None:
    """Let replicas be on nodes that exist, one list a partition.

    Raises:
        InvalidAssignmentError: a node does not exist, or there are not `new_count` lists.
    """
    if new_count is not None and len(assignments) != new_count:
        raise InvalidAssignmentError(
            f"replicas are assigned for {len(assignments)} partitions and {new_count} are new: "
            "give one list of nodes for each new partition"
        )
    for replicas in assignments:
        if list(replicas) != [node_id]:
            raise InvalidAssignmentError(
                f"replicas are assigned to nodes {list(replicas)} and the only node is {node_id}: "
                f"assign each partition to [{node_id}]"
            )
