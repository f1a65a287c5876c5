"""What a scrape of the metrics costs, and how long it holds the event loop."""

from __future__ import annotations

import asyncio
import time
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from benchmarks._turns import expect
from benchmarks.harness import Run, benchmark
from goqueue.metrics import names
from goqueue.metrics.exposition import PREFIX, exposition
from goqueue.metrics.kinds import CounterName, GaugeName, HistogramName
from goqueue.model.topic_partition import TopicPartition
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.server.config_load import load_config
from goqueue.server.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from goqueue.broker.broker import Broker
    from goqueue.metrics.registry import Reading

TOPICS: Final = 500
PARTITIONS: Final = 3
LOG_GROUPS: Final = 40
QUEUE_GROUPS: Final = 10
TURNS: Final = 9
FLAGS: Final = ("--kafka-port", "0", "--http-port", "0", "--grpc-port", "0")


@benchmark("scrape", f"GET /metrics of {TOPICS} topics and {LOG_GROUPS + QUEUE_GROUPS} groups")
def scrape(run: Run) -> None:
    asyncio.run(_scrape(run))


async def _scrape(run: Run) -> None:
    config = load_config(["--data-dir", str(run.scratch / "data"), *FLAGS], environment={})
    node = Node(config)
    await node.start()
    try:
        await _fill(node.broker)
        await _measure(run, node)
    finally:
        await node.stop()


async def _fill(broker: Broker) -> None:
    topics = [f"topic-{number:03}" for number in range(TOPICS)]
    for topic in topics:
        await broker.create_topic(topic, PARTITIONS)
        broker.measures.topic(topic).publish_latency.observe(0.001)
    for number in range(LOG_GROUPS):
        read = topics[number * 10 : number * 10 + 10]
        places = {TopicPartition(topic, part): 0 for topic in read for part in range(PARTITIONS)}
        await broker.group_administrator.set_offsets(f"log-{number}", places)
    for number in range(QUEUE_GROUPS):
        await broker.queue_members.join(
            f"queue-{number}", topics[number : number + 3], QueueSettings()
        )
    await broker.backlogs.look()


async def _measure(run: Run, node: Node) -> None:
    metrics = node.broker.metrics
    reads, writes, library, held = [], [], [], []
    for _ in run.progress(TURNS, "scrape"):
        began_s = time.thread_time()
        reading = metrics.read()
        read_s = time.thread_time()
        _, text = exposition(reading)
        written_s = time.thread_time()
        by_library = generate_latest(_registry(reading))
        reads.append(read_s - began_s)
        writes.append(written_s - read_s)
        library.append(time.thread_time() - written_s)
        held.append(await _held_s(node))
        expect(text.startswith(by_library[:1000]), "both write the same")
    run.row("CPU to read", min(reads) * 1000, "ms")
    plain = "CPU to write, by prometheus-client"
    run.row(plain, min(library) * 1000, "ms")
    run.row("CPU to write", min(writes) * 1000, "ms", min(writes) / min(library), plain)
    run.row("event loop held by a whole reading", min(reads) * 1000, "ms")
    whole = "event loop held by a whole reading"
    run.row("event loop held while scraped", min(held) * 1000, "ms", min(held) / min(reads), whole)
    lines = text.count(b"\n")
    run.note(f"{TOPICS} topics of {PARTITIONS} partitions, {lines} lines, {len(text)} bytes")
    run.note("the loop is held by a slice of the reading, and by the thread that writes the text")


async def _held_s(node: Node) -> float:
    """The longest time in which nothing else had its turn while the metrics were scraped.

    In CPU time of all threads, so that a busy machine does not count.
    """
    longest_s, done = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal longest_s
        before_s = time.process_time()
        while not done.is_set():
            await asyncio.sleep(0)
            now_s = time.process_time()
            longest_s, before_s = max(longest_s, now_s - before_s), now_s

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    reading = await node.broker.metrics.read_in_turns()
    await asyncio.to_thread(exposition, reading)
    done.set()
    await watching
    return longest_s


def _registry(reading: Reading) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Families(reading))
    return registry


class _Families(Collector):
    """The same reading in the words of prometheus-client, which then writes the text."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        for name in names.ALL:
            cut = isinstance(name, GaugeName) and name.per_partition
            labels = ["node_id", *(name.labels[:-1] if cut else name.labels)]
            if isinstance(name, HistogramName):
                yield self._histogram(name, labels)
                continue
            kind = CounterMetricFamily if isinstance(name, CounterName) else GaugeMetricFamily
            family = kind(PREFIX + name.name, name.help, labels=labels)
            for values, value in self._reading.values.get(name, {}).items():
                family.add_metric([self._reading.node_id, *values], value)
            yield family

    def _histogram(self, name: HistogramName, labels: list[str]) -> Metric:
        family = HistogramMetricFamily(PREFIX + name.name, name.help, labels=labels)
        bounds = [*map(str, name.buckets), "+Inf"]
        for values, found in self._reading.distributions[name].items():
            buckets = list(zip(bounds, accumulate(found.counts), strict=True))
            family.add_metric([self._reading.node_id, *values], buckets, found.total)
        return family
