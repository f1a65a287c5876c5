"""What a node of a cluster tells of itself and of the partitions that it leads, as metrics.

A partition is told of by its leader, a partition without one by the controller: the sum over all
nodes is right.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from goqueue.insight.gauges import BrokerGauges
from goqueue.metrics import cluster_names, names
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.cluster.facts import ClusterFacts
    from goqueue.cluster.records import PartitionKey, PartitionRecord
    from goqueue.cluster.view import ClusterView
    from goqueue.cluster.view_keeper import Touched
    from goqueue.insight.gauges import GaugeServices
    from goqueue.metrics.registry import Samples

PREFERRED: Final = "preferred"
FAILOVER: Final = "failover"
FIRST: Final = "first"
"""Kinds of elections: back to the preferred leader, after another one, and of a new partition."""


class _Seen(NamedTuple):
    """What the counters compare with; of each partition that this node holds."""

    leader: int | None
    epoch: int
    isr: frozenset[int]
    elr: frozenset[int]


class ClusterGauges(BrokerGauges):
    """A source of metrics: as of one node, and of the cluster around it."""

    def __init__(self, services: GaugeServices, view: ClusterView, facts: ClusterFacts) -> None:
        super().__init__(services)
        self._view = view
        self._node_id = facts.node_id
        self._seen: dict[PartitionKey, _Seen] = {}
        """As many as partitions that this node holds."""
        self._was_controller = False
        self._controller_elections = 0
        self._shrinks = self._expands = self._unclean = 0
        self._elections: Counter[tuple[str, str]] = Counter()
        for key in view.partitions:
            self._follow_partition(key)

    # --- Counting --------------------------------------------------------------------------------

    def follow(self, touched: Touched) -> None:
        """Count what has changed in the view."""
        for key in touched.partitions:
            self._follow_partition(key, counts=True)
        if touched.controller or touched.nodes:
            self._follow_controller()

    def _follow_controller(self) -> None:
        is_controller = self._view.controller_id() == self._node_id
        if is_controller and not self._was_controller:
            self._controller_elections += 1
        self._was_controller = is_controller

    def _follow_partition(self, key: PartitionKey, *, counts: bool = False) -> None:
        stored = self._view.partitions.get(key)
        before = self._seen.pop(key, None)
        if stored is None or self._node_id not in stored.value.replicas:
            return
        record = stored.value
        seen = _Seen(record.leader, record.epoch, frozenset(record.isr), frozenset(record.elr))
        self._seen[key] = seen
        if counts and record.leader == self._node_id:
            self._count(key, record, before, seen)

    def _count(
        self, key: PartitionKey, record: PartitionRecord, before: _Seen | None, now: _Seen
    ) -> None:
        if before is None or before.epoch != now.epoch:
            kind = PREFERRED if record.preferred == self._node_id else FAILOVER
            if before is None:
                kind = FIRST
            topic = self._services.topics.catalogue.by_id.get(key.topic_id)
            self._elections["" if topic is None else topic.name, kind] += 1
            if before is not None and self._node_id not in before.isr | before.elr:
                self._unclean += 1
        if before is not None and before.leader == self._node_id:
            self._shrinks += len(before.isr - now.isr)
            self._expands += len(now.isr - before.isr)

    # --- Telling ---------------------------------------------------------------------------------

    def _put_replicas(self, samples: Samples, count: int, failed: int) -> None:
        self._follow_controller()
        samples.put(cluster_names.CONTROLLER_ELECTIONS, self._controller_elections)
        leads = behind = moved = offline = 0
        smallest: dict[str, int] = {}
        by_id = self._services.topics.catalogue.by_id
        for key, stored in self._view.partitions.items():
            record = stored.value
            if record.leader is None or not self._view.is_alive(record.leader):
                offline += 1
            elif record.leader == self._node_id:
                leads += 1
                moved += record.preferred != self._node_id
                behind += len(record.isr) < len(record.replicas)
                if (topic := by_id.get(key.topic_id)) is not None:
                    size = len(record.isr)
                    smallest[topic.name] = min(size, smallest.get(topic.name, size))
        samples.put(names.PARTITION_COUNT, count)
        samples.put(names.LEADERS, leads)
        samples.put(cluster_names.FOLLOWERS, max(count - leads, 0))
        samples.put(names.OFFLINE_PARTITIONS, offline if self._was_controller else 0)
        samples.put(names.UNDER_REPLICATED, behind + failed)
        samples.put(cluster_names.PREFERRED_IMBALANCE, moved)
        samples.put(cluster_names.ISR_SHRINKS, self._shrinks)
        samples.put(cluster_names.ISR_EXPANDS, self._expands)
        samples.put(cluster_names.UNCLEAN_ELECTIONS, self._unclean)
        for name, size in smallest.items():
            samples.put(cluster_names.ISR_SIZE, size, name)
        for labels, elections in self._elections.items():
            samples.put(cluster_names.LEADER_ELECTIONS, elections, *labels)
