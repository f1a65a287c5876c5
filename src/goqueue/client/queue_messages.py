"""Messages of queue groups, and what a program does with them: acknowledge, refuse, extend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.client.delivered_messages import Delivered
from goqueue.client.outgoing import to_ms
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from goqueue.client.acknowledging import PendingAcknowledgement
    from goqueue.client.types import Time


class AsyncOwner(Protocol):
    """The queue that an `AsyncQueueMessage` was taken from."""

    def settle(
        self,
        message: AsyncQueueMessage,
        verdict: pb.Verdict.ValueType,
        reason: str = "",
        delay_ms: int | None = None,
    ) -> PendingAcknowledgement:
        """Tell the broker what became of the message."""


class BlockingOwner(Protocol):
    """The queue that a `QueueMessage` was taken from."""

    def settle(
        self,
        message: QueueMessage,
        verdict: pb.Verdict.ValueType,
        reason: str = "",
        delay_ms: int | None = None,
        *,
        wait: bool,
    ) -> None:
        """Tell the broker what became of the message."""


class AsyncQueueMessage(Delivered):
    """A message of `AsyncClient.queue`.

    Await what each of its methods returns to know that the broker has stored it. Without that,
    `AsyncQueue.flush` raises failures.
    """

    __slots__ = ()
    _owner: AsyncOwner

    def ack(self) -> PendingAcknowledgement:
        """It is processed.

        Awaiting raises:
            UnknownReceiptError: it was settled before, or expired before a restart of the broker.
            ExpiredReceiptError: it took too long, and was handed to somebody else.
            BrokerUnavailableError: it is not known whether that is stored.
        """
        return self._owner.settle(self, pb.VERDICT_ACK)

    def nack(self, *, delay: Time | None = None, reason: str = "") -> PendingAcknowledgement:
        """It failed for now. It is redelivered after a delay (seconds), or the group's back-off."""
        return self._owner.settle(self, pb.VERDICT_NACK, reason, to_ms(delay))

    def release(self) -> PendingAcknowledgement:
        """It was not processed, and may be handed out again at once."""
        return self._owner.settle(self, pb.VERDICT_RELEASE)

    def reject(self, reason: str) -> PendingAcknowledgement:
        """It will never succeed: it is dead-lettered."""
        return self._owner.settle(self, pb.VERDICT_REJECT, reason)

    def extend(self, seconds: Time | None = None) -> PendingAcknowledgement:
        """It takes so much longer from now on; without a time, the group's visibility timeout."""
        return self._owner.settle(self, pb.VERDICT_EXTEND, delay_ms=to_ms(seconds))


class QueueMessage(Delivered):
    """A message of `Client.queue`.

    Each of its methods returns when the broker has stored it, unless `wait` is False: then
    `Queue.flush` raises failures.
    """

    __slots__ = ()
    _owner: BlockingOwner

    def ack(self, *, wait: bool = True) -> None:
        """It is processed.

        Raises:
            UnknownReceiptError: it was settled before, or expired before a restart of the broker.
            ExpiredReceiptError: it took too long, and was handed to somebody else.
            BrokerUnavailableError: it is not known whether that is stored.
        """
        self._owner.settle(self, pb.VERDICT_ACK, wait=wait)

    def nack(self, *, delay: Time | None = None, reason: str = "", wait: bool = True) -> None:
        """It failed for now. It is redelivered after a delay (seconds), or the group's back-off."""
        self._owner.settle(self, pb.VERDICT_NACK, reason, to_ms(delay), wait=wait)

    def release(self, *, wait: bool = True) -> None:
        """It was not processed, and may be handed out again at once."""
        self._owner.settle(self, pb.VERDICT_RELEASE, wait=wait)

    def reject(self, reason: str, *, wait: bool = True) -> None:
        """It will never succeed: it is dead-lettered."""
        self._owner.settle(self, pb.VERDICT_REJECT, reason, wait=wait)

    def extend(self, seconds: Time | None = None, *, wait: bool = True) -> None:
        """It takes so much longer from now on; without a time, the group's visibility timeout."""
        self._owner.settle(self, pb.VERDICT_EXTEND, delay_ms=to_ms(seconds), wait=wait)
