"""The cluster as one node sees it: the records of the metadata store, a moment old.

A view is never an argument for safety: it says what to try, and a compare-and-set on the revision
that it was read at decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from goqueue.cluster.metadata import Revision
from goqueue.cluster.records import (
    CONTROLLER,
    FENCES,
    MEMBERS,
    NODES,
    PARTITIONS,
    ControllerRecord,
    Fence,
    Member,
    NodeRecord,
    NodeState,
    PartitionKey,
    PartitionRecord,
    decode,
)
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.cluster.metadata import Change, Snapshot

_T = TypeVar("_T")


class Stored(NamedTuple, Generic[_T]):
    """A record, and the revision that a condition names to find it unchanged."""

    value: _T
    revision: Revision


class NodeView(NamedTuple):
    """A node that is registered."""

    node_id: int
    record: NodeRecord
    revision: Revision

    @property
    def incarnation(self) -> int:
        """Tells this run of the node from those before."""
        return self.record.incarnation or self.revision


class ClusterView:
    """Everything that is stored of nodes and partitions.

    Only `apply`, `clear` and `reset` change it.
    """

    def __init__(self) -> None:
        self.revision = Revision(0)
        """Everything up to here is in it."""
        self.nodes: dict[int, NodeView] = {}
        self.lapsed: dict[int, NodeView] = {}
        """The last registration of nodes that have none now and did not say that they stop."""
        self.fences: dict[int, Stored[Fence]] = {}
        self.members: dict[int, Stored[Member]] = {}
        self.controller: Stored[ControllerRecord] | None = None
        self.partitions: dict[PartitionKey, Stored[PartitionRecord]] = {}

    # --- Changing --------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget everything, to be told all of it anew: nodes that are not told have lapsed."""
        before = {**self.lapsed, **self.nodes}
        self.__init__()  # type: ignore[misc]  # as if it were new
        for node in before.values():
            self._lapse(node)

    def reset(self, snapshot: Snapshot) -> None:
        """Be what was read, and nothing else."""
        self.clear()
        for entry in snapshot.entries:
            self._put(entry.key, entry.value, entry.revision)
        self.revision = snapshot.revision

    def apply(self, revision: Revision, changes: Iterable[Change]) -> None:
        """Take in what one transaction has changed."""
        for change in changes:
            if change.value is None:
                self._remove(change.key)
            else:
                self._put(change.key, change.value, revision)
        self.revision = revision

    def _put(self, key: str, value: bytes, revision: Revision) -> None:
        if key.startswith(PARTITIONS):
            record = decode(value, PartitionRecord, key)
            self.partitions[PartitionKey.parse(key)] = Stored(record, revision)
        elif key.startswith(NODES):
            node_id = int(key.removeprefix(NODES))
            self.nodes[node_id] = NodeView(node_id, decode(value, NodeRecord, key), revision)
            self.lapsed.pop(node_id, None)
        elif key.startswith(FENCES):
            fence = Stored(decode(value, Fence, key), revision)
            self.fences[int(key.removeprefix(FENCES))] = fence
        elif key.startswith(MEMBERS):
            member = Stored(decode(value, Member, key), revision)
            self.members[int(key.removeprefix(MEMBERS))] = member
        elif key == CONTROLLER:
            self.controller = Stored(decode(value, ControllerRecord, key), revision)

    def _remove(self, key: str) -> None:
        if key.startswith(PARTITIONS):
            self.partitions.pop(PartitionKey.parse(key), None)
        elif key.startswith(NODES):
            gone = self.nodes.pop(int(key.removeprefix(NODES)), None)
            if gone is not None:
                self._lapse(gone)
        elif key.startswith(FENCES):
            self.fences.pop(int(key.removeprefix(FENCES)), None)
        elif key.startswith(MEMBERS):
            self.members.pop(int(key.removeprefix(MEMBERS)), None)
        elif key == CONTROLLER:
            self.controller = None

    def _lapse(self, node: NodeView) -> None:
        if node.record.state is NodeState.ACTIVE:
            self.lapsed[node.node_id] = node

    # --- Asking ----------------------------------------------------------------------------------

    def is_fenced(self, node_id: int) -> bool:
        """Whether the controller takes the present run of a node for dead."""
        node, fence = self.nodes.get(node_id), self.fences.get(node_id)
        return fence is not None and (node is None or fence.value.incarnation >= node.incarnation)

    def is_full(self, node_id: int) -> bool:
        """Whether a node's disk is too full for what it leads to be published to."""
        node = self.nodes.get(node_id)
        return node is not None and node.record.is_full

    def is_active(self, node_id: int) -> bool:
        """Whether a node may lead and enter in-sync sets."""
        node = self.nodes.get(node_id)
        return (
            node is not None
            and node.record.state is NodeState.ACTIVE
            and not self.is_fenced(node_id)
        )

    def is_alive(self, node_id: int) -> bool:
        """Whether a node is registered and not fenced; it may be starting or stopping."""
        return node_id in self.nodes and not self.is_fenced(node_id)

    def active(self) -> Iterator[NodeView]:
        """The nodes that may lead, by their ids."""
        return (self.nodes[each] for each in sorted(self.nodes) if self.is_active(each))

    def controller_id(self) -> int | None:
        """The node that decides, if it is alive."""
        if self.controller is None or not self.is_alive(self.controller.value.node):
            return None
        return self.controller.value.node
