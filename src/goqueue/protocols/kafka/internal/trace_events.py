"""What happened on other nodes to messages that are traced here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.tracing.tracer import Tracer
    from goqueue.wire.kafka.reading import Struct


class TraceEventsApi:
    """Serves `goqueue.tracing.sharing.TraceSharing` of the other nodes."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @api(ApiKey.TRACE_EVENTS, 0, 0, right=NODES)
    async def trace_events(self, ctx: RequestContext, request: Struct) -> Response:
        """Note events of messages that are traced here, and say which these are."""
        node = ctx.peer.session.node
        sharing = self._tracer.sharing
        heard = b""
        if sharing is not None:
            heard = sharing.heard(request.events, "" if node is None else str(node.node_id))
        return {"throttle_time_ms": 0, "error_code": ErrorCode.none, "heard": heard}
