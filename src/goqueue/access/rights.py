"""What may be allowed or denied: an operation on a kind of resource. Numbers are Kafka's."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from goqueue.model.tuples import NamedTuple


class ResourceType(IntEnum):
    """What a rule is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    TENANT = 100
    """Of GoQueue alone: Kafka's clients do not know it, and are not shown rules about it."""


class Operation(IntEnum):
    """What a client wants to do."""

    ALL = 2
    """In a rule: any of the others."""
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class PatternType(IntEnum):
    """How a rule names its resources."""

    LITERAL = 3
    """By the whole name; `*` is every name."""
    PREFIXED = 4


class Right(NamedTuple):
    """What a handler needs."""

    resource: ResourceType
    operation: Operation


CLUSTER_NAME: Final = "kafka-cluster"
"""What Kafka calls the one resource of the kind `CLUSTER`."""
ANY_NAME: Final = "*"

IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Which further operations, when they are allowed, allow this one, as in Kafka. A denied operation
denies no other."""

_OF_ALL: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
OPERATIONS: Final = {
    ResourceType.TOPIC: (*_OF_ALL, Operation.WRITE, Operation.CREATE, Operation.ALTER),
    ResourceType.GROUP: _OF_ALL,
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    ResourceType.TENANT: (
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
}
"""What can be done to each kind of resource, as in Kafka; a rule that names another operation is
refused. `ALL` is always possible."""
