"""What a node of a cluster measures of the others: how far they follow, and how they are heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.metrics import cluster_names as names

if TYPE_CHECKING:
    from goqueue.cluster.view import ClusterView
    from goqueue.metrics.registry import Metrics, Samples
    from goqueue.partitions.replication.replicas import Replicas
    from goqueue.server.cluster.pings import Pings


def watch_latencies(pings: Pings, view: ClusterView, metrics: Metrics) -> None:
    """Note round trips to every other node that is registered."""
    for node_id in view.nodes:
        if node_id != pings.node_id and node_id not in pings.latencies:
            latency = metrics.histogram(names.NODES_LATENCY, str(node_id))
            pings.latencies[node_id] = latency


def put_pings(samples: Samples, pings: Pings) -> None:
    """How the others are heard."""
    samples.put(names.HEARTBEATS_RECEIVED, pings.received_count)
    samples.put(names.HEARTBEATS_MISSED, pings.missed_count)
    samples.put(names.FAILURE_DETECTIONS, pings.detection_count)
    for node_id, skew_ms in pings.skews_ms().items():
        samples.put(names.CLOCK_SKEW, skew_ms / 1000, str(node_id))


def put_replication_lag(samples: Samples, replicas: Replicas) -> None:
    """How many messages followers lack of what this node leads."""
    for led in replicas.led.by_key.values():
        start, end = led.partition.log_start, led.partition.log_end
        for node_id, follower in led.progress.followers.items():
            lag = max(end - max(follower.position, start), 0)
            samples.put(names.REPLICATION_LAG, lag, led.partition.id.topic, str(node_id))
