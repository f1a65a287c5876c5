"""Which gRPC calls are in the audit log, in one table, and what is written of them.

A call is recorded by the node that its client has called, once it is answered. Refusals are
recorded for every call, also for those that change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import Message
from grpc import StatusCode

from goqueue.access.principals import ANONYMOUS
from goqueue.audit.events import Event
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.audit_trail import Answered, answered_with, record_request
from goqueue.protocols.grpc.peers import host_of
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.access.principals import Login
    from goqueue.audit.log import AuditLog
    from goqueue.model.errors import GoQueueError
    from goqueue.protocols.permissions import Permissions

_REQUEST_ID: Final = "x-request-id"


class Audited(NamedTuple):
    """What is written of the calls of one method."""

    event: Event
    kind: str
    """Of the resource, as in `topic:orders`."""
    name: str = ""
    """The field of the request that names the resource."""
    own: str = ""
    """The field with which it is what clients do with transactions of their own."""


_BY_SERVICE: Final[Mapping[str, Mapping[str, Audited]]] = {
    "AdminService": {
        "CreateTopic": Audited(Event.TOPIC_CREATED, "topic", "name"),
        "ConfigureTopic": Audited(Event.CONFIG_CHANGED, "topic", "name"),
        "GrowTopic": Audited(Event.PARTITIONS_ADDED, "topic", "name"),
        "DeleteTopic": Audited(Event.TOPIC_DELETED, "topic", "name"),
        "DeleteGroup": Audited(Event.GROUP_DELETED, "group", "name"),
        "ResumeMaintenance": Audited(Event.MAINTENANCE_RESUMED, "cluster"),
    },
    "TransactionService": {
        "AbortTransaction": Audited(
            Event.TRANSACTION_ABORTED, "transactional_id", "transactional_id", own="producer"
        ),
    },
    "OffsetService": {"ResetOffsets": Audited(Event.OFFSETS_RESET, "group", "group")},
}

AUDITED: Final[Mapping[str, Audited]] = {
    f"/{pb.DESCRIPTOR.package}.{service}/{method}": audited
    for service, methods in _BY_SERVICE.items()
    for method, audited in methods.items()
}
"""By the full name of the method. What clients do with messages, and with offsets and transactions
of their own, is not in it."""


class Call:
    """One call, as far as it has come."""

    __slots__ = ("context", "login", "may", "method", "request")

    def __init__(self, method: str, context: Any, request: Any) -> None:
        self.method = method
        self.context = context
        self.request = request
        """Its bytes, then the message; of a stream, what the messages come from."""
        self.login: Login | None = None
        """None before the client is known, and where another node knows more."""
        self.may: Permissions | None = None
        """None before the client is known."""


class CallTrail:
    """Writes down the calls of one node."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def served(self, call: Call) -> None:
        """Record a call that was answered, if it is one of those that are."""
        if call.method in AUDITED:
            self._record(call, Answered.SERVED)

    def refused(self, call: Call, error: GoQueueError) -> None:
        """Record a call that was not."""
        self._record(call, answered_with(error), str(error))

    def aborted(self, call: Call) -> None:
        """Record a call that was ended with a status: another node has refused it."""
        context = call.context
        is_right = context.code() is StatusCode.PERMISSION_DENIED
        how = Answered.FORBIDDEN if is_right else Answered.REFUSED
        self._record(call, how, context.details())

    def _record(self, call: Call, how: Answered, reason: str | None = None) -> None:
        context = call.context
        if not self._audit.is_on or hasattr(context, "sender"):
            return  # of a call that another node has forwarded, that node writes
        audited = AUDITED.get(call.method)
        if audited is not None and audited.own and _has(call.request, audited.own):
            audited = None
        metadata = dict(context.invocation_metadata() or ())
        record_request(
            self._audit,
            None if audited is None else audited.event,
            how,
            principal=(ANONYMOUS if call.may is None else call.may.principal).label,
            host=host_of(context.peer()),
            resource=_resource(call, audited),
            request=call.method,
            request_id=str(metadata.get(_REQUEST_ID, "")),
            reason=reason,
        )


def _has(request: Any, field: str) -> bool:
    return isinstance(request, Message) and request.HasField(field)


def _resource(call: Call, audited: Audited | None) -> str:
    if audited is None:
        return call.method
    name = getattr(call.request, audited.name, None) if audited.name else None
    return audited.kind if name is None else f"{audited.kind}:{name}"
