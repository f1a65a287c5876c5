"""What the audit log says of one request, whichever protocol it came by.

A request of a client that is not known is an `auth_failure`, with a key or a token that has expired
an `auth_expired`, one that its client has no right for
is an `acl_denied`, whatever was asked for. Any other is the event of its request, if it has one.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from goqueue.audit.events import Event, Outcome
from goqueue.model.errors import AuthenticationFailedError, AuthorizationFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.audit.access_trail import AccessTrail
    from goqueue.audit.log import AuditLog
    from goqueue.protocols.permissions import Permissions


class Answered(Enum):
    """How a request was answered."""

    SERVED = auto()
    REFUSED = auto()
    """For a reason other than these two."""
    UNKNOWN_CLIENT = auto()
    EXPIRED = auto()
    """Its client was known by a key or a token that has expired."""
    FORBIDDEN = auto()


def answered_with(error: BaseException | None) -> Answered:
    """How a request was answered whose handler raised this."""
    if isinstance(error, AuthenticationFailedError):
        return Answered.EXPIRED if error.is_expired else Answered.UNKNOWN_CLIENT
    if isinstance(error, AuthorizationFailedError):
        return Answered.FORBIDDEN
    return Answered.SERVED if error is None else Answered.REFUSED


def record_refused_receipts(
    trail: AccessTrail | None,
    may: Permissions,
    outcomes: Iterable[tuple[str, BaseException | None]],
) -> None:
    """Record receipts that were refused one by one, by a request that as a whole was not."""
    if trail is None:
        return
    for handle, error in outcomes:
        if isinstance(error, AuthorizationFailedError):
            topic = handle.partition(":")[0]
            trail.denied(may.principal.label, "READ", f"receipt:{topic}", may.host)


def record_request(
    audit: AuditLog,
    event: Event | None,
    how: Answered,
    *,
    principal: str,
    host: str,
    resource: str,
    request: str,
    request_id: str | None = None,
    reason: str | None = None,
    **details: object,
) -> None:
    """Record a request; `event` is what it does, None: only refusals of it are recorded."""
    if how is Answered.UNKNOWN_CLIENT:
        event, outcome = Event.AUTH_FAILURE, Outcome.FAILURE
    elif how is Answered.EXPIRED:
        event, outcome = Event.AUTH_EXPIRED, Outcome.FAILURE
    elif how is Answered.FORBIDDEN:
        event, outcome = Event.ACL_DENIED, Outcome.DENIED
    elif event is None:
        return
    else:
        outcome = Outcome.SUCCESS if how is Answered.SERVED else Outcome.FAILURE
    if reason is not None:
        details["reason"] = reason
    audit.record(
        event,
        principal=principal,
        host=host,
        resource=resource,
        outcome=outcome,
        request_id=request_id,
        request=request,
        **details,
    )
