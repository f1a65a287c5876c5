"""The metrics of clusters of several nodes; a node on its own has none of them."""

from __future__ import annotations

from typing import Final

from goqueue.metrics.kinds import CounterName, Definition, GaugeName

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
CONTROLLER_ELECTIONS: Final = CounterName(
    "cluster_controller_elections_total", "Times that this node became the controller."
)

OF_CLUSTERS: Final[tuple[Definition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Definition)
)
