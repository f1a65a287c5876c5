"""Settings of groups in a cluster: kept where the group is coordinated, and asked for there.

Administrators may ask any node. It passes the group on, once: a node that is asked by another one
answers for itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError
from goqueue.protocols.kafka.configs.entries import GROUP
from goqueue.protocols.kafka.errors import code_for
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.reading import Struct

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext

_WITHIN_S: Final = 5.0
"""How long a group may be on its way to another coordinator; then the answer says so."""
_PAUSE_S: Final = 0.1
_DESCRIBE: Final = 4
_ALTER: Final = {
    True: (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1),
    False: (ApiKey.ALTER_CONFIGS, 2),
}
_MOVING: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)


class GroupForwarding:
    """Asks the coordinators of groups for what a client has asked this node."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups
        self._routes = broker.routes

    async def described(
        self, ctx: RequestContext, request: Struct
    ) -> dict[tuple[int, str], dict[str, Any]]:
        """The settings of those groups of a request that other nodes coordinate."""
        found: dict[tuple[int, str], dict[str, Any]] = {}
        if ctx.peer.session.node is not None:
            return found
        for resource in request.resources:
            answer = await self._asked(
                resource,
                ApiKey.DESCRIBE_CONFIGS,
                _DESCRIBE,
                include_synonyms=request.include_synonyms,
                include_documentation=request.include_documentation,
            )
            if answer is not None:
                found[resource.resource_type, resource.resource_name] = answer
        return found

    async def altered(
        self, ctx: RequestContext, resource: Struct, *, incremental: bool, dry: bool
    ) -> dict[str, Any] | None:
        """What came of changes at the coordinator; None when this node is to make them."""
        if ctx.peer.session.node is not None:
            return None
        return await self._asked(resource, *_ALTER[incremental], validate_only=dry)

    async def _asked(
        self, resource: Struct, api: ApiKey, version: int, **fields: Any
    ) -> dict[str, Any] | None:
        if resource.resource_type != GROUP:
            return None
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _WITHIN_S
        while True:
            try:
                node_id = self._groups.coordinator_of(resource.resource_name)
                if node_id == self._routes.node_id:
                    return None
                asked = await self._routes.peers.ask(
                    node_id, api, version, resources=[_plain(resource)], **fields
                )
                (told,) = asked.results if api is ApiKey.DESCRIBE_CONFIGS else asked.responses
                answer: dict[str, Any] = _plain(told)
            except GoQueueError as error:
                if not error.retriable:
                    raise
                answer = {"error_code": code_for(error), "error_message": str(error)}
            if answer["error_code"] not in _MOVING or loop.time() > until_s:
                return {
                    "resource_type": resource.resource_type,
                    "resource_name": resource.resource_name,
                    "configs": [],
                    **answer,
                }
            await asyncio.sleep(_PAUSE_S)


def _plain(value: Any) -> Any:
    """A message that was read, as fields to be written."""
    if isinstance(value, Struct):
        return {name: _plain(each) for name, each in value.as_dict().items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
