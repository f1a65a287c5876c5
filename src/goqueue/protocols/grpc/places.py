"""Which node of a cluster answers a call, by its method. One node answers everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.protocols.lookups import Lookup, group_lookup, transaction_lookup
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.protobuf.message import Message

    from goqueue.broker.broker import Broker


class Place:
    """The node that was asked: what it needs of others, its services fetch themselves."""

    async def locate(self, broker: Broker, request: Any) -> Lookup | None:
        """Where a request belongs; of a stream, its first one. None: wherever it was sent to."""
        del broker, request
        return None

    def check(self, request: type[Message]) -> None:
        """Raise `ValueError` where it looks for what requests do not have."""
        del request


LOCAL: Final = Place()


class Field:
    """A field of a request, such as `group` or `producer.producer_id`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._steps = text.split(".")

    def __call__(self, request: Any) -> Any:
        """Its value; None where it, or what it is in, is left out."""
        *parents, last = self._steps
        for step in parents:
            if not request.HasField(step):
                return None
            request = getattr(request, step)
        return getattr(request, last)

    def check(self, request: type[Message]) -> None:
        """Raise `ValueError` when requests have no such field."""
        kind: Any = request.DESCRIPTOR
        for step in self._steps:
            field = kind and kind.fields_by_name.get(step)
            if field is None:
                raise ValueError(f"{request.DESCRIPTOR.full_name} has no field {self._text}")
            kind = field.message_type


class Group(Place):
    """The coordinator of the group that a field names."""

    def __init__(self, text: str) -> None:
        self._name = Field(text)

    async def locate(self, broker: Broker, request: Any) -> Lookup | None:
        """The coordinator; it also refuses an empty name. A stream may not say its group first."""
        group_id = self._name(request)
        return None if group_id is None else group_lookup(broker, group_id)

    def check(self, request: type[Message]) -> None:
        """The field must be there."""
        self._name.check(request)


class Transaction(Place):
    """The coordinator of a transactional id, or of that of a producer where there is no id."""

    def __init__(self, name: str | None, producer: str | None = None) -> None:
        self._name = None if name is None else Field(name)
        self._producer = None if producer is None else Field(producer)

    async def locate(self, broker: Broker, request: Any) -> Lookup | None:
        """The coordinator of whichever the request names."""
        name = None if self._name is None else self._name(request)
        producer_id = None if self._producer is None else self._producer(request)
        if self._producer is not None:
            name = name or None  # which is found by the producer
        return await transaction_lookup(broker, name, producer_id)

    def check(self, request: type[Message]) -> None:
        """Both fields must be there."""
        for each in (self._name, self._producer):
            if each is not None:
                each.check(request)


Merge: TypeAlias = "Callable[[Sequence[Any]], Any]"
"""Puts the answers of nodes together; that of the node that was asked comes first."""


class Gather(Place):
    """Every node, each for its part."""

    def __init__(self, merge: Merge) -> None:
        self.merge = merge


def _all_groups(parts: Sequence[pb.ListGroupsResponse]) -> pb.ListGroupsResponse:
    found = {each.name: each for part in parts for each in part.groups}
    return pb.ListGroupsResponse(groups=(found[name] for name in sorted(found)))


def _all_transactions(
    parts: Sequence[pb.ListTransactionsResponse],
) -> pb.ListTransactionsResponse:
    found = {each.transactional_id: each for part in parts for each in part.transactions}
    return pb.ListTransactionsResponse(transactions=(found[name] for name in sorted(found)))


def _all_maintenance(parts: Sequence[pb.Maintenance]) -> pb.Maintenance:
    stopped = [each for each in parts if each.stopped]
    return max(stopped, key=lambda each: abs(each.clock_jump_ms)) if stopped else parts[0]


_PRODUCER: Final = "producer.producer_id"
_ID: Final = "transactional_id"

_BY_SERVICE: Final[Mapping[str, Mapping[str, Place]]] = {
    "PublishService": {"Publish": LOCAL, "InitProducer": LOCAL, "PublishStream": LOCAL},
    "ConsumeService": {"Consume": LOCAL, "Subscribe": Group("join.group")},
    "AckService": dict.fromkeys(("Ack", "Nack", "Reject", "ExtendVisibility", "BatchAck"), LOCAL),
    "OffsetService": {
        "CommitOffsets": Group("group"),
        "FetchOffsets": Group("group"),
        "ResetOffsets": Group("group"),
    },
    "TransactionService": {
        "InitProducer": Transaction(_ID),
        "Heartbeat": Transaction(_ID, _PRODUCER),
        "BeginTransaction": Transaction(_ID, _PRODUCER),
        "AddPartition": Transaction(None, _PRODUCER),
        "Publish": Transaction(None, _PRODUCER),
        "SendOffsets": Group("group"),
        "CommitTransaction": Transaction(_ID, _PRODUCER),
        "AbortTransaction": Transaction(_ID, _PRODUCER),
        "ListTransactions": Gather(_all_transactions),
        "DescribeTransaction": Transaction(_ID),
    },
    "AdminService": {
        "CreateTopic": LOCAL,
        "ListTopics": LOCAL,
        "DescribeTopic": LOCAL,
        "ConfigureTopic": LOCAL,
        "GrowTopic": LOCAL,
        "DeleteTopic": LOCAL,
        "ListGroups": Gather(_all_groups),
        "DescribeGroup": Group("name"),
        "DeleteGroup": Group("name"),
        "DescribeMaintenance": Gather(_all_maintenance),
        "ResumeMaintenance": Gather(_all_maintenance),
    },
    "HealthService": {"Check": LOCAL, "Watch": LOCAL},
}

PLACES: Final[Mapping[str, Place]] = {
    f"/{pb.DESCRIPTOR.package}.{service}/{method}": place
    for service, methods in _BY_SERVICE.items()
    for method, place in methods.items()
}
"""By the full name of the method, as gRPC writes it."""
