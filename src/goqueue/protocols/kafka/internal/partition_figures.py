"""How large partitions are and where they end, for nodes that have no replica of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.partitions.elsewhere.told_figures import TellsFigures
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.wire.kafka.reading import Struct


class PartitionFiguresApi:
    """Tells the figures of the partitions that this node leads."""

    def __init__(self, figures: TellsFigures) -> None:
        self._figures = figures

    @api(ApiKey.PARTITION_FIGURES, 0, 0, right=NODES)
    async def partition_figures(self, ctx: RequestContext, request: Struct) -> Response:
        """Those of some topics, or those that have changed and the node that asks cannot see."""
        node = ctx.peer.session.node
        asker = -1 if node is None else node.node_id
        if request.topic_ids:
            version = self._figures.version
            rows = self._figures.of_topics({each.topic_id for each in request.topic_ids})
        else:
            version, rows = await self._figures.since(asker, request.run, request.version)
        return {
            "throttle_time_ms": 0,
            "error_code": ErrorCode.none,
            "run": self._figures.run,
            "version": version,
            "partitions": rows,
        }
