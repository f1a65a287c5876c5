"""The broker is killed while Spark reads; an oracle compares what was acknowledged with what came.

pytest -m slow tests/spark
"""

from __future__ import annotations

import random
import threading
import time
from functools import partial

import pytest

from goqueue.records import Record
from support.server import ServerProcess, start_server
from support.streamed_rows import Rows, wait_for
from support.topic_writer import TopicWriter

__all__ = ["start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 3
TOPIC = "survivors"


@pytest.fixture
def server(start_server):
    """With the topic in it; what it acknowledges outlives it."""
    made = start_server("--fsync=always")
    with TopicWriter(made.kafka_address) as writer:
        writer.create(TOPIC, PARTITIONS)
    return made


class Producing:
    """Writes numbers for as long as it is told to, and knows which were acknowledged."""

    def __init__(self, server: ServerProcess) -> None:
        self._writer = TopicWriter(server.kafka_address)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[tuple[int, int, bytes]] = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join(60)

    def _run(self):
        number = 0
        with self._writer as writer:
            while not self._done.is_set():
                values = [b"%d" % n for n in range(number, number + 50)]
                partition = number // 50 % PARTITIONS
                now = int(time.time() * 1000)
                records = [Record(n, now, None, value) for n, value in enumerate(values)]
                first = writer.append(TOPIC, partition, records)
                self.acknowledged += [
                    (partition, first + n, value) for n, value in enumerate(values)
                ]
                number += 50
                self._done.wait(0.02)


def test_a_stream_misses_and_doubles_nothing_when_broker_and_query_are_killed(
    spark, server, tmp_path
):
    rows = Rows()

    def start():
        return (
            spark.readStream.format("goqueue")
            .option("bootstrap.servers", server.kafka_address)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "700")
            .load()
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(rows)
            .start()
        )

    query = start()
    chance = random.Random(7)
    with Producing(server) as producing:
        for _ in range(3):
            wanted = len(rows.all) + 300
            wait_for(partial(rows.has_more_than, wanted), query, "progress")
            time.sleep(chance.random())
            server.kill()
            time.sleep(chance.random())
            server.start()
            query.stop()
            query = start()
    expected = sorted(producing.acknowledged)
    wait_for(lambda: len(rows.all) >= len(expected), query, "the rest")
    query.stop()
    found = rows.all
    assert len(set(found)) == len(found)
    places = {(partition, offset) for partition, offset, _ in found}
    assert len(places) == len(found)
    assert set(expected) <= set(found)


def test_a_batch_query_goes_on_when_the_broker_is_killed(spark, server):
    with TopicWriter(server.kafka_address) as writer:
        for number in range(90):
            records = [Record(n, int(time.time() * 1000), None, bytes(10_000)) for n in range(100)]
            writer.append(TOPIC, number % PARTITIONS, records)
    frame = (
        spark.read.format("goqueue")
        .option("bootstrap.servers", server.kafka_address)
        .option("subscribe", TOPIC)
        .option("chunkBytes", "64k")
        .option("minPartitions", "4")
        .load()
    )
    assert frame.rdd.getNumPartitions() == 4  # planned while the broker is there
    found = []
    reading = threading.Thread(
        target=lambda: found.append(frame.selectExpr("count(*)", "sum(offset)").collect()[0])
    )
    reading.start()
    time.sleep(0.4)
    server.kill()
    time.sleep(1.0)
    server.start()
    reading.join(120)
    per_partition = 3000
    total = PARTITIONS * per_partition
    assert tuple(found[0]) == (total, PARTITIONS * sum(range(per_partition)))
