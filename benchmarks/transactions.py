"""What a transaction costs its producer, and its readers."""

from __future__ import annotations

from typing import Final

from benchmarks._brokers import start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark

PLAIN: Final = "idempotent, no transactions"
SIZE: Final = 100
PARTITIONS: Final = 3
PRODUCED: Final = 100_000
TURNS: Final = 5
WAYS: Final = {
    PLAIN: 0,
    "10 000 messages a transaction": 10_000,
    "100 messages a transaction": 100,
}
READERS: Final = {"read uncommitted": "read_uncommitted", "read committed": "read_committed"}


@benchmark("produce", "librdkafka produces 100-byte messages with and without transactions")
def produce(run: Run) -> None:
    turns = Turns(plain=PLAIN)
    used_s: dict[str, float] = {}
    with (
        start_goqueue(run.scratch / "data") as broker,
        ClientProcess("_transaction_client") as client,
    ):
        address = broker.address
        topics = {way: f"topic-{each}" for way, each in WAYS.items()}
        for topic in topics.values():
            client.call("make", address=address, topic=topic, partitions=PARTITIONS)
        for turn in run.progress(TURNS + 1, "produce"):
            for way, each in WAYS.items():
                before_s = broker.cpu_s()
                sent = client.call(
                    "produce",
                    address=address,
                    topic=topics[way],
                    size=SIZE,
                    count=PRODUCED,
                    each=each,
                )
                expect(sent["left"] == 0, f"{way}: {sent['left']} messages were left")
                if turn > 0:  # the first one opens connections
                    turns.add(way, sent["seconds"])
                    used_s[way] = used_s.get(way, 0.0) + broker.cpu_s() - before_s
        for topic in topics.values():
            client.call(
                "consume",
                address=address,
                topic=topic,
                partitions=PARTITIONS,
                count=PRODUCED * (TURNS + 1),
                isolation="read_committed",
            )  # raises unless everything is there, once
    turns.report_rates(run, "messages:", PRODUCED, "messages/s")
    _report_transaction(run, turns)
    _report_cpu(run, used_s)
    run.note(f"{TURNS} turns of {PRODUCED} messages, {PARTITIONS} partitions, fsync interval")
    run.note("both cores are shared with the client; every message was read back, committed, once")


def _report_transaction(run: Run, turns: Turns) -> None:
    """What one transaction adds, from its first partition to the answer to its commit."""
    plain_s = turns.seconds(PLAIN)
    for way, each in WAYS.items():
        if each:
            count = PRODUCED // each
            run.row(
                f"a transaction: {way}", (turns.seconds(way) - plain_s) / count * 1e3, "ms more"
            )


def _report_cpu(run: Run, used_s: dict[str, float]) -> None:
    plain_s = used_s[PLAIN]
    for way, seconds in used_s.items():
        each_us = seconds / (PRODUCED * TURNS) * 1e6
        label = f"broker CPU a message: {way}"
        if way == PLAIN:
            run.row(label, each_us, "µs")
        else:
            run.row(label, each_us, "µs", seconds / plain_s, f"broker CPU a message: {PLAIN}")


@benchmark("consume", "librdkafka reads 100-byte messages of transactions, committed or whatever")
def consume(run: Run) -> None:
    turns = Turns(plain="read uncommitted")
    with (
        start_goqueue(run.scratch / "data") as broker,
        ClientProcess("_transaction_client") as client,
    ):
        address = broker.address
        client.call("make", address=address, topic="t", partitions=PARTITIONS)
        client.call("produce", address=address, topic="t", size=SIZE, count=5 * PRODUCED, each=1000)
        for _ in run.progress(TURNS, "consume"):
            for way, isolation in READERS.items():
                seconds = client.call(
                    "consume",
                    address=address,
                    topic="t",
                    partitions=PARTITIONS,
                    count=5 * PRODUCED,
                    isolation=isolation,
                )
                turns.add(way, seconds)
    turns.report_rates(run, "messages:", 5 * PRODUCED, "messages/s")
    run.note(f"{5 * PRODUCED} messages in transactions of 1000, {TURNS} turns")
