"""How a node is, and what its process uses."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

from goqueue.model.errors import DiskError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.health import NodeState, node_state
from support.brokers import running_broker
from support.logs import disk_log

if TYPE_CHECKING:
    from pathlib import Path


def test_a_node_is_as_well_as_the_worst_that_happened_to_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            assert (
                node_state(broker.partitions, broker.publisher.disk_full, is_ready=True)
                is NodeState.READY
            )
            partition = broker.partitions.partition(TopicPartition("t", 0))
            disk_log(partition).flush_failed(DiskError("refused"))
            assert (
                node_state(broker.partitions, broker.publisher.disk_full, is_ready=True)
                is NodeState.DEGRADED
            )
            broker.publisher.disk_full = "too full"
            assert (
                node_state(broker.partitions, broker.publisher.disk_full, is_ready=True)
                is NodeState.READ_ONLY
            )
            assert (
                node_state(broker.partitions, broker.publisher.disk_full, is_ready=False)
                is NodeState.STOPPING
            )
            disk_log(partition).recover()

    asyncio.run(scenario())


def test_a_report_says_what_the_process_uses_and_what_the_disk_has_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            broker.health.start()
            broker.health.watch_collections()
            try:
                gc.collect()
                time.sleep(0.2)  # noqa: ASYNC251 - this is what is to be noticed
                while not broker.health.report().loop_lag_s:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.01)
                report = broker.health.report()
            finally:
                broker.health.stop()
            assert report.process.threads >= 1
            assert 0 < report.disk.free_bytes <= report.disk.total_bytes
            assert report.loop_lag_s >= 0.05
            assert report.gc_collections >= 1
            assert report.gc_pause_s > 0

    asyncio.run(scenario())
