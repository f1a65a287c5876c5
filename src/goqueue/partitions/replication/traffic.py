"""What replication moves between nodes, counted once a request and never once a message."""

from __future__ import annotations

from goqueue.metrics import cluster_names as names
from goqueue.metrics.registry import Metrics


class ReplicationTraffic:
    """The counters of one node, of both its sides: as a follower and as a leader."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = metrics or Metrics("")
        self.requests = metrics.counter(names.FETCH_REQUESTS)
        self.latency = metrics.histogram(names.FETCH_LATENCY)
        self.replicated = metrics.counter(names.BYTES_REPLICATED)
        self.received = metrics.counter(names.NODES_IN_BYTES)
        self.sent = metrics.counter(names.NODES_OUT_BYTES)
