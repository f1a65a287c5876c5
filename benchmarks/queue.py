"""Work queues end to end: one producer, two consumers that acknowledge each message.

Every system has the same shape on the same machine: messages of 100 bytes, at most 10 000 of them
sent and not acknowledged, chunks of 100 where a client has to choose. Clients and servers are
processes of their own, the servers real ones on free ports. Redis is no Python package: without
`redis-server` (`apt-get install redis-server`) its rows are left out. Linux only: what a process
uses is read from /proc.
"""
# ruff: noqa: A005 - a group is called what it measures, and is only ever imported from its package

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Final

from benchmarks._brokers import GOQUEUE, start_goqueue
from benchmarks._queue_run import CONSUMING, PRODUCER, SERVER, Outcome, Queue, measure
from benchmarks._queue_servers import NATS, REDIS, has_redis, start_nats, start_redis
from benchmarks._turns import Turns
from benchmarks.harness import Run, benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks._brokers import BrokerProcess

TURNS: Final = 3
SECONDS: Final = 2.0
PACED_SHARE: Final = 0.5
IN_FLIGHT: Final = 1_000_000
AT_ONCE: Final = 100
ROOT: Final = Path(__file__).parents[1]
TOLERATED: Final = 0.95
"""A producer that reaches less of its rate than this is told of."""


@dataclass(frozen=True)
class Way:
    """One row of the table."""

    label: str
    system: str
    server: str


WAYS: Final = (
    Way("Redis Streams", "_queue_redis:Streams", REDIS),
    Way("Redis Streams, one XACK a chunk", "_queue_redis:OneAck", REDIS),
    Way("NATS JetStream", "_queue_nats:JetStream", NATS),
    Way("NATS JetStream, publishes confirmed", "_queue_nats:Confirmed", NATS),
    Way("GoQueue, Python client", "_queue_goqueue:Batches", GOQUEUE),
    Way("GoQueue, Kafka's share consumer", "_queue_share:ShareGroup", GOQUEUE),
)
TASKS: Final = (
    Way("Redis Streams", "_queue_redis:Tasks", REDIS),
    Way("NATS JetStream", "_queue_nats:Tasks", NATS),
    Way("GoQueue, Python client", "_queue_goqueue:Tasks", GOQUEUE),
)
SERVERS: Final[dict[str, Callable[[Path], BrokerProcess]]] = {
    REDIS: start_redis,
    NATS: start_nats,
    GOQUEUE: start_goqueue,
}


@benchmark("throughput", "A work queue with two consumers: messages/s, and latency at half of that")
def throughput(run: Run) -> None:
    ways = _present(run, WAYS)
    with _started(run, ways) as servers:
        fast = _in_turns(run, "as fast as possible", ways, servers, dict.fromkeys(ways))
        half = {way: PACED_SHARE * _rate(outcomes) for way, outcomes in fast.items()}
        paced = _in_turns(run, "at half of that", ways, servers, half)
    _report_rates(run, "end to end,", fast)
    _report_latencies(run, paced, half)
    _report_cpu(run, fast, paced)
    _tell_of_others(run, fast)
    run.note(
        "one producer, two consumers; 100-byte messages, up to 10 000 sent and not acknowledged"
    )
    run.note("latency is from when a message was due to be sent, at half of the system's own rate")
    run.note("all servers write to a file before they confirm, and sync it once a second")
    run.note("each message came once, and the server's own count of what is left was zero")
    run.note("ratios are against the fastest of what is not GoQueue, in this run")


@benchmark("tasks", "A work queue with two consumers of 100 tasks that each await their own ack")
def tasks(run: Run) -> None:
    ways = _present(run, TASKS)
    with _started(run, ways) as servers:
        found = _in_turns(run, "tasks", ways, servers, dict.fromkeys(ways))
    _report_rates(run, "end to end, 100 tasks a consumer,", found)
    _tell_of_others(run, found)
    run.note("one producer; a task waits until the server has answered its acknowledgement")


