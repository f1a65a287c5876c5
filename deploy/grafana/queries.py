"""What many panels ask for, in PromQL."""
# ruff: noqa: INP001 - scripts beside what they write, not a package

from __future__ import annotations

from typing import Final

from panels import Choice, Query

RATE: Final = "$__rate_interval"
NODE: Final = 'node_id=~"$node"'
TOPIC: Final = f'{NODE},topic=~"$topic"'
GROUP: Final = f'{NODE},consumer_group=~"$group"'
BOTH: Final = f'{TOPIC},consumer_group=~"$group"'

NODES: Final = Choice("node", "Node", "label_values(goqueue_broker_topic_count, node_id)")
TOPICS: Final = Choice("topic", "Topic", "label_values(goqueue_broker_topic_partitions, topic)")
GROUP_IDS: Final = Choice(
    "group", "Group", "label_values(goqueue_consumer_group_members, consumer_group)"
)


def rate(metric: str, labels: str, by: str = "") -> str:
    """How much a counter grows a second."""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({metric}{{{labels}}}[{RATE}]))"


def percentile(metric: str, labels: str, quantile: float, by: str = "") -> str:
    """The value below which that share of measurements lies."""
    grouping = f"{by}, le" if by else "le"
    return (
        f"histogram_quantile({quantile}, "
        f"sum by ({grouping}) (rate({metric}_bucket{{{labels}}}[{RATE}])))"
    )


def percentiles(metric: str, labels: str) -> list[Query]:
    """The middle, and what the slow ones get."""
    return [
        Query(percentile(metric, labels, quantile), legend)
        for quantile, legend in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    ]
