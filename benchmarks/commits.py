"""This tree against another commit, measured in alternating pairs.

    GOQUEUE_BENCH_AGAINST=8466193 goqueue bench commits

Both brokers run at the same time, and the same clients, those of this tree, ask one and then the
other. Each ratio is the median of the ratios of the pairs; a change that costs speed shows in it.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from benchmarks._brokers import PARTITIONS, grpc_address, start_goqueue
from benchmarks._checkouts import AGAINST, checkout, commit_of, with_bytecode
from benchmarks._client import ClientProcess
from benchmarks._logs import KB, batch_of
from benchmarks._pairs import in_turn, send
from benchmarks._queue_run import Queue, measure
from benchmarks._raw_client import first_acknowledged
from benchmarks._turns import Turns, expect
from benchmarks.harness import ROOT, Run, Skipped, benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._brokers import BrokerProcess
    from benchmarks._pairs import Pair

PAIRS: Final = int(os.environ.get("GOQUEUE_BENCH_PAIRS", "10"))
"""Fewer only to see that it works."""
PRODUCED: Final = 300_000
CONSUMED: Final = min(1_000_000, PRODUCED * (PAIRS + 1))
TRANSACTED: Final = 20_000
DELAYED: Final = 50_000
SENDERS: Final = 16
SATURATED_S: Final = 0.5
QUEUE_S: Final = 2.0
DAY_MS: Final = 24 * 3600 * 1000
NOW: Final = "this tree"


@contextmanager
def _both(run: Run) -> Iterator[Pair]:
    """The other commit and this tree, each in a folder of its own."""
    other = start_goqueue(run.scratch / "other", source=checkout(AGAINST))
    other.name = commit_of(AGAINST)
    ours = start_goqueue(run.scratch / "ours", source=ROOT)
    ours.name = NOW
    with other, ours:
        yield other, ours


def _in_pairs(
    run: Run, brokers: Pair, what: str, seconds_of: Callable[[BrokerProcess, int], float]
) -> None:
    """Measure both in turn; `seconds_of` does the work once. The first pair is a warm-up."""
    turns = Turns(plain=brokers[0].name)
    for turn in run.progress(PAIRS + 1, what):
        for broker in in_turn(brokers, turn):
            seconds = seconds_of(broker, turn)
            if turn:
                turns.add(broker.name, seconds)
    turns.report_rates(run, f"{what}:", 1, "a second")


@benchmark("kafka", "Producing, small requests and consuming, against another commit")
def kafka(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_kafka_client") as client:

        def produced_s(broker: BrokerProcess, _turn: int) -> float:
            sent = send(client, broker, "produced", PRODUCED, reports=False)
            return float(sent["seconds"]) / PRODUCED

        def consumed_s(broker: BrokerProcess, _turn: int) -> float:
            asked: dict[str, Any] = {"topic": "produced", "starts": [0] * PARTITIONS}
            read = client.call("consume", address=broker.address, count=CONSUMED, **asked)
            expect(read["read"] == CONSUMED and not read["wrong"], f"{broker.name}: {read}")
            return float(read["seconds"]) / CONSUMED

        _in_pairs(run, brokers, "messages produced", produced_s)
        _in_pairs(run, brokers, "messages consumed", consumed_s)
    run.note(f"{PAIRS} pairs; librdkafka, 100-byte messages, acks=all; the page cache is warm")


@benchmark("requests", "Requests of one batch of 1 KB, as many as the broker can take")
def requests(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_raw_client") as client:
        for broker in brokers:
            first_acknowledged(broker.port, "ready", batch_of(KB))

        def request_s(broker: BrokerProcess, _turn: int) -> float:
            asked = {"port": broker.port, "topic": "ready", "count": SENDERS, "batch_bytes": KB}
            done = client.call("publish", seconds=SATURATED_S, **asked)
            expect(not done["failed"], f"{broker.name}: {done}")
            return 1 / float(done["batches_a_second"])

        _in_pairs(run, brokers, "requests", request_s)
    run.note(f"{PAIRS} pairs; {SENDERS} connections with one request under way on each")


LATENCY_S: Final = 2.5


@benchmark("latency", "A message each millisecond, without a linger, to its acknowledgement")
def latency(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_kafka_client") as client:

        def median_s(broker: BrokerProcess, _turn: int) -> float:
            asked = {"rate": 1000, "seconds": LATENCY_S, "linger_ms": 0}
            sent = client.call("paced", address=broker.address, topic="paced", **asked)
            expect(sent["left"] == 0, f"{broker.name}: {sent}")
            return float(sent["p50"]) / 1000

        _in_pairs(run, brokers, "one by the median latency", median_s)
    run.note(f"{PAIRS} pairs of {LATENCY_S} s at 1000 messages a second")


@benchmark("queue", "A work queue with two share consumers that acknowledge each message")
def queue(run: Run) -> None:
    _queue(run, "share consumer", "_queue_share:ShareGroup")


@benchmark("client_queue", "A work queue with two Python clients that acknowledge each message")
def client_queue(run: Run) -> None:
    if not (checkout(AGAINST) / "src" / "goqueue" / "client" / "queues").is_dir():
        raise Skipped(f"the client of {commit_of(AGAINST)} is not on Kafka's wire")
    _queue(run, "Python client", "_queue_goqueue:Batches")


def _queue(run: Run, label: str, way: str) -> None:
    with _both(run) as brokers:

        def message_s(broker: BrokerProcess, turn: int) -> float:
            topic = f"{label.replace(' ', '-')}-{turn}"
            folder = run.scratch / f"{topic}-{broker.name.replace(' ', '-')}"
            return 1 / measure(Queue(way, broker, topic), folder, QUEUE_S).rate

        _in_pairs(run, brokers, f"messages acknowledged, {label}", message_s)
    run.note(f"{PAIRS} pairs of {QUEUE_S:.0f} s")


@benchmark("transactions", "Transactions of 100 messages")
def transactions(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_transaction_client") as client:
        for broker in brokers:
            client.call("make", address=broker.address, topic="transacted", partitions=3)

        def transaction_s(broker: BrokerProcess, _turn: int) -> float:
            asked = {"topic": "transacted", "size": 100, "count": TRANSACTED, "each": 100}
            sent = client.call("produce", address=broker.address, **asked)
            expect(sent["left"] == 0, f"{broker.name}: {sent['left']} messages were left")
            return float(sent["seconds"]) / (TRANSACTED / 100)

        _in_pairs(run, brokers, "transactions", transaction_s)
    run.note(f"{PAIRS} pairs; librdkafka, three partitions")


@benchmark("delay", "Messages delayed by a day, in a gRPC stream")
def delay(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_delay_client") as client:
        for broker in brokers:
            client.call("create", address=grpc_address(broker), topic="delayed")

        def delayed_s(broker: BrokerProcess, _turn: int) -> float:
            asked = {"topic": "delayed", "count": DELAYED, "batch": 100, "delay_ms": DAY_MS}
            taken = client.call("stream", address=grpc_address(broker), **asked)
            expect(not taken["failed"], f"{broker.name}: {taken}")
            return float(taken["seconds"]) / DELAYED

        _in_pairs(run, brokers, "messages delayed", delayed_s)
    run.note(f"{PAIRS} pairs; requests of 100 messages")


@benchmark("start", "From spawning a server on an empty folder until it listens")
def start(run: Run) -> None:
    names = (commit_of(AGAINST), NOW)
    sources = {names[0]: checkout(AGAINST), NOW: with_bytecode(ROOT)}
    turns = Turns(plain=names[0])
    for turn in run.progress(PAIRS + 1, "start"):
        for name in names if turn % 2 == 0 else reversed(names):
            with ExitStack() as stack:
                folder = run.scratch / f"{name.replace(' ', '-')}-{turn}"
                server = stack.enter_context(start_goqueue(folder, source=sources[name]))
                if turn:
                    turns.add(name, server.ready_at - server.spawned_at)
    turns.report_rates(run, "starts:", 1, "a second")
    run.note(f"{PAIRS} pairs")
