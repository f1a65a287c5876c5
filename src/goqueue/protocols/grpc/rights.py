"""Which right a call needs, by its method; and what the client of the call at hand may do.

Names come from fields of the request, as those of `places.Field` do; of a stream, from each of its
messages. Where a service finds the names in what it looks up, it asks `caller()` itself, and the
table says so by `within`.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from goqueue.access.rights import CLUSTER_NAME, Operation, ResourceType, Right
from goqueue.protocols.grpc.places import Field
from goqueue.protocols.permissions import UNRESTRICTED, Permissions
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from google.protobuf.message import Message

CALLER: Final[ContextVar[Permissions]] = ContextVar("caller", default=UNRESTRICTED)
"""What the client of a call may do, for the task that answers it and those that this one starts."""


def caller() -> Permissions:
    """What the client of the call at hand may do."""
    return CALLER.get()


READ: Final = Operation.READ
WRITE: Final = Operation.WRITE
DELETE: Final = Operation.DELETE
ALTER: Final = Operation.ALTER
DESCRIBE: Final = Operation.DESCRIBE
ALTER_CONFIGS: Final = Operation.ALTER_CONFIGS

TOPIC_READ: Final = Right(ResourceType.TOPIC, READ)
TOPIC_WRITE: Final = Right(ResourceType.TOPIC, WRITE)
TOPIC_CREATE: Final = Right(ResourceType.TOPIC, Operation.CREATE)
TOPIC_DESCRIBE: Final = Right(ResourceType.TOPIC, DESCRIBE)
GROUP_DESCRIBE: Final = Right(ResourceType.GROUP, DESCRIBE)
ID_WRITE: Final = Right(ResourceType.TRANSACTIONAL_ID, WRITE)
ID_DESCRIBE: Final = Right(ResourceType.TRANSACTIONAL_ID, DESCRIBE)
CLUSTER_CREATE: Final = Right(ResourceType.CLUSTER, Operation.CREATE)
IDEMPOTENT_WRITE: Final = Right(ResourceType.CLUSTER, Operation.IDEMPOTENT_WRITE)


class Needs:
    """What a client must be allowed to do."""

    def __init__(self, *rights: Right, note: str = "") -> None:
        self.rights = rights
        self.note = note
        """What the rights alone do not tell, for the reference page."""

    def require(self, may: Permissions, request: Any) -> None:
        """Return if the client may send this request.

        Raises:
            AuthorizationFailedError: it may not.
        """

    def check(self, request: type[Message]) -> None:
        """Raise `ValueError` where it looks for what requests do not have."""

    def rows(self) -> Iterator[tuple[tuple[Right, ...], str]]:
        """For the reference page: rights of which one is needed, and of what."""
        yield self.rights, self.note


HEALTH: Final = Needs(note="no authentication, unless `auth.allow_health` is off")
"""What load balancers and orchestrators ask."""


def within(*rights: Right, note: str = "") -> Needs:
    """Rights that the service asks for itself, of what it finds."""
    return Needs(*rights, note=note)


class _Some(Needs):
    """A right on something that the service looks up, and to others is as if it did not exist."""

    def require(self, may: Permissions, request: Any) -> None:
        del request
        may.require_any(self.rights[0])


class _Named(Needs):
    """A right on what a field names; where it is left out, the service refuses the request."""

    def __init__(self, resource: ResourceType, operation: Operation, text: str) -> None:
        super().__init__(Right(resource, operation), note=f"`{text}`")
        array, _, name = text.partition("[].")
        self._field = Field(array)
        self._name = name
        """Of the elements of an array of messages."""

    def require(self, may: Permissions, request: Any) -> None:
        for name in self._names(request):
            may.require(self.rights[0], name)

    def _names(self, request: Any) -> Iterable[str]:
        found = self._field(request)
        if found is None:
            return ()
        if isinstance(found, str):
            return (found,)
        return [getattr(each, self._name) for each in found] if self._name else found

    def check(self, request: type[Message]) -> None:
        self._field.check(request)


def topic(operation: Operation, text: str = "topic") -> Needs:
    """A right on the topics that a field names."""
    return _Named(ResourceType.TOPIC, operation, text)


class _OptionalGroup(_Named):
    """A right on a group that may be left out: the service asks for that of each receipt then."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(ResourceType.GROUP, operation, "group")
        self.note = "`group`; without it, that of each receipt"

    def _names(self, request: Any) -> Iterable[str]:
        return [name for name in super()._names(request) if name]


