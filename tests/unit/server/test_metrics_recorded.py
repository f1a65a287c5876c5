"""Every metric that is promised is recorded: a node lives through all that there is to measure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.metrics import names
from goqueue.metrics.cluster_names import OF_CLUSTERS
from goqueue.metrics.kinds import CounterName, GaugeName, HistogramName
from goqueue.metrics.security_names import OF_SECURITY
from goqueue.metrics.webhook_names import OF_WEBHOOKS
from support.clocks import ManualClock
from support.everything import live_through_everything, node_with_a_past
from support.server import HOST

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.metrics.registry import Reading


def _moved(reading: Reading, name: CounterName | HistogramName) -> bool:
    if isinstance(name, HistogramName):
        return any(sum(found.counts) for found in reading.distributions[name].values())
    return any(reading.values[name].values())


def test_every_metric_has_a_sample_and_what_happened_has_moved_it(tmp_path: Path) -> None:
    clock = ManualClock()
    node = node_with_a_past(tmp_path, clock)

    async def scenario() -> Reading:
        await node.start()
        try:
            await live_through_everything(node, clock)
            _, writer = await asyncio.open_connection(HOST, node.kafka.port)
            reading = node.broker.metrics.read()
            writer.close()
            await writer.wait_closed()
            return reading
        finally:
            await node.stop()

    reading = asyncio.run(scenario())
    every = [name for name in names.ALL if name not in {*OF_CLUSTERS, *OF_SECURITY, *OF_WEBHOOKS}]
    gauges = [name for name in every if isinstance(name, GaugeName)]
    others = [name for name in every if isinstance(name, CounterName | HistogramName)]
    assert [name.name for name in gauges if not reading.values.get(name)] == []
    assert [name.name for name in others if not _moved(reading, name)] == []
    assert len(gauges) + len(others) == len(every)
    assert set(reading.values[names.ACTIVE_CONNECTIONS]) == {("kafka",), ("http",)}
    assert set(reading.values[names.SNAPSHOTS_CREATED]) >= {("producers",), ("groups",)}
    lookups = reading.distributions[names.INDEX_LOOKUP_LATENCY]
    assert {labels for labels, found in lookups.items() if sum(found.counts)} == {
        ("offset",),
        ("time",),
    }
    by_priority = reading.values[names.PRIORITY_PUBLISHED]
    assert by_priority == {("t", "high"): 2, ("t", "normal"): 2}  # the delayed one is normal
    states = reading.values[names.NODE_STATE]
    assert states[("ready",)] == 1 == sum(states.values())
    assert (OFFSETS_TOPIC,) in reading.values[names.BYTES_WRITTEN]
