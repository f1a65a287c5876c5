"""AckService: what became of messages of queue groups, by their receipts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.model.limits import MAX_VISIBILITY_MS
from goqueue.protocols.audit_trail import record_refused_receipts
from goqueue.protocols.grpc.errors import InvalidRequestError, to_error
from goqueue.protocols.grpc.queue_subscription import check_count, judgement_of, settle_handles
from goqueue.protocols.grpc.rights import caller
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import AckServiceServicer

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from goqueue.broker.broker import Broker


class AckService(AckServiceServicer):
    """For those who have no stream, or not any more: a receipt is all that it takes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def Ack(
        self, request: pb.AckRequest, context: ServicerContext[Any, Any]
    ) -> pb.AckResponse:
        """It is processed."""
        await self._settle_one(request.receipt_handle, request.group, Acknowledgement(Verdict.ACK))
        return pb.AckResponse()

    async def Nack(
        self, request: pb.NackRequest, context: ServicerContext[Any, Any]
    ) -> pb.NackResponse:
        """It failed for now."""
        acknowledgement = judgement_of(pb.VERDICT_NACK, request.reason, request)
        await self._settle_one(request.receipt_handle, request.group, acknowledgement)
        return pb.NackResponse()

    async def Reject(
        self, request: pb.RejectRequest, context: ServicerContext[Any, Any]
    ) -> pb.RejectResponse:
        """It will never succeed."""
        if not request.reason:
            raise InvalidRequestError("reason: empty, expected the reason for the rejection")
        acknowledgement = Acknowledgement(Verdict.REJECT, request.reason)
        await self._settle_one(request.receipt_handle, request.group, acknowledgement)
        return pb.RejectResponse()

    async def ExtendVisibility(
        self, request: pb.ExtendVisibilityRequest, context: ServicerContext[Any, Any]
    ) -> pb.ExtendVisibilityResponse:
        """It takes longer."""
        extend_ms = request.extend_ms
        if not 1 <= extend_ms <= MAX_VISIBILITY_MS:
            raise InvalidRequestError(f"extend_ms: {extend_ms} is not 1 to {MAX_VISIBILITY_MS}")
        until_ms = self._broker.queues.now_ms() + extend_ms
        acknowledgement = Acknowledgement(Verdict.EXTEND, delay_ms=extend_ms)
        await self._settle_one(request.receipt_handle, request.group, acknowledgement)
        return pb.ExtendVisibilityResponse(visible_until_ms=until_ms)

    async def BatchAck(
        self, request: pb.BatchAckRequest, context: ServicerContext[Any, Any]
    ) -> pb.BatchAckResponse:
        """One verdict on many; what is wrong with one of them is told for it alone."""
        check_count(len(request.receipt_handles))
        acknowledgement = judgement_of(request.verdict, request.reason, request)
        outcomes = await settle_handles(
            self._broker, request.receipt_handles, acknowledgement, request.group or None
        )
        record_refused_receipts(self._broker.access_trail, caller(), outcomes)
        return pb.BatchAckResponse(
            outcomes=(
                pb.AckOutcome(
                    receipt_handle=handle, error=None if error is None else to_error(error)
                )
                for handle, error in outcomes
            )
        )

    async def _settle_one(self, handle: str, group: str, acknowledgement: Acknowledgement) -> None:
        ((_, error),) = await settle_handles(self._broker, [handle], acknowledgement, group or None)
        if error is not None:
            raise error
