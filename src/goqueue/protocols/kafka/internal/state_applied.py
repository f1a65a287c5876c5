"""Whether this node has seen what another one has changed: a state, or the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.state.spreading import applied, reached
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.state.followed import FollowedState
    from goqueue.wire.kafka.reading import Struct


class StateAppliedApi:
    """Answers for the copies and the view of this node."""

    def __init__(self, copies: Mapping[str, FollowedState], keeper: ViewKeeper | None) -> None:
        self._copies = copies
        self._keeper = keeper

    @api(ApiKey.STATE_APPLIED, 0, 0, right=NODES)
    async def state_applied(self, _ctx: RequestContext, request: Struct) -> Response:
        """Wait for a copy to have everything below an offset, for a while."""
        is_applied = await applied(self._copies, request.topic, request.end_offset)
        return {"throttle_time_ms": 0, "error_code": ErrorCode.none, "is_applied": is_applied}

    @api(ApiKey.VIEW_REACHED, 0, 0, right=NODES)
    async def view_reached(self, _ctx: RequestContext, request: Struct) -> Response:
        """Wait for the view of the metadata to have a revision, for a while."""
        is_reached = await reached(self._keeper, request.revision)
        return {"throttle_time_ms": 0, "error_code": ErrorCode.none, "is_reached": is_reached}
