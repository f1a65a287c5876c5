"""The operations that a client may do, as the bit fields that some answers carry.

Bits are Kafka's numbers of operations: 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9
cluster action, 10 describe configs, 11 alter configs, 12 idempotent write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.rights import CLUSTER_NAME, OPERATIONS, ResourceType, Right

if TYPE_CHECKING:
    from goqueue.protocols.permissions import Permissions

NO_OPERATIONS: Final = -(1 << 31)
"""What Kafka answers when nobody asked."""


def _operations(may: Permissions, resource: ResourceType, name: str) -> int:
    return sum(
        1 << operation
        for operation in OPERATIONS[resource]
        if may.allows(Right(resource, operation), name)
    )


def topic_operations(may: Permissions, name: str, *, asked: bool | None) -> int:
    """What may be done to a topic."""
    return _operations(may, ResourceType.TOPIC, name) if asked else NO_OPERATIONS


def group_operations(may: Permissions, name: str, *, asked: bool | None) -> int:
    """What may be done to a group."""
    return _operations(may, ResourceType.GROUP, name) if asked else NO_OPERATIONS


def cluster_operations(may: Permissions, *, asked: bool | None) -> int:
    """What may be done to the cluster."""
    return _operations(may, ResourceType.CLUSTER, CLUSTER_NAME) if asked else NO_OPERATIONS
