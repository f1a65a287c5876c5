"""The metrics of clusters of several nodes; a node on its own has none of them."""

from __future__ import annotations

from typing import Final

from goqueue.metrics.kinds import Combine, CounterName, Definition, GaugeName, HistogramName

FOLLOWERS: Final = GaugeName(
    "cluster_followers_per_node", "Partitions that this node holds and another one leads."
)
ISR_SIZE: Final = GaugeName(
    "cluster_isr_size",
    "The smallest in-sync set of the partitions of a topic that this node leads.",
    ("topic",),
)
PREFERRED_IMBALANCE: Final = GaugeName(
    "cluster_preferred_leader_imbalance",
    "Partitions that this node leads although another one is their preferred leader.",
)
ISR_SHRINKS: Final = CounterName(
    "cluster_isr_shrinks_total",
    "Replicas that left the in-sync set of a partition that this node leads.",
)
ISR_EXPANDS: Final = CounterName(
    "cluster_isr_expands_total",
    "Replicas that entered the in-sync set of a partition that this node leads.",
)
LEADER_ELECTIONS: Final = CounterName(
    "cluster_leader_elections_total",
    "Times that this node became the leader of a partition, by the kind of election.",
    ("topic", "election_type"),
)
ELECTION_LATENCY: Final = HistogramName(
    "cluster_leader_election_latency_seconds",
    "From a decision of this node, as the controller, who leads up to 60 partitions, to when it is "
    "stored.",
)
UNCLEAN_ELECTIONS: Final = CounterName(
    "cluster_unclean_leader_elections_total",
    "Times that this node became the leader of a partition without having been in sync: committed "
    "messages may be lost.",
)
CONTROLLER_ELECTIONS: Final = CounterName(
    "cluster_controller_elections_total", "Times that this node became the controller."
)

REPLICATION_LAG: Final = GaugeName(
    "cluster_replication_lag",
    "Messages that a follower lacks of the partitions of a topic that this node leads.",
    ("topic", "target_node_id"),
)
FETCH_REQUESTS: Final = CounterName(
    "cluster_fetch_requests_total", "Fetches that this node sent to the leaders that it follows."
)
FETCH_LATENCY: Final = HistogramName(
    "cluster_fetch_latency_seconds",
    "From a fetch of this node to its answer; up to 0.5 s when there is nothing new.",
)
BYTES_REPLICATED: Final = CounterName(
    "cluster_bytes_replicated_total", "Bytes of batches that this node fetched from leaders."
)
NODES_IN_BYTES: Final = CounterName(
    "cluster_inter_broker_network_in_bytes_total",
    "Bytes of fetches and their answers received from other nodes.",
)
NODES_OUT_BYTES: Final = CounterName(
    "cluster_inter_broker_network_out_bytes_total",
    "Bytes of fetches and their answers sent to other nodes.",
)
NODES_LATENCY: Final = HistogramName(
    "cluster_inter_broker_latency_seconds",
    "Round trip of pings to another node, without the time that it took to answer.",
    ("target_node_id",),
)
CLOCK_SKEW: Final = GaugeName(
    "cluster_clock_skew_seconds",
    "By how much the wall clock of another node is ahead of this one's; negative if behind.",
    ("target_node_id",),
    combine=Combine.MAX,
)
FAILURE_DETECTIONS: Final = CounterName(
    "cluster_failure_detections_total", "Times that this node began to suspect another one."
)
HEARTBEATS_RECEIVED: Final = CounterName(
    "cluster_heartbeats_received_total",
    "Heartbeats received from other nodes, ten a second of each.",
)
HEARTBEATS_MISSED: Final = CounterName(
    "cluster_heartbeats_missed_total",
    "Heartbeats of other nodes that were due while none had arrived for 0.3 s.",
)

OF_CLUSTERS: Final[tuple[Definition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Definition)
)
