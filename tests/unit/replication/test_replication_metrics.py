"""What nodes count while they replicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.metrics import cluster_names as names
from goqueue.metrics.registry import Samples
from goqueue.server.cluster.node_metrics import put_replication_lag
from support.replicating import TOPIC, replicating
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from support.replicating import ReplicaNode

MESSAGES, SIZE = 20, 1000


def _lag(node: ReplicaNode) -> dict[tuple[str, ...], float]:
    samples = Samples(100, partition_label=False)
    put_replication_lag(samples, node.replicas)
    return samples.values.get(names.REPLICATION_LAG, {})


@scenario
async def test_leaders_and_followers_count_what_moves_between_them(folder: Path) -> None:
    async with replicating(folder, 2) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        for _ in range(MESSAGES):
            cluster[1].publish(b"m", size=SIZE)
        assert _lag(cluster[1]) == {(TOPIC, "2"): MESSAGES}
        await cluster.committed(MESSAGES)
        assert _lag(cluster[1]) == {(TOPIC, "2"): 0}
        assert _lag(cluster[2]) == {}, "it leads nothing"
        leader, follower = cluster[1].metrics, cluster[2].metrics
        stored = len(cluster[2].stored())
        assert follower.total(names.BYTES_REPLICATED) == stored > MESSAGES * SIZE
        assert leader.total(names.BYTES_REPLICATED) == 0
        assert (
            follower.total(names.FETCH_REQUESTS)
            >= sum(follower.total_counts(names.FETCH_LATENCY))
            > 0
        )
        assert leader.total(names.NODES_OUT_BYTES) > stored
        assert follower.total(names.NODES_IN_BYTES) > stored
        assert leader.total(names.NODES_IN_BYTES) > 0 < follower.total(names.NODES_OUT_BYTES)
