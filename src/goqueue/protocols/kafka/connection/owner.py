"""What a connection knows of the listener that accepted it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from goqueue.protocols.kafka.connection.budget import AnswerBudget, RequestBudget
    from goqueue.protocols.kafka.connection.connection import Connection
    from goqueue.protocols.kafka.connection.deadlines import CloseReason
    from goqueue.protocols.kafka.connection.dispatch import Dispatcher
    from goqueue.protocols.kafka.settings import ListenerSettings


class Owner(Protocol):
    """The listener."""

    settings: ListenerSettings
    budget: RequestBudget
    answers: AnswerBudget
    dispatcher: Dispatcher

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for one more."""
        ...

    def forget(self, connection: Connection, reason: CloseReason) -> None:
        """The connection is gone."""
        ...

    def report(self, now: float, host: str, why: str) -> None:
        """Say why a connection is closed."""
        ...

    def keep(self, future: asyncio.Future[Any]) -> None:
        """Hold a handler that runs on after its connection is gone."""
        ...
