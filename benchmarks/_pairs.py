"""Ours and the yardstick side by side, and one client that serves them in turn."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from benchmarks._brokers import BrokerProcess, start_goqueue, start_null
from benchmarks._turns import expect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks._client import ClientProcess
    from benchmarks.harness import Run

Pair: TypeAlias = tuple[BrokerProcess, BrokerProcess]
T = TypeVar("T")


class Asked(Protocol):
    """One broker, or several that are one for their clients."""

    @property
    def name(self) -> str:
        """What it is called in the results."""

    @property
    def address(self) -> str:
        """Where clients find it."""

    def cpu_s(self) -> float:
        """The processor time that it has had."""


@contextmanager
def both(run: Run) -> Iterator[Pair]:
    """The yardstick and goqueue, each in a folder of its own."""
    with start_null(run.scratch / "null") as null, start_goqueue(run.scratch / "data") as ours:
        yield null, ours


def in_turn(brokers: tuple[T, T], turn: int) -> tuple[T, T]:
    """One after the other, and each as often the first."""
    return brokers if turn % 2 == 0 else (brokers[1], brokers[0])


def send(
    client: ClientProcess, broker: Asked, topic: str, count: int, *, reports: bool
) -> dict[str, Any]:
    """Have so many messages produced, and insist on as many acknowledgements."""
    sent: dict[str, Any] = client.call(
        "produce", address=broker.address, topic=topic, count=count, reports=reports
    )
    expect(sent["acknowledged"] == count and not sent["failed"], f"{broker.name}: {sent}")
    return sent
