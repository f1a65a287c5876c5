"""Acknowledging messages by their receipts, away from the queue that they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.client.errors import from_wire
from goqueue.client.outgoing import to_ms
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.client.channels import Channels
    from goqueue.client.types import Time
    from goqueue.model.errors import GoQueueError


class AsyncReceipts:
    """`client.receipts`: whoever has a receipt may acknowledge its message.

    All of them raise `UnknownReceiptError` for a receipt that was used, was never given or expired
    before a restart of the broker, and `ExpiredReceiptError` for one whose time is over.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def ack(self, receipt_handle: str) -> None:
        """It is processed."""
        request = pb.AckRequest(receipt_handle=receipt_handle)
        await self._channels.ask(lambda s: s.acks.Ack, request, pb.AckResponse, again=False)

    async def nack(
        self, receipt_handle: str, *, delay: Time | None = None, reason: str = ""
    ) -> None:
        """It failed for now. It is redelivered after a delay (seconds), or the group's back-off."""
        request = pb.NackRequest(
            receipt_handle=receipt_handle, reason=reason, delay_ms=to_ms(delay)
        )
        await self._channels.ask(lambda s: s.acks.Nack, request, pb.NackResponse, again=False)

    async def reject(self, receipt_handle: str, reason: str) -> None:
        """It will never succeed: it is dead-lettered."""
        request = pb.RejectRequest(receipt_handle=receipt_handle, reason=reason)
        await self._channels.ask(lambda s: s.acks.Reject, request, pb.RejectResponse, again=False)

    async def extend(self, receipt_handle: str, seconds: Time) -> None:
        """It takes so much longer from now on."""
        request = pb.ExtendVisibilityRequest(
            receipt_handle=receipt_handle, extend_ms=to_ms(seconds) or 0
        )
        await self._channels.ask(
            lambda s: s.acks.ExtendVisibility, request, pb.ExtendVisibilityResponse
        )

    async def ack_all(self, receipt_handles: Sequence[str]) -> list[GoQueueError | None]:
        """All of them are processed; for each, why that does not count, or None."""
        request = pb.BatchAckRequest(receipt_handles=receipt_handles)
        response = await self._channels.ask(
            lambda s: s.acks.BatchAck, request, pb.BatchAckResponse, again=False
        )
        return [
            from_wire(each.error) if each.HasField("error") else None for each in response.outcomes
        ]
