"""Views of a cluster for tests of the cores."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

from goqueue.cluster.metadata import Change, Entry, Revision
from goqueue.cluster.records import (
    CONTROLLER,
    ControllerRecord,
    Fence,
    NodeAddress,
    NodeRecord,
    NodeState,
    PartitionKey,
    PartitionRecord,
    encode,
    fence_key,
    node_key,
)
from goqueue.cluster.view import ClusterView, Stored

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from goqueue.cluster.proposals import Proposal

KEY = PartitionKey(UUID(int=7), 0)


def tokens() -> Callable[[], str]:
    """Tokens that can be told from each other in a test."""
    numbers = count(1)
    return lambda: f"t{next(numbers)}"


class ViewMaker:
    """A view, and the store that it shows: every change gets the next revision."""

    def __init__(self, *nodes: int) -> None:
        self.view = ClusterView()
        self.entries: dict[str, Entry] = {}
        for node_id in nodes:
            self.node(node_id)

    def put(self, key: str, record: msgspec.Struct | None) -> Revision:
        """Change a key."""
        revision = Revision(self.view.revision + 1)
        value = None if record is None else encode(record)
        self.view.apply(revision, [Change(key, value)])
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = Entry(key, value, revision)
        return revision

    def node(
        self,
        node_id: int,
        state: NodeState = NodeState.ACTIVE,
        *,
        is_clean: bool = True,
        incarnation: int = 0,
    ) -> int:
        """Register a node; returns its incarnation."""
        address = NodeAddress("node", 1)
        record = NodeRecord(
            f"node-{node_id}", "folder", state, address, {}, incarnation, is_clean=is_clean
        )
        revision = self.put(node_key(node_id), record)
        return incarnation or revision

    def gone(self, node_id: int) -> None:
        """The node's session has ended."""
        self.put(node_key(node_id), None)

    def fence(self, node_id: int) -> None:
        """Take a node for dead."""
        self.put(fence_key(node_id), Fence(self.view.nodes[node_id].incarnation))

    def control(self, node_id: int, epoch: int = 1) -> Revision:
        """Make a node the controller."""
        incarnation = self.view.nodes[node_id].incarnation
        return self.put(CONTROLLER, ControllerRecord(node_id, epoch, incarnation))

    def partition(
        self,
        isr: tuple[int, ...] = (1, 2, 3),
        leader: int | None = 1,
        key: PartitionKey = KEY,
        **rest: object,
    ) -> Stored[PartitionRecord]:
        """Store the record of a partition of nodes 1, 2 and 3."""
        rest.setdefault("replicas", (1, 2, 3))
        rest.setdefault("min_isr", 2)
        if leader is not None and leader in self.view.nodes:
            rest.setdefault("leader_incarnation", self.view.nodes[leader].incarnation)
        record = PartitionRecord(isr=isr, leader=leader, **rest)  # type: ignore[arg-type]
        self.put(str(key), record)
        return self.view.partitions[key]

    def conflict(self, proposal: Proposal) -> dict[str, Entry | None]:
        """What the store answers when a condition of a proposal does not hold."""
        return {each.key: self.entries.get(each.key) for each in proposal.conditions}
