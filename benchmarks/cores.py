"""Where one broker process ends, and what a second one on the same machine adds.

A broker is one process with one event loop: it uses one core. What it can take of anything is
therefore what that costs in processor time, and the rows in CPU seconds carry over to a machine
with more cores; the rates are of this one, where the client wants its share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks._brokers import start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._logs import KB, batch_of, messages_in
from benchmarks._raw_client import first_acknowledged
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark

if TYPE_CHECKING:
    from benchmarks._brokers import BrokerProcess

TURNS: Final = 6
SECONDS: Final = 0.5
SENDERS: Final = 16
OPENED: Final = 500
ONE: Final = "one process"
TWO: Final = "two processes"


class Served(NamedTuple):
    """A broker and the client that asks it."""

    broker: BrokerProcess
    client: ClientProcess


@benchmark("processes", "What one broker process can take, and what two on one machine can")
def processes(run: Run) -> None:
    with (
        start_goqueue(run.scratch / "first") as first,
        start_goqueue(run.scratch / "second") as second,
        ClientProcess("_raw_client") as one,
        ClientProcess("_raw_client") as other,
    ):
        served = (Served(first, one), Served(second, other))
        for broker in (first, second):
            first_acknowledged(broker.port, "ready", batch_of(KB))
        _measure(run, served, "requests of 1 KB", KB, each=1)
        size = 64 * KB
        _measure(run, served, "messages of 100 bytes in batches of 64 KB", size, messages_in(size))
        _connect(run, served[0])
    run.note(f"{TURNS} turns of {SECONDS} s; {SENDERS} connections a broker, one request on each")
    run.note("two processes share a disk and a kernel; each has its own topics")


def _measure(
    run: Run, served: tuple[Served, Served], what: str, batch_bytes: int, each: int
) -> None:
    """Publish to one broker, and to both at once, in turn."""
    rates, costs = Turns(plain=ONE), Turns(plain=ONE)
    for turn in run.progress(TURNS, what):
        ways = {ONE: served[turn % 2 :][:1], TWO: served}
        for way in ways if turn % 2 else reversed(ways):
            found = _publish(ways[way], batch_bytes)
            rates.add(way, 1 / found["a_second"])
            costs.add(way, found["cpu_s"])
    rates.report_rates(run, f"{what},", each, "a second")
    costs.report_rates(run, f"{what},", each, "a CPU second")


def _publish(served: tuple[Served, ...], batch_bytes: int) -> dict[str, float]:
    """Batches a second of all, and the processor time of a batch."""
    before_s = sum(each.broker.cpu_s() for each in served)
    for each in served:
        asked: dict[str, Any] = {"port": each.broker.port, "topic": "ready", "count": SENDERS}
        each.client.begin("publish", batch_bytes=batch_bytes, seconds=SECONDS, **asked)
    done = [each.client.end() for each in served]
    expect(not any(each["failed"] for each in done), f"{done}")
    used_s = sum(each.broker.cpu_s() for each in served) - before_s
    return {
        "a_second": sum(each["batches_a_second"] for each in done),
        "cpu_s": used_s / sum(each["acknowledged"] for each in done),
    }


def _connect(run: Run, served: Served) -> None:
    """Open connections that ask for the versions of the API, and close them."""
    costs = Turns(plain=ONE)
    for _ in run.progress(TURNS, "connections"):
        before_s = served.broker.cpu_s()
        served.client.call("open", port=served.broker.port, count=OPENED)
        expect(served.client.call("close") == 0, "a connection was closed by the broker")
        costs.add(ONE, (served.broker.cpu_s() - before_s) / OPENED)
    costs.report_rates(run, "connections opened and closed,", 1, "a CPU second")
