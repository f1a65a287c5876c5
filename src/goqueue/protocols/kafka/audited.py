"""Which Kafka requests are in the audit log, in one table, and what is written of them.

Every result of a request is an event: CreateTopics with three topics is three. Logins are recorded
where they happen (`access/sasl.py`), refusals of every API where a right is asked for
(`Permissions.permits`), and what other nodes forward, by the node that forwards.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from goqueue.audit.events import Event
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.audit_trail import Answered, record_request
from goqueue.protocols.kafka.registry import ApiKey, Endpoint, Registry
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.frames import Encoded
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from goqueue.audit.log import AuditLog
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.frames import Response

logger = logging.getLogger(__name__)

_DENIED: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
_CONFIG_KINDS: Final = {2: "topic", 4: "broker", 8: "broker", 32: "group"}
"""Kafka's numbers of what has settings."""


class Audited(NamedTuple):
    """What is written of the requests of one API."""

    event: Event
    kind: str
    """Of the resource, as in `topic:orders`."""
    results: str = ""
    """The array of the answer that has a result for each resource; without it there is one."""
    name: str = ""
    """The field of a result, or else of the request, that names the resource."""


AUDITED: Final[Mapping[ApiKey, Audited]] = {
    ApiKey.CREATE_TOPICS: Audited(Event.TOPIC_CREATED, "topic", "topics", "name"),
    ApiKey.DELETE_TOPICS: Audited(Event.TOPIC_DELETED, "topic", "responses", "name"),
    ApiKey.CREATE_PARTITIONS: Audited(Event.PARTITIONS_ADDED, "topic", "results", "name"),
    ApiKey.DELETE_RECORDS: Audited(Event.RECORDS_DELETED, "topic", "topics", "name"),
    ApiKey.ALTER_CONFIGS: Audited(Event.CONFIG_CHANGED, "", "responses", "resource_name"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Audited(
        Event.CONFIG_CHANGED, "", "responses", "resource_name"
    ),
    ApiKey.DELETE_GROUPS: Audited(Event.GROUP_DELETED, "group", "results", "group_id"),
    ApiKey.OFFSET_DELETE: Audited(Event.OFFSETS_DELETED, "group", "", "group_id"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Audited(Event.OFFSETS_RESET, "group", "", "group_id"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Audited(Event.OFFSETS_DELETED, "group", "", "group_id"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Audited(Event.USER_CHANGED, "user", "results", "user"),
    ApiKey.CREATE_ACLS: Audited(Event.ACL_ADDED, "acl", "results"),
    ApiKey.DELETE_ACLS: Audited(Event.ACL_REMOVED, "acl", "filter_results"),
    ApiKey.ALTER_CLIENT_QUOTAS: Audited(Event.CONFIG_CHANGED, "quota", "entries"),
    ApiKey.ELECT_LEADERS: Audited(Event.LEADERS_ELECTED, "cluster"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Audited(Event.REPLICAS_REASSIGNED, "cluster"),
    ApiKey.WRITE_TXN_MARKERS: Audited(Event.TRANSACTION_ABORTED, "cluster"),
}
"""What clients do with messages, offsets and transactions of their own is not in it."""


def audit_requests(registry: Registry, audit: AuditLog) -> None:
    """Record the requests of the table, where there is an audit log."""
    if not audit.is_on:
        return
    for (key, version), endpoint in list(registry.endpoints.items()):
        audited = AUDITED.get(ApiKey(key)) if key in AUDITED else None
        if audited is not None:
            registry.endpoints[key, version] = _recorded(endpoint, audited, audit)


def _recorded(endpoint: Endpoint, audited: Audited, audit: AuditLog) -> Endpoint:
    handler: Callable[[RequestContext, Any], Any] = endpoint.handler

    async def handle(ctx: RequestContext, request: Any) -> Response | None:
        answer = handler(ctx, request)
        if hasattr(answer, "__await__"):
            answer = await answer
        if ctx.peer.session.node is None:
            try:
                for each in _results(ctx, audited, answer):
                    _record(audit, ctx, audited, request, each)
            except Exception:  # what was done is done: the client gets its answer
                logger.exception("%s is not in the audit log", endpoint.spec.key.name)
        found: Response | None = answer
        return found

    return Endpoint(endpoint.spec, handle, endpoint.straight)


def _results(ctx: RequestContext, audited: Audited, answer: Any) -> Iterable[Any]:
    if isinstance(answer, Encoded):
        schema = schema_of(ctx.api_key, ctx.version, "response")
        answer = reader_of(schema)(Cursor(memoryview(b"".join(answer.parts))))
    if not audited.results:
        return [answer]
    refused = (ctx.refused or {}).get(audited.results, ())
    return [*(_field(answer, audited.results) or ()), *refused]


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def _record(
    audit: AuditLog, ctx: RequestContext, audited: Audited, request: Any, result: Any
) -> None:
    code = ErrorCode(_field(result, "error_code") or 0)
    if code in _DENIED:
        return  # written down where the right was asked for, as for every API
    how = Answered.SERVED if code is ErrorCode.none else Answered.REFUSED
    kind = audited.kind or _CONFIG_KINDS.get(_field(result, "resource_type"), "config")
    name = None
    if audited.name:
        name = _field(result, audited.name) or _field(request, audited.name)
    said = _field(result, "error_message")
    record_request(
        audit,
        audited.event,
        how,
        principal=ctx.peer.session.principal.label,
        host=ctx.client_host,
        resource=kind if name is None else f"{kind}:{name}",
        request_id=str(ctx.correlation_id),
        request=ApiKey(ctx.api_key).name,
        client_id=ctx.client_id,
        dry_run=bool(_field(request, "validate_only")),
        reason=None if code is ErrorCode.none else said or code.name,
    )
