"""How long a message takes at a steady rate: to its acknowledgement, and to a consumer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks._brokers import GOQUEUE, NULL
from benchmarks._kafka_client import Steps
from benchmarks._pairs import in_turn, send
from benchmarks._turns import expect

if TYPE_CHECKING:
    from benchmarks._brokers import BrokerProcess
    from benchmarks._client import ClientProcess
    from benchmarks._pairs import Pair
    from benchmarks.harness import Run

PACED_TURNS: Final = 3
RANKS: Final = ("p50", "p99", "p99.9")
TOLERATED: Final = 0.95
"""A sender that reaches less of its rate than this is told of."""

_PACED_S: Final = 3.5
_RATED: Final = 500_000
_RATE_TURNS: Final = 3


@dataclass(frozen=True)
class Pace:
    """How many messages a second, and how long the client may hold one back to fill a batch."""

    rate: float
    linger_ms: float
    seconds: float = _PACED_S

    def __str__(self) -> str:
        return f"{self.rate:,.0f}/s, linger {self.linger_ms:g} ms"

    @property
    def count(self) -> int:
        """How many messages are sent in all."""
        return Steps.at(self.rate, self.seconds).messages


def highest_rate(run: Run, sender: ClientProcess, broker: BrokerProcess) -> float:
    """How many messages a second the sender gets acknowledged."""
    rates: list[float] = []
    for _ in run.progress(_RATE_TURNS, "the highest rate"):
        sent = send(sender, broker, "rate", _RATED, reports=True)
        rates.append(_RATED / sent["seconds"])
    run.row("highest rate", median(rates), "messages/s")
    return median(rates)


def highest_followed_rate(
    run: Run, clients: tuple[ClientProcess, ClientProcess], broker: BrokerProcess
) -> float:
    """The same with a consumer, which wants its share of the cores, until it has them all."""
    sender, reader = clients
    rates: list[float] = []
    where = {"address": broker.address, "topic": "followed-rate"}
    for _ in run.progress(_RATE_TURNS, "the highest rate with a consumer"):
        starts = sender.call("ends", **where)
        reader.begin("consume", starts=starts, count=_RATED, **where)
        send(sender, broker, where["topic"], _RATED, reports=True)
        rates.append(_RATED / reader.end()["seconds"])
    run.row("highest rate with a consumer", median(rates), "messages/s")
    return median(rates)


def publish_latency(run: Run, sender: ClientProcess, brokers: Pair, pace: Pace) -> None:
    """From the moment when a message is due to its delivery report."""
    label = f"publish, {pace},"
    found: dict[str, list[dict[str, float]]] = {NULL: [], GOQUEUE: []}
    for turn in run.progress(PACED_TURNS, label):
        for broker in in_turn(brokers, turn):
            where = {"address": broker.address, "topic": "publish"}
            sent = sender.call("paced", **where, **asdict(pace))
            expect(sent["left"] == 0 and sent["sent"] == pace.count, f"{broker.name}: {sent}")
            found[broker.name].append(sent)
    _report(run, label, found, pace)


def end_to_end_latency(
    run: Run, clients: tuple[ClientProcess, ClientProcess], brokers: Pair, pace: Pace
) -> None:
    """From the moment when a message is due to its arrival in another process."""
    sender, reader = clients
    label = f"to the consumer, {pace},"
    found: dict[str, list[dict[str, Any]]] = {NULL: [], GOQUEUE: []}
    for turn in run.progress(PACED_TURNS, label):
        for broker in in_turn(brokers, turn):
            where = {"address": broker.address, "topic": "end-to-end"}
            starts = sender.call("ends", **where)
            reader.begin("follow", starts=starts, count=pace.count, **where)
            sent = sender.call("paced", **where, **asdict(pace))
            seen = reader.end()
            expect(seen["read"] == pace.count, f"{broker.name}: {sent}, {seen}")
            found[broker.name].append({**seen, "rate": sent["rate"]})
    _report(run, label, found, pace)


def _report(run: Run, label: str, found: dict[str, list[dict[str, float]]], pace: Pace) -> None:
    for name, turns in found.items():
        for rank in RANKS:
            value = median(turn[rank] for turn in turns)
            if name == NULL:
                run.row(f"{label} {name} {rank}", value, "ms")
                continue
            pairs = zip(turns, found[NULL], strict=True)
            ratio = median(ours[rank] / plain[rank] for ours, plain in pairs)
            run.row(f"{label} {name} {rank}", value, "ms", ratio, f"{NULL} {rank}")
        reached = median(turn["rate"] for turn in turns)
        if reached < TOLERATED * pace.rate:
            run.note(f"{label} {name}: only {reached:,.0f}/s were sent, the machine has no more")
