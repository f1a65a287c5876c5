"""Client quotas: none are set, and none can be, because nothing would enforce them.

Kafka's tools ask for quotas whenever they list users, so DescribeClientQuotas answers what a broker
without quotas answers. AlterClientQuotas refuses to store a limit that would not limit anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    cluster,
)
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_MATCH_TYPES: Final = range(3)
"""Exactly this name, the default, any that has a quota."""
_IP: Final = "ip"
_USER_QUOTAS: Final = frozenset(
    ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
)
_IP_QUOTAS: Final = frozenset(("connection_creation_rate",))
_ENTITIES: Final = frozenset(("user", "client-id", _IP))


def _unaltered(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    return {"entries": [_answer(entry, code, None) for entry in request.entries]}


class QuotasApi:
    """Shows that there are no quotas."""

    @api(ApiKey.DESCRIBE_CLIENT_QUOTAS, right=cluster(DESCRIBE_CONFIGS))
    def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """No entries; a filter that makes no sense is refused as in Kafka."""
        objection = _filter_objection(request.components)
        if objection is not None:
            return {
                "error_code": ErrorCode.invalid_request,
                "error_message": objection,
                "entries": None,
            }
        return {"error_code": ErrorCode.none, "error_message": None, "entries": []}

    @api(ApiKey.ALTER_CLIENT_QUOTAS, right=cluster(ALTER_CONFIGS), on_error=_unaltered)
    def alter(self, ctx: RequestContext, request: Struct) -> Response:
        """One result for each entity: to remove what is not there is nothing to refuse."""
        return {"entries": [_altered(entry) for entry in request.entries]}


def _filter_objection(components: list[Struct]) -> str | None:
    kinds = [each.entity_type for each in components]
    if len(set(kinds)) < len(kinds):
        return "an entity type is named twice in the filter"
    for each in components:
        if not each.entity_type:
            return "the filter has an empty entity type"
        if each.match_type not in _MATCH_TYPES:
            return f"match type {each.match_type} of {each.entity_type!r}, expected 0 to 2"
    if _IP in kinds and len(kinds) > 1:
        return "a filter for 'ip' cannot be combined with others"
    return None


def _altered(entry: Struct) -> dict[str, Any]:
    kinds = {each.entity_type for each in entry.entity}
    code, message = ErrorCode.none, None
    known = _IP_QUOTAS if kinds == {_IP} else _USER_QUOTAS
    unknown = sorted({each.key for each in entry.ops} - known)
    if not kinds or not kinds <= _ENTITIES or (_IP in kinds and len(kinds) > 1):
        code, message = ErrorCode.invalid_request, f"there are no quotas of {sorted(kinds)}"
    elif unknown:
        code, message = ErrorCode.invalid_request, f"there is no quota {unknown[0]!r}"
    elif not all(each.remove for each in entry.ops):
        code = ErrorCode.policy_violation
        message = "this broker does not enforce client quotas, and stores none"
    return _answer(entry, code, message)


def _answer(entry: Struct, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "entity": [
            {"entity_type": each.entity_type, "entity_name": each.entity_name}
            for each in entry.entity
        ],
    }
