"""SettleReceipts: acknowledgements of groups that are kept here, passed on by another node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.access.principals import Principal
from goqueue.model.errors import GoQueueError, InvariantError
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.queues.acknowledging import Shower
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.receipt_routing import NO_DELAY
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.queues.acknowledging import Acknowledger
    from goqueue.wire.kafka.reading import Struct


class SettleReceiptsApi:
    """Takes verdicts that other nodes pass on."""

    def __init__(self, acknowledger: Acknowledger) -> None:
        self._acknowledger = acknowledger

    @api(ApiKey.SETTLE_RECEIPTS, 0, 0, right=NODES)
    async def settle(self, _ctx: RequestContext, request: Struct) -> Response:
        """Settle what is kept here; nothing is passed on once more."""
        answer: dict[str, Any] = {"throttle_time_ms": 0, "error_code": ErrorCode.none}
        try:
            acknowledgement = Acknowledgement(
                Verdict(request.verdict),
                request.reason,
                None if request.delay_ms == NO_DELAY else request.delay_ms,
            )
            outcomes = await self._acknowledger.settle_here(
                [Receipt.parse(each.receipt) for each in request.receipts],
                acknowledgement,
                group_id=request.group_id or None,
                shower=_shower(request),
            )
        except InvariantError:
            raise
        except GoQueueError as error:
            told = {"error_name": type(error).__name__, "error_message": str(error)}
            return {**answer, **told, "outcomes": []}
        told = {"error_name": "", "error_message": ""}
        return {**answer, **told, "outcomes": [_told(each) for each in outcomes]}


def _shower(request: Struct) -> Shower | None:
    """The client that has shown the receipts to the other node, if that is to be asked for."""
    if not request.principal:
        return None
    return Shower(msgspec.json.decode(request.principal, type=Principal), request.host)


def _told(error: GoQueueError | None) -> dict[str, Any]:
    if error is None:
        return {"error_name": "", "message": "", "is_done": 0}
    return {
        "error_name": type(error).__name__,
        "message": str(error),
        "is_done": int(getattr(error, "is_done", 0)),
    }
