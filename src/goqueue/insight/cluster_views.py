"""What people see of a cluster: its nodes, its partitions, and whether all is well."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.cluster.facts import ClusterFacts, MemberFacts, PartitionFacts
    from goqueue.topics.catalogue import Topics

_MIN_ISR: Final = "min.insync.replicas"


class NodeLine(NamedTuple):
    """A node, and how many partitions it has."""

    member: MemberFacts
    is_controller: bool
    leads: int
    replicas: int
    in_sync: int


class PartitionLine(NamedTuple):
    """A partition, and who holds it."""

    topic: str
    number: int
    facts: PartitionFacts
    min_isr: int

    @property
    def is_offline(self) -> bool:
        """Whether nobody leads it: it can be neither read nor written."""
        return self.facts.leader is None

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync, or on a node that is away."""
        return self.facts.is_under_replicated

    @property
    def is_under_minimum(self) -> bool:
        """Whether too few are in sync for an acks=all publish."""
        return len(self.facts.isr) < min(self.min_isr, len(self.facts.replicas))


class Verdict(NamedTuple):
    """Whether all is well in a cluster, and what is not."""

    is_serving: bool
    """Every partition has a leader and takes acks=all publishes, and there is a controller."""
    problems: tuple[str, ...]
    """None when all is well."""
    node_count: int
    active_count: int
    offline_count: int
    under_replicated_count: int
    under_minimum_count: int


class ClusterViews:
    """Looks at a cluster, as far as this node knows it."""

    def __init__(self, facts: ClusterFacts, topics: Topics) -> None:
        self._facts = facts
        self._topics = topics

    def partitions(self) -> Iterator[PartitionLine]:
        """Every partition, by topic and number."""
        by_name = self._topics.catalogue.by_name
        for name in sorted(by_name):
            topic = by_name[name]
            minimum = topic.settings.number(_MIN_ISR)
            for number in range(topic.partition_count):
                facts = self._facts.partition(topic.topic_id, number)
                yield PartitionLine(name, number, facts, minimum)

    def nodes(self) -> list[NodeLine]:
        """Every node that belongs to the cluster, by its id."""
        leads: Counter[int | None] = Counter()
        replicas: Counter[int] = Counter()
        in_sync: Counter[int] = Counter()
        for line in self.partitions():
            leads[line.facts.leader] += 1
            replicas.update(line.facts.replicas)
            in_sync.update(line.facts.isr)
        controller = self._facts.controller_id()
        return [
            NodeLine(
                each,
                each.node_id == controller,
                leads[each.node_id],
                replicas[each.node_id],
                in_sync[each.node_id],
            )
            for each in self._facts.members()
        ]

    def verdict(self) -> Verdict:
        """Whether all is well."""
        members = self._facts.members()
        lines = list(self.partitions())
        offline = sum(line.is_offline for line in lines)
        behind = sum(line.is_under_replicated for line in lines)
        short = sum(line.is_under_minimum and not line.is_offline for line in lines)
        problems = [
            f"node {each.node_id} is {each.state}" for each in members if not each.is_active
        ]
        has_controller = self._facts.controller_id() is not None
        if not has_controller:
            problems.append("no node is the controller")
        if offline:
            problems.append(f"{offline} partitions have no leader")
        if short:
            problems.append(f"{short} partitions have fewer in-sync replicas than {_MIN_ISR}")
        if behind:
            problems.append(f"{behind} partitions have replicas that are not in sync")
        for node_id, ms in self._facts.skewed().items():
            side = "ahead of" if ms > 0 else "behind"
            problems.append(
                f"the clock of node {node_id} is {abs(ms)} ms {side} that of node "
                f"{self._facts.node_id}: synchronise the clocks"
            )
        return Verdict(
            has_controller and not offline and not short,
            tuple(problems),
            len(members),
            sum(each.is_active for each in members),
            offline,
            behind,
            short,
        )
