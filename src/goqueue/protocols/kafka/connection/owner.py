"""What a connection and the listener that accepted it know of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from goqueue.protocols.connected import ConnectedClient
    from goqueue.protocols.kafka.connection.budget import AnswerBudget, RequestBudget
    from goqueue.protocols.kafka.connection.deadlines import CloseReason
    from goqueue.protocols.kafka.connection.dispatch import Dispatcher
    from goqueue.protocols.kafka.connection.fair_reads import FairReads
    from goqueue.protocols.kafka.context import Session
    from goqueue.protocols.kafka.settings import ListenerSettings


class Owned(Protocol):
    """A connection, as the listener sees it."""

    host: str
    session: Session

    def client(self) -> ConnectedClient:
        """Who is connected."""

    def sweep(self, now: float, *, patience_s: float) -> bool:
        """Close if a deadline has passed; whether it was closed."""

    def drain(self) -> None:
        """Read no more; close when what is under way has been answered."""

    def abort(self) -> None:
        """Close now, whatever is unsent."""


class Owner(Protocol):
    """The listener, as its connections see it."""

    settings: ListenerSettings
    budget: RequestBudget
    answers: AnswerBudget
    dispatcher: Dispatcher
    buffer: memoryview
    """What sockets are read into, one at a time."""
    fair_reads: FairReads

    def admit(self, connection: Owned) -> bool:
        """Whether there is room for one more."""

    def forget(self, connection: Owned, reason: CloseReason) -> None:
        """The connection is gone."""

    def report(self, now: float, host: str, why: str) -> None:
        """Say why a connection is closed."""

    def keep(self, future: asyncio.Future[Any]) -> None:
        """Hold a handler that runs on after its connection is gone."""
