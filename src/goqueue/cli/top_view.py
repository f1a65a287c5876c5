"""What `goqueue top` knows at one moment, and what two moments say about the time between them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.internal_topics import is_internal_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goqueue.protocols.http.operations.cluster_shapes import ClusterNode
    from goqueue.protocols.http.operations.operation_shapes import Readiness

_SAMPLE: Final = re.compile(r"goqueue_(\w+)\{(.*)\} (\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

_LARGEST: Final = frozenset(
    {"consumer_oldest_unacked_age_seconds", "consumer_time_to_drain_seconds"}
)
"""What makes no sense added up: of the topics of a group, the worst counts."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters and gauges of one moment, by metric and then by topic or group."""

    at_s: float
    by_topic: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    by_group: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    lag_by_node: Mapping[int, float] = field(default_factory=dict)
    """Messages that followers lack of what this node leads."""
    parts: Mapping[int, Sample] = field(default_factory=dict)
    """Of a cluster: what each node says, by its id."""


def merged(parts: Mapping[int, Sample]) -> Sample:
    """What the nodes of a cluster say; the first is the one that was asked.

    Each knows the topics of all, and the groups that it coordinates.
    """
    first = next(iter(parts.values()))
    by_group: dict[str, dict[str, float]] = defaultdict(dict)
    states: dict[str, str] = {}
    lags: dict[int, float] = defaultdict(float)
    for part in parts.values():
        for name, values in part.by_group.items():
            by_group[name] |= values
        states |= part.states
        for node_id, lag in part.lag_by_node.items():
            lags[node_id] += lag
    return Sample(first.at_s, first.by_topic, by_group, states, lags, parts)


def parse_sample(text: str, at_s: float) -> Sample:
    """What the metrics of a server say; partitions are summed up."""
    by_topic: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    by_group: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    states: dict[str, str] = {}
    lags: dict[int, float] = defaultdict(float)
    for name, labels, value in _samples(text):
        if name == "cluster_replication_lag":
            lags[int(labels["target_node_id"])] += value
        elif name == "consumer_group_state":
            if value:
                states[labels["consumer_group"]] = labels["state"]
        elif name in _LARGEST:
            known = by_group[name][labels["consumer_group"]]
            by_group[name][labels["consumer_group"]] = max(known, value)
        elif labels.get("consumer_group"):
            by_group[name][labels["consumer_group"]] += value
        elif "topic" in labels:
            by_topic[name][labels["topic"]] += value
    return Sample(at_s, by_topic, by_group, states, lags)


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in text.splitlines():
        if (found := _SAMPLE.fullmatch(line)) is not None:
            labels = {name: _unescaped(value) for name, value in _LABEL.findall(found[2])}
            yield found[1], labels, float(found[3])


def _unescaped(value: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), value)


def frame(
    before: Sample,
    now: Sample,
    readiness: Readiness | None,
    server: str,
    nodes: Sequence[ClusterNode] = (),
) -> dict[str, Any]:
    """One picture of the server: what it holds, and what happened between two samples.

    With the `nodes` of a cluster, one of the cluster.
    """
    topics = _topics(before, now)
    groups = _groups(now)
    broker = None if readiness is None else readiness.broker
    checks = None if readiness is None else readiness.checks
    return {
        "server": server,
        "status": "unknown" if readiness is None else readiness.status,
        "trouble": {name: each for name, each in (checks or {}).items() if each != "ok"}
        | _node_troubles(now, nodes),
        "failed_partitions": [] if broker is None else broker.failed_partitions,
        "uptime_s": 0.0 if broker is None else broker.uptime_s,
        "size_bytes": 0 if broker is None else broker.size_bytes,
        "in_per_s": round(sum(each["in_per_s"] for each in topics), 1),
        "out_per_s": round(sum(each["out_per_s"] for each in topics), 1),
        "lag": sum(each["lag"] for each in groups),
        "topics": topics,
        "groups": groups,
        "nodes": [
            {
                "node": each.node_id,
                "state": each.state,
                "controller": each.controller,
                "leads": each.leads,
                "replicas": each.replicas,
                "in_sync": each.in_sync,
                "lag": int(now.lag_by_node.get(each.node_id, 0)),
            }
            for each in nodes
        ],
    }


def _node_troubles(now: Sample, nodes: Sequence[ClusterNode]) -> dict[str, str]:
    """The nodes that others do not count on, and those that did not answer."""
    troubles = {}
    for each in nodes:
        if each.state != "active":
            troubles[f"node {each.node_id}"] = f"it is {each.state}"
        elif each.node_id not in now.parts:
            troubles[f"node {each.node_id}"] = "it did not answer: what it counts is missing"
    return troubles


def _topics(before: Sample, now: Sample) -> list[dict[str, Any]]:
    consumed = "broker_messages_fetched_total"
    found = []
    for name, partitions in now.by_topic.get("broker_topic_partitions", {}).items():
        if is_internal_topic(name):
            continue
        found.append(
            {
                "topic": name,
                "partitions": int(partitions),
                "messages": int(now.by_topic.get("broker_topic_messages", {}).get(name, 0)),
                "size_bytes": int(now.by_topic.get("storage_log_size_bytes", {}).get(name, 0)),
                "in_per_s": _rate(before, now, "broker_messages_published_total", name),
                "in_bytes_per_s": _rate(before, now, "broker_bytes_published_total", name),
                "out_per_s": _rate(before, now, consumed, name),
                "out_bytes_per_s": _rate(before, now, "broker_bytes_consumed_total", name),
            }
        )
    return sorted(found, key=lambda each: (-each["in_per_s"], -each["out_per_s"], each["topic"]))


def _groups(now: Sample) -> list[dict[str, Any]]:
    ages = now.by_group.get("consumer_oldest_unacked_age_seconds", {})
    drains = now.by_group.get("consumer_time_to_drain_seconds", {})
    found = [
        {
            "group": name,
            "state": now.states.get(name, "unknown"),
            "members": int(members),
            "lag": int(now.by_group.get("consumer_lag", {}).get(name, 0)),
            "oldest_s": ages.get(name),
            **_draining(drains.get(name)),
        }
        for name, members in now.by_group.get("consumer_group_members", {}).items()
    ]
    return sorted(found, key=lambda each: (-each["lag"], each["group"]))


def _draining(seconds: float | None) -> dict[str, Any]:
    """When nothing will be left; None while nobody knows, and when it does not become less."""
    if seconds is None or not math.isinf(seconds):
        return {"drain_s": seconds, "catches_up": None if seconds is None else True}
    return {"drain_s": None, "catches_up": False}


def _rate(before: Sample, now: Sample, metric: str, name: str) -> float:
    """Of a counter; one that went back began anew with its server, and all of it is new.

    Of a cluster, of the nodes that have answered both times.
    """
    if now.parts:
        both = now.parts.keys() & before.parts.keys()
        rates = (_rate(before.parts[each], now.parts[each], metric, name) for each in both)
        return round(sum(rates), 1)
    later = now.by_topic.get(metric, {}).get(name, 0.0)
    earlier = before.by_topic.get(metric, {}).get(name, 0.0)
    span_s = now.at_s - before.at_s
    if span_s <= 0:
        return 0.0
    return round((later - earlier if later >= earlier else later) / span_s, 1)
