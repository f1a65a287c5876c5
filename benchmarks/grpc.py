"""Publishing over gRPC: in a stream and one by one, against Kafka's path.

Server and clients are processes of their own on the same machine. Linux only: what a process uses
is read from /proc.
"""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from benchmarks._brokers import PARTITIONS, grpc_address, start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._pairs import send
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark

KAFKA: Final = "Kafka protocol, librdkafka"
STREAM: Final = "stream, requests of 100"
UNARY: Final = "unary, 16 at a time"
ALONE: Final = "unary, one at a time"
COUNT: Final = {KAFKA: 300_000, STREAM: 300_000, UNARY: 8_000, ALONE: 2_000}
TURNS: Final = 5
BATCH: Final = 100
GOAL: Final = 150_000
MICROSECONDS: Final = 1e6
TOPIC: Final = "grpc"


@benchmark("publish", "Publish 100-byte messages over gRPC, against Kafka's protocol")
def publish(run: Run) -> None:
    turns, used_s = Turns(plain=KAFKA), dict.fromkeys(COUNT, 0.0)
    p99_ms: dict[str, list[float]] = {STREAM: [], UNARY: [], ALONE: []}
    with (
        start_goqueue(run.scratch / "data") as server,
        ClientProcess("_grpc_client") as grpc,
        ClientProcess("_kafka_client") as kafka,
    ):
        address = grpc_address(server)
        made = grpc.call("create", address=address, topic=TOPIC, partitions=PARTITIONS)
        expect(made == PARTITIONS, f"{made} partitions")
        total = 0
        for turn in run.progress(TURNS + 1, "publish"):
            for way, count in COUNT.items():
                before_s = server.cpu_s()
                if way == KAFKA:
                    taken = send(kafka, server, TOPIC, count, reports=True)
                else:
                    taken = _publish(grpc, address, way, count)
                total += count
                if turn == 0:
                    continue  # connections open, code is loaded
                used_s[way] += server.cpu_s() - before_s
                turns.add(way, taken["seconds"] / count)
                if way in p99_ms:
                    p99_ms[way].append(taken["p99_ms"])
        stored = grpc.call("stored", address=address, topic=TOPIC)
        expect(stored == total, f"acknowledged {total} and stored {stored} messages")
    turns.report_rates(run, "publish,", 1, "messages/s")
    for way, found in p99_ms.items():
        run.row(f"p99 of a request, {way}", median(found), "ms")
    plain = used_s[KAFKA] / TURNS / COUNT[KAFKA] * MICROSECONDS
    for way, count in COUNT.items():
        each = used_s[way] / TURNS / count * MICROSECONDS
        label = f"server CPU a message, {way}"
        if way == KAFKA:
            run.row(label, each, "µs")
        else:
            run.row(label, each, "µs", each / plain, KAFKA)
    reached = 1 / turns.seconds(STREAM)
    run.note(f"the goal is {GOAL:,} messages/s in a stream of 100; reached {reached / GOAL:.2f}")
    run.note(
        f"{PARTITIONS} partitions, acks=all, fsync=interval; 20 requests on the way in a stream"
    )
    run.note("the broker's own count was equal to what had been acknowledged")


def _publish(grpc: ClientProcess, address: str, way: str, count: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"address": address, "topic": TOPIC, "count": count}
    taken: dict[str, Any]
    if way == STREAM:
        taken = grpc.call("stream", batch=BATCH, partitions=PARTITIONS, **asked)
    else:
        at_once = 16 if way == UNARY else 1
        taken = grpc.call("unary", at_once=at_once, partitions=PARTITIONS, **asked)
    expect(not taken["failed"], f"{way}: {taken}")
    return taken