def _present(run: Run, ways: Sequence[Way]) -> list[Way]:
    """All but those whose server is not installed."""
    if has_redis():
        return list(ways)
    run.note("Redis is left out, there is no redis-server: `apt-get install redis-server`")
    return [way for way in ways if way.server != REDIS]


@contextmanager
def _started(run: Run, ways: list[Way]) -> Iterator[dict[str, BrokerProcess]]:
    """The servers that they need."""
    with ExitStack() as stack:
        names = dict.fromkeys(way.server for way in ways)
        yield {name: stack.enter_context(SERVERS[name](run.scratch / name)) for name in names}


def _in_turns(
    run: Run,
    what: str,
    ways: list[Way],
    servers: dict[str, BrokerProcess],
    rates: dict[Way, float] | dict[Way, None],
) -> dict[Way, list[Outcome]]:
    """Measure all of them, one after the other, several times."""
    found: dict[Way, list[Outcome]] = defaultdict(list)
    plan = [(turn, way) for turn in range(TURNS) for way in ways]
    for number, (_, way) in enumerate(run.progress(plan, what)):
        topic = f"{what.replace(' ', '-')}-{number}"
        server = servers[way.server]
        queue = Queue(way.system, server, topic)
        found[way].append(measure(queue, run.scratch / topic, SECONDS, rates[way]))
    return found


def _rate(outcomes: list[Outcome]) -> float:
    return median(outcome.rate for outcome in outcomes)


def _report_rates(run: Run, what: str, found: dict[Way, list[Outcome]]) -> None:
    others = [way for way in found if way.server != GOQUEUE]
    plain = max(others, key=lambda way: _rate(found[way]))
    turns = Turns(plain=plain.label)
    for way, outcomes in found.items():
        for outcome in outcomes:
            turns.add(way.label, 1 / outcome.rate)
    turns.report_rates(run, what, 1, "messages/s")


def _report_latencies(run: Run, found: dict[Way, list[Outcome]], wanted: dict[Way, float]) -> None:
    for way, outcomes in found.items():
        for rank in ("p50", "p99"):
            value = median(outcome.latency_ms[rank] for outcome in outcomes)
            run.row(f"{rank} at half rate, {way.label}", value, "ms")
        reached = _rate(outcomes)
        if reached < TOLERATED * wanted[way]:
            run.note(f"{way.label}: at half rate only {reached:,.0f}/s came through")


def _report_cpu(run: Run, fast: dict[Way, list[Outcome]], paced: dict[Way, list[Outcome]]) -> None:
    """Where the cores were spent: on a small machine their sum is what limits the rate."""
    for way, outcomes in fast.items():
        for role in (PRODUCER, CONSUMING, SERVER):
            spent = mean(outcome.cpu_us[role] for outcome in outcomes)
            run.row(f"{role} CPU a message, {way.label}", spent, "µs")
    for way, outcomes in paced.items():
        spent = mean(sum(outcome.cpu_us.values()) for outcome in outcomes)
        run.row(f"all CPU a message at half rate, {way.label}", spent, "µs")


def _tell_of_others(run: Run, found: dict[Way, list[Outcome]]) -> None:
    """A rate that was measured beside other work is a rate of what that left."""
    shares = [outcome.taken for outcomes in found.values() for outcome in outcomes]
    told = f"{median(shares):.0%} of the cores, at most {max(shares):.0%} in one turn"
    run.note(f"what else ran on the machine took {told}")


@benchmark("memory", "What a message in flight costs the broker, with a million of them")
def memory(run: Run) -> None:
    folder = run.scratch / "in-flight"
    code = (
        "from benchmarks._queue_memory import measure_in_flight; "
        f"measure_in_flight({str(folder)!r}, {IN_FLIGHT}, {AT_ONCE})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    grown = float(done.stdout)
    run.row("growth of the process", grown, "B/message", grown / 100, "its value")
    run.note(f"{IN_FLIGHT:,} messages of 100 bytes, taken {AT_ONCE} at a time, none acknowledged")
