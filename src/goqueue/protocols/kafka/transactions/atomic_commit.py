"""CommitTogether, an API of our own: the transactions of a batch end in one decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.transactions.messages import Identity
from goqueue.transactions.series import Member, TogetherRequest
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct


class AtomicCommitApi:
    """Serves jobs that write in batches, with a transaction for each of their tasks."""

    def __init__(self, broker: Broker) -> None:
        self._transactions = broker.transactions

    @api(ApiKey.COMMIT_TOGETHER, 0, 0)
    async def commit_together(self, ctx: RequestContext, request: Struct) -> Response:
        """Commit a batch, or abort it. Asked again, the answer is the same."""
        wanted = TogetherRequest(
            series=request.series,
            number=request.number,
            keep_ms=request.keep_ms,
            members=tuple(
                Member(each.transactional_id, Identity(each.producer_id, each.producer_epoch))
                for each in request.members
            ),
        )
        is_new = False
        if request.committed:
            is_new = await self._transactions.commit_together(wanted)
        else:
            await self._transactions.abort_together(wanted)
        return {"error_code": ErrorCode.none, "is_new": is_new}
