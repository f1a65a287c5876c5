"""Which requests of the HTTP API are in the audit log, in one table, and what is written of them.

A request is recorded by the node that its client has called, once it is answered. Refusals are
recorded for every route, also for those that change nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.principals import ANONYMOUS
from goqueue.access.tenants.namespace import namespace_of
from goqueue.audit.events import Event
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.audit_trail import Answered, answered_with, record_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.audit.log import AuditLog
    from goqueue.protocols.http.api.app import HttpApp
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.responses import Response, Stream
    from goqueue.protocols.http.api.router import Match

_OF_TENANTS: Final = frozenset({"topic", "group", "subject", "transactional_id"})
"""Kinds of resources that a tenant's client names without its id."""
_REFUSED: Final = 400
"""Statuses from here on refuse."""
_REFUSALS: Final = {401: Answered.UNKNOWN_CLIENT, 403: Answered.FORBIDDEN}


class Audited(NamedTuple):
    """What is written of the requests of one route."""

    event: Event
    kind: str
    """Of the resource, as in `topic:orders`."""
    name: str = ""
    """The field of the path, or else of the body, that names the resource."""


_SCHEMAS: Final[Mapping[tuple[str, str], Audited]] = {
    ("POST", "/subjects/{subject}/versions"): Audited(
        Event.SCHEMA_REGISTERED, "subject", "subject"
    ),
    ("DELETE", "/subjects/{subject}"): Audited(Event.SCHEMA_DELETED, "subject", "subject"),
    ("DELETE", "/subjects/{subject}/versions/{version}"): Audited(
        Event.SCHEMA_DELETED, "subject", "subject"
    ),
    ("PUT", "/config"): Audited(Event.SCHEMA_CONFIG_CHANGED, "registry"),
    ("DELETE", "/config"): Audited(Event.SCHEMA_CONFIG_CHANGED, "registry"),
    ("PUT", "/config/{subject}"): Audited(Event.SCHEMA_CONFIG_CHANGED, "subject", "subject"),
    ("DELETE", "/config/{subject}"): Audited(Event.SCHEMA_CONFIG_CHANGED, "subject", "subject"),
    ("PUT", "/mode"): Audited(Event.SCHEMA_CONFIG_CHANGED, "registry"),
    ("DELETE", "/mode"): Audited(Event.SCHEMA_CONFIG_CHANGED, "registry"),
    ("PUT", "/mode/{subject}"): Audited(Event.SCHEMA_CONFIG_CHANGED, "subject", "subject"),
    ("DELETE", "/mode/{subject}"): Audited(Event.SCHEMA_CONFIG_CHANGED, "subject", "subject"),
}

