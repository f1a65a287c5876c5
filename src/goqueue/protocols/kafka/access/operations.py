"""The operations that a client may do, as the bit fields that some answers carry.

There is no authorizer, so everybody may do everything that can be done to a resource. Bits are
Kafka's numbers of operations: 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster
action, 10 describe configs, 11 alter configs, 12 idempotent write.
"""

from __future__ import annotations

from typing import Final

NO_OPERATIONS: Final = -(1 << 31)
"""What Kafka answers when nobody asked."""

_TOPIC: Final = (3, 4, 5, 6, 7, 8, 10, 11)
_GROUP: Final = (3, 6, 8, 10, 11)
_CLUSTER: Final = (5, 7, 8, 9, 10, 11, 12)


def _bits(operations: tuple[int, ...]) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(_TOPIC)
_GROUP_OPERATIONS: Final = _bits(_GROUP)
_CLUSTER_OPERATIONS: Final = _bits(_CLUSTER)


def topic_operations(*, asked: bool | None) -> int:
    """What may be done to a topic."""
    return TOPIC_OPERATIONS if asked else NO_OPERATIONS


def group_operations(*, asked: bool | None) -> int:
    """What may be done to a group."""
    return _GROUP_OPERATIONS if asked else NO_OPERATIONS


def cluster_operations(*, asked: bool | None) -> int:
    """What may be done to the cluster."""
    return _CLUSTER_OPERATIONS if asked else NO_OPERATIONS
