"""A view of a cluster, made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.cluster.metadata import Change, Revision
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
from goqueue.cluster.view import ClusterView

if TYPE_CHECKING:
    from uuid import UUID

    import msgspec

LISTENER = "PLAINTEXT"


class MadeView:
    """A view that a test changes as the store would."""

    def __init__(self, *node_ids: int) -> None:
        """Nodes with these ids are active; the first is the controller."""
        self.view = ClusterView()
        for node_id in node_ids:
            self.register(node_id)
        if node_ids:
            self.put(CONTROLLER, ControllerRecord(node_ids[0], 1, 1))

    def put(self, key: str, record: msgspec.Struct | None) -> None:
        """What a transaction of one key does; without a record the key goes."""
        value = None if record is None else encode(record)
        revision = Revision(self.view.revision + 1)
        self.view.apply(revision, [Change(key, value)])

    def register(self, node_id: int, state: NodeState = NodeState.ACTIVE) -> None:
        """A node registers, reached at `host<id>:909<id>`."""
        listeners = {LISTENER: NodeAddress(f"host{node_id}", 9090 + node_id)}
        internal = NodeAddress(f"host{node_id}", 7000)
        record = NodeRecord(
            f"node-{node_id}", f"f{node_id}", state, internal, listeners, rack=f"rack-{node_id}"
        )
        self.put(node_key(node_id), record)

    def leave(self, node_id: int) -> None:
        """The session of a node ends."""
        self.put(node_key(node_id), None)

    def fence(self, node_id: int) -> None:
        """The controller takes a node for dead."""
        self.put(fence_key(node_id), Fence(self.view.nodes[node_id].incarnation))

    def place(self, topic_id: UUID, number: int, record: PartitionRecord) -> None:
        """A partition has this record."""
        self.put(str(PartitionKey(topic_id, number)), record)