AUDITED: Final[Mapping[tuple[str, str], Audited]] = {
    ("POST", "/topics"): Audited(Event.TOPIC_CREATED, "topic", "name"),
    ("PATCH", "/topics/{topic}"): Audited(Event.CONFIG_CHANGED, "topic", "topic"),
    ("PUT", "/topics/{topic}"): Audited(Event.CONFIG_CHANGED, "topic", "topic"),
    ("DELETE", "/topics/{topic}"): Audited(Event.TOPIC_DELETED, "topic", "topic"),
    ("POST", "/topics/{topic}/partitions"): Audited(Event.PARTITIONS_ADDED, "topic", "topic"),
    ("POST", "/admin/topics/{topic}/partitions"): Audited(Event.PARTITIONS_ADDED, "topic", "topic"),
    ("DELETE", "/topics/{topic}/messages"): Audited(Event.RECORDS_DELETED, "topic", "topic"),
    ("POST", "/admin/topics/{topic}/compact"): Audited(Event.TOPIC_COMPACTED, "topic", "topic"),
    ("POST", "/admin/maintenance/resume"): Audited(Event.MAINTENANCE_RESUMED, "cluster"),
    ("POST", "/admin/tenants/{id}/usage/reset"): Audited(Event.CONFIG_CHANGED, "tenant", "id"),
    ("PUT", "/groups/{group}/settings"): Audited(Event.CONFIG_CHANGED, "group", "group"),
    ("DELETE", "/groups/{group}"): Audited(Event.GROUP_DELETED, "group", "group"),
    ("POST", "/groups/{group}/offsets/reset"): Audited(Event.OFFSETS_RESET, "group", "group"),
    ("POST", "/topics/{topic}/dlq/redrive"): Audited(Event.REDRIVE_STARTED, "topic", "topic"),
    ("DELETE", "/redrives/{id}"): Audited(Event.REDRIVE_CANCELLED, "redrive", "id"),
    ("DELETE", "/topics/{topic}/dlq"): Audited(Event.DEAD_LETTERS_PURGED, "topic", "topic"),
    ("POST", "/topics/{topic}/dlq/delete"): Audited(Event.DEAD_LETTERS_DELETED, "topic", "topic"),
    ("DELETE", "/topics/{topic}/delayed/{partition}/{offset}"): Audited(
        Event.DELAYED_CANCELLED, "topic", "topic"
    ),
    ("DELETE", "/pipelines/{name}"): Audited(Event.PIPELINE_DELETED, "pipeline", "name"),
    ("POST", "/transactions/abort"): Audited(
        Event.TRANSACTION_ABORTED, "transactional_id", "transactional_id"
    ),
    ("POST", "/transactions/abort-together"): Audited(
        Event.TRANSACTION_ABORTED, "transactional_id", "series"
    ),
    ("POST", "/session"): Audited(Event.AUTH_SUCCESS, "session"),
    ("DELETE", "/session"): Audited(Event.SIGNED_OUT, "session"),
    ("GET", "/session/oidc/callback"): Audited(Event.AUTH_SUCCESS, "session"),
    ("PUT", "/admin/users/{user}"): Audited(Event.USER_CHANGED, "user", "user"),
    ("DELETE", "/admin/users/{user}"): Audited(Event.USER_DELETED, "user", "user"),
    ("PUT", "/admin/users/{user}/roles"): Audited(Event.USER_CHANGED, "user", "user"),
    ("PUT", "/admin/roles/{role}"): Audited(Event.ROLE_CHANGED, "role", "role"),
    ("DELETE", "/admin/roles/{role}"): Audited(Event.ROLE_CHANGED, "role", "role"),
    ("GET", "/admin/keys"): Audited(Event.KEY_LISTED, "key"),
    ("POST", "/admin/keys"): Audited(Event.KEY_CREATED, "key", "name"),
    ("DELETE", "/admin/keys/{id}"): Audited(Event.KEY_REVOKED, "key", "id"),
    ("POST", "/admin/acls"): Audited(Event.ACL_ADDED, "acl"),
    ("DELETE", "/admin/acls/{id}"): Audited(Event.ACL_REMOVED, "acl", "id"),
    ("POST", "/admin/tenants"): Audited(Event.TENANT_CREATED, "tenant", "id"),
    ("PATCH", "/admin/tenants/{id}"): Audited(Event.TENANT_CHANGED, "tenant", "id"),
    ("PUT", "/admin/tenants/{id}/quotas"): Audited(Event.TENANT_CHANGED, "tenant", "id"),
    ("POST", "/admin/tenants/{id}/suspend"): Audited(Event.TENANT_SUSPENDED, "tenant", "id"),
    ("POST", "/admin/tenants/{id}/activate"): Audited(Event.TENANT_ACTIVATED, "tenant", "id"),
    ("POST", "/admin/tenants/{id}/disable"): Audited(Event.TENANT_DISABLED, "tenant", "id"),
    ("DELETE", "/admin/tenants/{id}"): Audited(Event.TENANT_DELETED, "tenant", "id"),
    ("POST", "/admin/backup"): Audited(Event.BACKUP_CREATED, "backup"),
    ("DELETE", "/admin/backup/{id}"): Audited(Event.BACKUP_DELETED, "backup", "id"),
    ("POST", "/admin/backup/prune"): Audited(Event.BACKUP_DELETED, "backup"),
    ("POST", "/admin/backup/{id}/restore"): Audited(Event.BACKUP_RESTORED, "backup", "id"),
    ("POST", "/admin/backup/{id}/verify"): Audited(Event.BACKUP_VERIFIED, "backup", "id"),
    ("PUT", "/admin/backup/schedule"): Audited(Event.BACKUP_SCHEDULED, "backup"),
    ("DELETE", "/admin/backup/schedule"): Audited(Event.BACKUP_SCHEDULED, "backup"),
    ("POST", "/admin/webhooks"): Audited(Event.WEBHOOK_CREATED, "webhook"),
    ("PATCH", "/admin/webhooks/{id}"): Audited(Event.WEBHOOK_CHANGED, "webhook", "id"),
    ("DELETE", "/admin/webhooks/{id}"): Audited(Event.WEBHOOK_DELETED, "webhook", "id"),
    ("POST", "/admin/webhooks/{id}/test"): Audited(Event.WEBHOOK_TESTED, "webhook", "id"),
    ("POST", "/admin/webhooks/{id}/redeliver"): Audited(Event.WEBHOOK_REDELIVERED, "webhook", "id"),
    **_SCHEMAS,
    **{(method, f"/schemas{path}"): each for (method, path), each in _SCHEMAS.items()},
}
"""By method and path. What clients do with messages, offsets and transactions of their own is not
in it: that is what tracing is for."""


