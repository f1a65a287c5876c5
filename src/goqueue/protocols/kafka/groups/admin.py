"""Looking at groups and deleting them: ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError, GroupNotFoundError
from goqueue.protocols.kafka.access.operations import NO_OPERATIONS, group_operations
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import (
    CLUSTER_DESCRIBE,
    DELETE,
    DESCRIBE,
    GROUP_DESCRIBE,
    each_group,
    within,
)
from goqueue.protocols.kafka.turns import Each, encode_settled, in_turns
from goqueue.protocols.permissions import UNRESTRICTED
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.broker.broker import Broker
    from goqueue.insight.group_views import GroupLine
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.reading import Struct

_NOT_FOUND_IS_AN_ERROR_FROM: Final = 6


def _listed(line: GroupLine) -> dict[str, Any]:
    return {
        "group_id": line.group_id,
        "protocol_type": line.protocol_type,
        "group_state": line.state,
        "group_type": line.group_type,
    }


def _undescribed(group_id: Any, code: ErrorCode) -> dict[str, Any]:
    return {"error_code": code, "group_id": group_id, "authorized_operations": NO_OPERATIONS}


def _undeleted(group_id: Any, code: ErrorCode) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": code}


class GroupAdminApi:
    """What administrators ask about groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._groups = broker.groups

    @api(
        ApiKey.LIST_GROUPS,
        right=within(CLUSTER_DESCRIBE, GROUP_DESCRIBE, note="the groups that it covers"),
    )
    async def list_groups(self, ctx: RequestContext, request: Struct) -> Response:
        """Every group in one of the states and of one of the types asked for."""
        states = {each.lower() for each in request.states_filter or ()}
        types = {each.lower() for each in request.types_filter or ()}
        may = UNRESTRICTED if ctx.may.allows(CLUSTER_DESCRIBE) else ctx.may

        def answer() -> dict[str, Any]:
            found = [
                line
                for line in may.visible(
                    GROUP_DESCRIBE, self._broker.group_views.all(), lambda line: line.group_id
                )
                if not (states and line.state.lower() not in states)
                and not (types and line.group_type not in types)
            ]
            loading = ErrorCode.coordinator_load_in_progress
            code = loading if self._groups.is_loading else ErrorCode.none
            return {"error_code": code, "groups": Each(found, _listed)}

        return await encode_settled(ctx, answer, self._groups.all_settled)

    @api(ApiKey.DESCRIBE_GROUPS, right=each_group(DESCRIBE, _undescribed))
    async def describe_groups(self, ctx: RequestContext, request: Struct) -> Response:
        """Each group asked for; one that does not exist is dead, as Kafka says it."""
        group_ids = list(dict.fromkeys(request.groups))
        asked = request.include_authorized_operations
        operations = partial(group_operations, ctx.may, asked=asked)

        def answer() -> dict[str, Any]:
            return {"groups": Each(group_ids, partial(self._describe, ctx, operations))}

        return await encode_settled(ctx, answer, partial(self._groups.settled, group_ids))

    def _describe(
        self, ctx: RequestContext, operations: Callable[[str], int], group_id: str
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "error_code": ErrorCode.none,
            "error_message": None,
            "group_id": group_id,
            "group_state": "Dead",
            "protocol_type": "",
            "protocol_data": "",
            "members": [],
            "authorized_operations": operations(group_id),
        }
        try:
            group = self._groups.coordinator(group_id).describe_classic(group_id)
        except GoQueueError as error:
            is_missing = isinstance(error, GroupNotFoundError)
            if is_missing and ctx.version < _NOT_FOUND_IS_AN_ERROR_FROM:
                return answer
            refused = {"error_code": code_for(error), "error_message": str(error)}
            return {**answer, **refused, "authorized_operations": NO_OPERATIONS}
        return {
            **answer,
            "group_state": group.state,
            "protocol_type": group.protocol_type,
            "protocol_data": group.protocol_name,
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.instance_id,
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "member_metadata": member.metadata,
                    "member_assignment": member.assignment,
                }
                for member in group.members
            ],
        }

    @api(
        ApiKey.DELETE_GROUPS,
        right=each_group(DELETE, _undeleted, array="groups_names", answers="results"),
    )
    async def delete_groups(self, ctx: RequestContext, request: Struct) -> Response:
        """Delete groups without members; one result for each group asked for."""
        results = []
        async for group_id in in_turns(dict.fromkeys(request.groups_names)):
            code = ErrorCode.none
            try:
                await self._broker.group_administrator.delete(group_id)
            except GoQueueError as error:
                code = code_for(error)
            results.append({"group_id": group_id, "error_code": code})
        return {"results": results}