def group(operation: Operation, text: str = "group") -> Needs:
    """A right on the group that a field names."""
    return _Named(ResourceType.GROUP, operation, text)


def transactional_id(operation: Operation) -> Needs:
    """A right on the transactional id of a request."""
    return _Named(ResourceType.TRANSACTIONAL_ID, operation, "transactional_id")


class _OnCluster(Needs):
    def require(self, may: Permissions, request: Any) -> None:
        del request
        may.require(self.rights[0], CLUSTER_NAME)


def cluster(operation: Operation) -> Needs:
    """A right on the cluster."""
    return _OnCluster(Right(ResourceType.CLUSTER, operation))


class _All(Needs):
    def __init__(self, *needs: Needs) -> None:
        super().__init__(*(right for each in needs for right in each.rights))
        self._needs = needs

    def require(self, may: Permissions, request: Any) -> None:
        for each in self._needs:
            each.require(may, request)

    def check(self, request: type[Message]) -> None:
        for each in self._needs:
            each.check(request)

    def rows(self) -> Iterator[tuple[tuple[Right, ...], str]]:
        for each in self._needs:
            yield from each.rows()


_ACKNOWLEDGED: Final = _All(
    _OptionalGroup(READ),
    within(TOPIC_READ, note="each that a receipt names"),
)
_OWN: Final = _Some(ID_WRITE, note="of the producer")

_BY_SERVICE: Final[Mapping[str, Mapping[str, Needs]]] = {
    "PublishService": {
        "Publish": within(TOPIC_WRITE, note="`topic`"),
        "PublishStream": within(TOPIC_WRITE, note="`topic` of each request"),
        "InitProducer": cluster(Operation.IDEMPOTENT_WRITE),
    },
    "ConsumeService": {
        "Consume": topic(READ),
        "Subscribe": _All(group(READ, "join.group"), topic(READ, "join.topics")),
    },
    "AckService": dict.fromkeys(
        ("Ack", "Nack", "Reject", "ExtendVisibility", "BatchAck"), _ACKNOWLEDGED
    ),
    "OffsetService": {
        "CommitOffsets": _All(group(READ), topic(READ, "offsets[].topic")),
        "FetchOffsets": _All(
            group(DESCRIBE),
            topic(DESCRIBE, "partitions[].topic"),
            within(TOPIC_DESCRIBE, note="all offsets of a group are those that it covers"),
        ),
        "ResetOffsets": _All(group(READ), topic(READ)),
    },
    "TransactionService": {
        "InitProducer": transactional_id(WRITE),
        "Heartbeat": _OWN,
        "BeginTransaction": _OWN,
        "AddPartition": _All(_OWN, topic(WRITE)),
        "Publish": _All(_OWN, topic(WRITE)),
        "SendOffsets": _All(_OWN, group(READ), topic(READ, "offsets[].topic")),
        "CommitTransaction": _OWN,
        "AbortTransaction": _OWN,
        "ListTransactions": within(ID_DESCRIBE, note="the ids that it covers"),
        "DescribeTransaction": transactional_id(DESCRIBE),
    },
    "AdminService": {
        "CreateTopic": within(CLUSTER_CREATE, TOPIC_CREATE),
        "ListTopics": within(TOPIC_DESCRIBE, note="the topics that it covers"),
        "DescribeTopic": topic(DESCRIBE, "name"),
        "ConfigureTopic": topic(ALTER_CONFIGS, "name"),
        "GrowTopic": topic(ALTER, "name"),
        "DeleteTopic": topic(DELETE, "name"),
        "ListGroups": within(GROUP_DESCRIBE, note="the groups that it covers"),
        "DescribeGroup": group(DESCRIBE, "name"),
        "DeleteGroup": group(DELETE, "name"),
        "DescribeMaintenance": cluster(DESCRIBE),
        "ResumeMaintenance": cluster(ALTER),
    },
    "HealthService": {"Check": HEALTH, "Watch": HEALTH},
}

RIGHTS: Final[Mapping[str, Needs]] = {
    f"/{pb.DESCRIPTOR.package}.{service}/{method}": needs
    for service, methods in _BY_SERVICE.items()
    for method, needs in methods.items()
}
"""By the full name of the method, as gRPC writes it."""
