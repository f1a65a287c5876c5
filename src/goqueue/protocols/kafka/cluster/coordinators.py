"""FindCoordinator: which node coordinates a group or a transactional id. On one node, this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.turns import Each, encode_in_turns
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.protocols.kafka.settings import Address

_BATCHED_FROM: Final = 4
_KEY_TYPES: Final = frozenset({0, 1, 2})
"""Groups, transactional ids, and partitions of share groups."""


class CoordinatorsApi:
    """Sends everyone back here."""

    def __init__(self, broker: Broker, advertised: Mapping[str, Address]) -> None:
        self._broker = broker
        self._advertised = advertised

    @api(ApiKey.FIND_COORDINATOR)
    async def find_coordinator(self, ctx: RequestContext, request: Struct) -> Response:
        """One answer for each key that was asked for, however often it was."""
        if request.key_type not in _KEY_TYPES:
            return await self._refused(ctx, request)
        address = self._advertised[ctx.listener_name]
        here: dict[str, Any] = {
            "error_code": ErrorCode.none,
            "error_message": None,
            "node_id": self._broker.settings.node_id,
            "host": address.host,
            "port": address.port,
        }
        if ctx.version < _BATCHED_FROM:
            return here
        return await _for_each_key(ctx, request, here)

    async def _refused(self, ctx: RequestContext, request: Struct) -> Response:
        nowhere: dict[str, Any] = {
            "error_code": ErrorCode.invalid_request,
            "error_message": f"key type {request.key_type}, expected 0 (group), 1 (transaction) "
            "or 2 (share)",
            "node_id": -1,
            "host": "",
            "port": -1,
        }
        if ctx.version < _BATCHED_FROM:
            return nowhere
        return await _for_each_key(ctx, request, nowhere)


async def _for_each_key(ctx: RequestContext, request: Struct, answer: dict[str, Any]) -> Response:
    keys = list(dict.fromkeys(request.coordinator_keys))
    return await encode_in_turns(
        ctx, {"coordinators": Each(keys, lambda key: {**answer, "key": key})}
    )
