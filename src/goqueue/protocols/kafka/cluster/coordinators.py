"""FindCoordinator: which node coordinates a group or a transactional id. On one node, this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import CoordinatorUnavailableError, GoQueueError
from goqueue.protocols.kafka.brokers import NONE, Brokers
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import GROUP_DESCRIBE, ID_DESCRIBE, code_of, within
from goqueue.protocols.kafka.turns import Each, encode_in_turns
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.protocols.permissions import Permissions

_BATCHED_FROM: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_KEY_TYPES: Final = frozenset({_GROUP, _TRANSACTION, _SHARE})
"""Groups, transactional ids, and partitions of share groups."""


class CoordinatorsApi:
    """Sends everyone to the leader of the partition that their state is in."""

    def __init__(self, broker: Broker, brokers: Brokers) -> None:
        self._broker = broker
        self._brokers = brokers

    @api(
        ApiKey.FIND_COORDINATOR,
        right=within(GROUP_DESCRIBE, ID_DESCRIBE, note="whichever is looked for, each"),
    )
    async def find_coordinator(self, ctx: RequestContext, request: Struct) -> Response:
        """One answer for each key that was asked for, however often it was."""
        find = self._permitted(ctx.may, request.key_type, self._finder(ctx, request.key_type))
        if ctx.version < _BATCHED_FROM:
            return find(request.key)
        keys = list(dict.fromkeys(request.coordinator_keys))
        return await encode_in_turns(
            ctx, {"coordinators": Each(keys, lambda key: {**find(key), "key": key})}
        )

    def _permitted(
        self, may: Permissions, key_type: int, find: Callable[[str], dict[str, Any]]
    ) -> Callable[[str], dict[str, Any]]:
        """`find` for keys that the client may describe."""
        if may.is_open or key_type not in _KEY_TYPES:
            return find
        right = ID_DESCRIBE if key_type == _TRANSACTION else GROUP_DESCRIBE
        text = f"{right.operation.name} is not allowed on this {right.resource.name.lower()}"
        refused = _nowhere(code_of(right), text)
        return lambda key: find(key) if may.permits(right, _owner(key_type, key)) else refused

    def _finder(self, ctx: RequestContext, key_type: int) -> Callable[[str], dict[str, Any]]:
        listener_name = ctx.listener_name
        if key_type not in _KEY_TYPES:
            refusal = _nowhere(
                ErrorCode.invalid_request,
                f"key type {key_type}, expected 0 (group), 1 (transaction) or 2 (share)",
            )
            return lambda _: refusal
        if self._brokers.is_cluster and key_type in {_GROUP, _TRANSACTION}:
            find = self._group if key_type == _GROUP else self._transaction
            return lambda key: self._found(find, key, listener_name)
        here = self._at(self._broker.settings.node_id, listener_name)
        return lambda _: here

    def _group(self, group_id: str) -> int:
        return self._broker.groups.coordinator_of(group_id)

    def _transaction(self, transactional_id: str) -> int:
        return self._broker.transactions.coordinator_of(transactional_id)

    def _found(self, find: Callable[[str], int], key: str, listener_name: str) -> dict[str, Any]:
        """The leader of the partition that holds what is looked for."""
        try:
            leader = find(key)
        except GoQueueError as error:
            return _nowhere(code_for(error), str(error))
        return self._at(leader, listener_name)

    def _at(self, node_id: int, listener_name: str) -> dict[str, Any]:
        found = self._brokers.find(node_id, listener_name)
        if found is None:
            error = CoordinatorUnavailableError(
                f"node {node_id} is not reachable by listener {listener_name}: try again"
            )
            return _nowhere(code_for(error), str(error))
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "node_id": found.node_id,
            "host": found.host,
            "port": found.port,
        }


def _owner(key_type: int, key: str) -> str:
    """The group or transactional id of a key; those of share partitions begin with the group."""
    return key.rsplit(":", 2)[0] if key_type == _SHARE else key


def _nowhere(code: ErrorCode, message: str) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "node_id": NONE,
        "host": "",
        "port": NONE,
    }
