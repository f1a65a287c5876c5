"""Spark reads a topic of three nodes, and the same topic of one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from benchmarks._client import ClientProcess
from benchmarks._pairs import send
from benchmarks._turns import Turns, expect
from benchmarks.harness import Skipped, timed

if TYPE_CHECKING:
    from benchmarks._pairs import Asked
    from benchmarks.cluster import Both
    from benchmarks.harness import Run

TOPIC: Final = "rows"
PARTITIONS: Final = 6
MESSAGES: Final = int(os.environ.get("GOQUEUE_BENCH_SPARK_MESSAGES", "3000000"))
CHUNK: Final = 200_000
LEAST: Final = 0.9


def measure_reads(run: Run, brokers: Both, turns: int) -> None:
    """A warm batch read of all columns, in alternating turns."""
    try:
        from benchmarks._spark_session import running_spark  # noqa: PLC0415 - it is optional
    except ImportError as error:
        raise Skipped(str(error)) from error
    both: tuple[Asked, ...] = (brokers.one, brokers.cluster)
    with ClientProcess("_cluster_client") as admin, ClientProcess("_kafka_client") as client:
        for broker in both:
            admin.call("make", address=broker.address, topics=[TOPIC], partitions=PARTITIONS)
            brokers.cluster.settle()
            for _ in run.progress(MESSAGES // CHUNK, f"fill {broker.name}"):
                send(client, broker, TOPIC, CHUNK, reports=False)
    stored = MESSAGES // CHUNK * CHUNK
    taken = Turns(plain=brokers.one.name)
    with running_spark(run.scratch) as spark:
        frames = {
            broker.name: spark.read.format("goqueue")
            .option("bootstrap.servers", broker.address)
            .option("subscribe", TOPIC)
            .load()
            for broker in both
        }
        for name, frame in frames.items():
            expect(frame.count() == stored, f"{name} has {stored} messages")
        for turn in run.progress(turns + 1, "read"):
            for broker in brokers.in_turn(turn):
                with timed() as watch:
                    frames[broker.name].write.format("noop").mode("overwrite").save()
                if turn:  # the first warms the JVM
                    taken.add(broker.name, watch.seconds)
    taken.report_rates(run, "rows from", stored, "rows/s")
    ratio = 1 / taken.times_slower(brokers.cluster.name)
    if ratio < LEAST:
        run.note(f"MISSED: Spark reads {ratio:.2f} of one node, at least {LEAST} is asked for")
    run.note(
        f"{stored} messages of 100 bytes in {PARTITIONS} partitions, all columns, local[2], "
        f"{turns} turns into Spark's noop sink"
    )
