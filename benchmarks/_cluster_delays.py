"""Delayed messages on three nodes against one: how fast they are taken in, how late they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks._brokers import grpc_address
from benchmarks._client import ClientProcess
from benchmarks._turns import Turns, expect
from benchmarks.harness import percentiles

if TYPE_CHECKING:
    from benchmarks._pairs import Asked
    from benchmarks.cluster import Both
    from benchmarks.harness import Run

TOPIC: Final = "delayed"
COUNT: Final = 50_000
BATCH: Final = 100
DAY_MS: Final = 86_400_000
AT_ONCE: Final = 10_000
LATE_TURNS: Final = 3
LEAST: Final = 0.4
LATE_MS: Final = 30.0
_UNBOUNDED: Final = {"goqueue.delay.max.pending": "0"}


def measure_delays(run: Run, brokers: Both, turns: int) -> None:
    """Take in messages for tomorrow in alternating turns; then many that are due in one second."""
    taken = Turns(plain=brokers.one.name)
    with (
        ClientProcess("_delay_client") as client,
        ClientProcess("_cluster_client") as admin,
    ):
        for address in (brokers.one.address, brokers.cluster.address):
            made = {"topics": [TOPIC], "partitions": 1, "settings": _UNBOUNDED}
            admin.call("make", address=address, **made)
        brokers.cluster.settle()
        leader = brokers.cluster.leader_of(TOPIC, 0)
        addresses = {
            brokers.one.name: grpc_address(brokers.one),
            brokers.cluster.name: brokers.cluster.grpc_address_of(leader),
        }
        for turn in run.progress(turns + 1, "delay"):
            for broker in brokers.in_turn(turn):
                sent = {"topic": TOPIC, "count": COUNT, "batch": BATCH, "delay_ms": DAY_MS}
                done = client.call("stream", address=addresses[broker.name], **sent)
                expect(not done["failed"], f"{broker.name}: {done}")
                if turn:  # the first connects, and fills caches
                    taken.add(broker.name, done["seconds"] / COUNT)
        taken.report_rates(run, "delayed messages taken in:", 1, "a second")
        ratio = 1 / taken.times_slower(brokers.cluster.name)
        if ratio < LEAST:
            run.note(f"MISSED: taken in: {ratio:.2f} of one node, at least {LEAST} is asked for")
        both: tuple[Asked, ...] = (brokers.one, brokers.cluster)
        for broker in both:
            _report_lateness(run, client, broker, addresses[broker.name])
    run.note(
        f"{turns} turns of {COUNT} messages in gRPC streams of {BATCH} a request, to the leader of "
        f"their partition; lateness by the time stamp of the append, {LATE_TURNS} times {AT_ONCE} "
        "messages"
    )


def _report_lateness(run: Run, client: ClientProcess, broker: Asked, grpc: str) -> None:
    late_ms: list[float] = []
    for _ in run.progress(LATE_TURNS, f"due at once, {broker.name}"):
        asked = {"address": grpc, "kafka": broker.address, "topic": TOPIC, "count": AT_ONCE}
        late_ms += client.call("due_at_once", **asked)
    expect(len(late_ms) == LATE_TURNS * AT_ONCE, f"{len(late_ms)} came")
    expect(min(late_ms) >= 0, f"one came {-min(late_ms)} ms early")
    shown = percentiles(late_ms, (50, 99))
    for rank, value in shown.items():
        run.row(f"{AT_ONCE} due in one second, late: {broker.name} {rank}", value, "ms")
    run.row(f"{AT_ONCE} due in one second, late: {broker.name}, most", max(late_ms), "ms")
    if shown["p99"] > LATE_MS:
        run.note(f"MISSED: late on {broker.name}: p99 {shown['p99']:.0f} ms, {LATE_MS:.0f} asked")
