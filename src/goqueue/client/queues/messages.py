"""Messages that a queue group has handed to this client.

They stay in the batches in which they came: a message is a row there and a place in its range of
deliveries, and nothing else is made of it before somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from goqueue.client.queues.acknowledgements import (
    ACK,
    EXTEND,
    NACK,
    REJECT,
    RELEASE,
    Acknowledgement,
)
from goqueue.client.times import to_ms
from goqueue.model.delivery import Priority
from goqueue.records import Message

if TYPE_CHECKING:
    from goqueue.client.queues.acknowledging import PendingAcknowledgement
    from goqueue.client.queues.deliveries import Deliveries
    from goqueue.client.types import Time


class Owner(Protocol):
    """The queue that messages were taken from."""

    def settle(
        self, message: Delivered, said: Acknowledgement, *, wait: bool
    ) -> PendingAcknowledgement | None:
        """Tell the broker what became of a message."""


class Delivered(Message):
    """One message, handed to this client for a while."""

    __slots__ = ("at", "deliveries")

    deliveries: Deliveries
    """Those it came with."""
    at: int
    """Its place among them."""

    @property
    def is_settled(self) -> bool:
        """Whether the program has said what became of it."""
        return bool(self.deliveries.settled[self.at])

    @property
    def priority(self) -> Priority:
        """How urgent it is."""
        return Priority(self.deliveries.lane)

    @property
    def delivery_count(self) -> int:
        """How often it was delivered to the group: 1 is the first time."""
        return self.deliveries.count

    @property
    def receipt_handle(self) -> str:
        """With it anybody may settle the message, also elsewhere; see `AsyncClient.receipts`."""
        deliveries = self.deliveries
        nonce = deliveries.nonce(self.at)
        return f"{self.topic}:{self.partition}:{self.offset}:{deliveries.count}:{nonce:016x}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.receipt_handle}>"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class AsyncQueueMessage(Delivered):
    """A message of `AsyncClient.queue`.

    Await what each of its methods returns to know that the broker has stored it. Without that,
    `AsyncQueue.flush` raises failures.
    """

    __slots__ = ()

    def _settle(self, said: Acknowledgement) -> PendingAcknowledgement:
        owner: Owner = self.deliveries.owner
        pending = owner.settle(self, said, wait=False)
        assert pending is not None  # the queue of an async client gives one
        return pending

    def ack(self) -> PendingAcknowledgement:
        """It is processed.

        Awaiting raises:
            UnknownReceiptError: it was settled before, or expired before a restart of the broker.
            ExpiredReceiptError: it took too long, and was handed to somebody else.
            BrokerUnavailableError: it is not known whether that is stored.
        """
        pending: PendingAcknowledgement = self.deliveries.owner.settle(self, ACKNOWLEDGED)
        return pending

    def nack(self, *, delay: Time | None = None, reason: str = "") -> PendingAcknowledgement:
        """It failed for now. It is redelivered after a delay (seconds), or the group's back-off."""
        return self._settle(Acknowledgement(NACK, reason, to_ms(delay)))

    def release(self) -> PendingAcknowledgement:
        """It was not processed, and may be handed out again at once."""
        return self._settle(Acknowledgement(RELEASE))

    def reject(self, reason: str) -> PendingAcknowledgement:
        """It will never succeed: it is dead-lettered."""
        return self._settle(Acknowledgement(REJECT, reason))

    def extend(self, seconds: Time | None = None) -> PendingAcknowledgement:
        """It takes so much longer from now on; without a time, the group's visibility timeout."""
        return self._settle(Acknowledgement(EXTEND, "", to_ms(seconds)))


class QueueMessage(Delivered):
    """A message of `Client.queue`.

    Each of its methods returns when the broker has stored it, unless `wait` is False: then
    `Queue.flush` raises failures.
    """

    __slots__ = ()

    def ack(self, *, wait: bool = True) -> None:
        """It is processed.

        Raises:
            UnknownReceiptError: it was settled before, or expired before a restart of the broker.
            ExpiredReceiptError: it took too long, and was handed to somebody else.
            BrokerUnavailableError: it is not known whether that is stored.
        """
        self.deliveries.owner.settle(self, ACKNOWLEDGED, wait=wait)

    def nack(self, *, delay: Time | None = None, reason: str = "", wait: bool = True) -> None:
        """It failed for now. It is redelivered after a delay (seconds), or the group's back-off."""
        said = Acknowledgement(NACK, reason, to_ms(delay))
        self.deliveries.owner.settle(self, said, wait=wait)

    def release(self, *, wait: bool = True) -> None:
        """It was not processed, and may be handed out again at once."""
        self.deliveries.owner.settle(self, Acknowledgement(RELEASE), wait=wait)

    def reject(self, reason: str, *, wait: bool = True) -> None:
        """It will never succeed: it is dead-lettered."""
        self.deliveries.owner.settle(self, Acknowledgement(REJECT, reason), wait=wait)

    def extend(self, seconds: Time | None = None, *, wait: bool = True) -> None:
        """It takes so much longer from now on; without a time, the group's visibility timeout."""
        said = Acknowledgement(EXTEND, "", to_ms(seconds))
        self.deliveries.owner.settle(self, said, wait=wait)


ACKNOWLEDGED: Final = Acknowledgement(ACK)
