"""Client quotas over Kafka's own requests: DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError, InvalidClientQuotaError
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    cluster,
)
from goqueue.quotas.client_quotas import Component
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.quotas.client_quotas import ClientQuota
    from goqueue.quotas.service import Quotas

_EXACTLY, _DEFAULT, _ANY = range(3)
_MATCH_TYPES: Final = (_EXACTLY, _DEFAULT, _ANY)
"""Exactly this name, the default, any that has a quota."""
_IP: Final = "ip"


def _unaltered(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    return {"entries": [_answer(entry, code, None) for entry in request.entries]}


class QuotasApi:
    """Shows and changes the quotas of users and client ids."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas

    @api(ApiKey.DESCRIBE_CLIENT_QUOTAS, right=cluster(DESCRIBE_CONFIGS))
    def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """The entities that a filter takes; one that makes no sense is refused as in Kafka."""
        objection = _filter_objection(request.components)
        if objection is not None:
            return {
                "error_code": ErrorCode.invalid_request,
                "error_message": objection,
                "entries": None,
            }
        wanted = [
            Component(each.entity_type, each.match_type == _ANY, _name(each))
            for each in request.components
        ]
        found = self._quotas.find(wanted, strict=request.strict)
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "entries": [_entry(each) for each in found],
        }

    @api(ApiKey.ALTER_CLIENT_QUOTAS, right=cluster(ALTER_CONFIGS), on_error=_unaltered)
    async def alter(self, ctx: RequestContext, request: Struct) -> Response:
        """One result for each entity; to remove what is not there is nothing to refuse."""
        return {
            "entries": [
                await self._altered(entry, dry=request.validate_only) for entry in request.entries
            ]
        }

    async def _altered(self, entry: Struct, *, dry: bool) -> dict[str, Any]:
        entity = {each.entity_type: each.entity_name for each in entry.entity}
        changes = {each.key: None if each.remove else each.value for each in entry.ops}
        try:
            if len(entity) < len(entry.entity) or len(changes) < len(entry.ops):
                raise InvalidClientQuotaError(
                    "an entity type or a quota is named twice: send each once"
                )
            planned = self._quotas.plan(entity, changes)
            if not dry:
                await self._quotas.put(planned)
        except GoQueueError as error:
            return _answer(entry, code_for(error), str(error))
        return _answer(entry, ErrorCode.none, None)


def _name(component: Struct) -> str | None:
    return component.match if component.match_type == _EXACTLY else None


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


def _entry(quota: ClientQuota) -> dict[str, Any]:
    return {
        "entity": [
            {"entity_type": kind, "entity_name": name} for kind, name in quota.entity.items()
        ],
        "values": [{"key": name, "value": value} for name, value in quota.values.items()],
    }


def _answer(entry: Struct, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "entity": [
            {"entity_type": each.entity_type, "entity_name": each.entity_name}
            for each in entry.entity
        ],
    }
