"""What tracing costs publishers: off, one batch in a hundred, as it comes, and every one."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import TYPE_CHECKING, Final

from benchmarks._brokers import start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark
from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.requests import PublishRequest
from goqueue.records import Compression, Record, encode
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk

if TYPE_CHECKING:
    from goqueue.records import Headers

OFF: Final = "off"
WAYS: Final = {OFF: "0", "1 %": "0.01", "as it comes": "default", "100 %": "1"}
VALUE: Final = b"x" * 100
PRODUCED: Final = 200_000
PRODUCE_TURNS: Final = 9
BATCHES: Final = 2000
BATCH_TURNS: Final = 15
_OWN: Final = (("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),)


@benchmark("produce", "librdkafka produces 100-byte messages to topics that are traced or not")
def produce(run: Run) -> None:
    turns = Turns(plain=OFF)
    used_s: dict[str, float] = {}
    value = base64.b64encode(VALUE).decode()
    with (
        start_goqueue(run.scratch / "data") as broker,
        ClientProcess("_schema_client") as client,
    ):
        for rate in WAYS.values():
            settings = {"goqueue.trace": rate}
            client.call("make", address=broker.address, topic=f"t{rate}", settings=settings)
        for turn in run.progress(PRODUCE_TURNS + 1, "produce"):
            for way, rate in WAYS.items():
                before_s = broker.cpu_s()
                sent = client.call(
                    "produce", address=broker.address, topic=f"t{rate}", value=value, count=PRODUCED
                )
                expect(sent["left"] == 0, f"{way}: {sent['left']} messages were left")
                if turn > 0:
                    turns.add(way, sent["seconds"])
                    used_s[way] = used_s.get(way, 0.0) + broker.cpu_s() - before_s
        for rate in WAYS.values():
            end = client.call("end", address=broker.address, topic=f"t{rate}")
            expect(end == PRODUCED * (PRODUCE_TURNS + 1), f"{end} messages of t{rate} are stored")
    turns.report_rates(run, "messages: traced", PRODUCED, "messages/s")
    for way, seconds in used_s.items():
        label = f"broker CPU a message: traced {way}"
        each_us = seconds / (PRODUCED * PRODUCE_TURNS) * 1e6
        plain = f"broker CPU a message: traced {OFF}"
        if way == OFF:
            run.row(label, each_us, "µs")
        else:
            run.row(label, each_us, "µs", seconds / used_s[OFF], plain)
    run.note(f"{PRODUCE_TURNS} turns of {PRODUCED} messages, 1 partition, acks=all, linger 5 ms")
    run.note("100 % of batches without traceparent: what a batch of any size costs is three events")


@benchmark("publish", "Batches of 100 messages of 100 bytes into a broker in this process")
def publish(run: Run) -> None:
    asyncio.run(_publish(run))


async def _publish(run: Run) -> None:
    store = await SqliteMetadataStore.open(
        run.scratch / "metadata.db", disk=SystemDisk(), clock=SystemClock()
    )
    broker = Broker(BrokerSettings(run.scratch), store)
    await broker.start()
    try:
        kinds = {
            "one message": _batch(1),
            "plain batch": _batch(100),
            "lz4 batch": _batch(100, Compression.LZ4),
            "batch with traceparents": _batch(100, headers=_OWN),
        }
        for rate in WAYS.values():
            await broker.create_topic(f"t{rate}", 1, {"goqueue.trace": rate})
        for kind, batch in kinds.items():
            turns = Turns(plain=OFF)
            for _ in run.progress(BATCH_TURNS, kind):
                for way, rate in WAYS.items():
                    turns.add(way, _append(broker, TopicPartition(f"t{rate}", 0), batch))
                    await broker.traces.flush()
            turns.report_rates(run, f"{kind}, traced", BATCHES, "batches/s")
    finally:
        await broker.stop()
        await store.close()
    run.note(f"{BATCH_TURNS} turns of {BATCHES} batches; events are written to files in between")


def _append(broker: Broker, partition: TopicPartition, batch: bytearray) -> float:
    before = broker.partitions.partition(partition).log_end
    publisher = broker.publisher
    started = time.perf_counter()
    for _ in range(BATCHES):
        publisher.publish(PublishRequest(partition, memoryview(batch)))
    seconds = time.perf_counter() - started
    expect(broker.partitions.partition(partition).log_end > before, "nothing was stored")
    return seconds


def _batch(
    count: int, compression: Compression = Compression.NONE, headers: Headers = ()
) -> bytearray:
    now_ms = time.time_ns() // 1_000_000
    records = [Record(at, now_ms, None, VALUE, headers) for at in range(count)]
    return encode(records, compression=compression)