class AuditTrail:
    """Writes down what clients of one node have asked for."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def answered(self, request: Request, match: Match, response: Response | Stream) -> None:
        """Record a request, if it is one of those that are."""
        if request.sender is not None:
            return  # the node that its client has called does
        route = match.endpoint.route
        audited = AUDITED.get((route.method, route.path))
        status = getattr(response, "status", 200)
        error = getattr(response, "error", None)
        how = answered_with(error)
        if how is not Answered.EXPIRED:
            how = _REFUSALS.get(status, how)
        if status >= _REFUSED and how is Answered.SERVED:  # another node has refused it
            how = Answered.REFUSED
        if audited is None and how in {Answered.SERVED, Answered.REFUSED}:
            return
        record_request(
            self._audit,
            None if audited is None else audited.event,
            how,
            principal=_principal(request),
            host=request.client_host,
            resource=_resource(audited, request, match),
            request_id=request.request_id,
            request=f"{route.method} {route.path}",
            status=status,
            reason=None if error is None else str(error),
        )


def _principal(request: Request) -> str:
    return ANONYMOUS.label if request.may is None else request.may.principal.label


def _resource(audited: Audited | None, request: Request, match: Match) -> str:
    if audited is None:
        return request.raw_path.decode("latin-1")
    named = getattr(match.path, audited.name, None) if audited.name else None
    if named is None and audited.name:
        with suppress(msgspec.MsgspecError, AttributeError, UnicodeDecodeError):
            named = msgspec.json.decode(request.body).get(audited.name)
    if named is None:
        return audited.kind
    tenant = None if request.may is None else request.may.principal.tenant
    if tenant is not None and audited.kind in _OF_TENANTS:
        named = namespace_of(tenant).inside(str(named))
    return f"{audited.kind}:{named}"


def audited_app(app: HttpApp, audit: AuditLog) -> HttpApp:
    """The same app, whose requests are recorded where there is an audit log."""
    if audit.is_on:
        trail, answer = AuditTrail(audit), app.answer

        async def recorded(request: Request, match: Match) -> Response | Stream:
            response = await answer(request, match)
            trail.answered(request, match, response)
            return response

        app.answer = recorded  # type: ignore[method-assign]  # no other server pays for it
    return app
