"""Units: partitions of internal topics that one node has to lead as a whole.

The state of a queue group refers to the offsets of the group of the same name, and what is known of
delayed messages to the logs that they wait in. A unit has the same replicas throughout, so that one
node can lead all of it. While it is split, as it may be for a moment after an election, nobody
serves it; the controller moves what follows to where the first partition is led.

What is published for later waits in a unit of the node that takes it in, whichever that is. So each
node needs one of those, and gets it as soon as it is in sync, long before leaders are balanced.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from goqueue.cluster import elections
from goqueue.cluster.proposals import PartitionChange
from goqueue.cluster.records import PartitionKey
from goqueue.model.internal_topics import COMPANIONS, DELAY_STATE
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from uuid import UUID

    from goqueue.cluster.records import PartitionRecord
    from goqueue.cluster.view import ClusterView, Stored


class Units(NamedTuple):
    """The units of a cluster."""

    companions: Mapping[PartitionKey, tuple[PartitionKey, ...]]
    """The partitions that belong to another, by that one."""
    needed: frozenset[PartitionKey] = frozenset()
    """The first partitions of those of which every node needs one."""


NO_UNITS: Final = Units(MappingProxyType({}))


def units_of(topics: Mapping[str, tuple[UUID, int]]) -> Units:
    """The units among topics, of which the id and the number of partitions are given by name."""
    units: dict[PartitionKey, tuple[PartitionKey, ...]] = {}
    needed: set[PartitionKey] = set()
    for name, (head, count) in COMPANIONS.items():
        if name not in topics or head not in topics:
            continue
        (head_id, head_count), (topic_id, partition_count) = topics[head], topics[name]
        for number in range(head_count):
            members = range(number * count, min((number + 1) * count, partition_count))
            key = PartitionKey(head_id, number)
            units[key] = tuple(PartitionKey(topic_id, each) for each in members)
            if head == DELAY_STATE:
                needed.add(key)
    return Units(units, frozenset(needed))


def members(units: Units) -> frozenset[PartitionKey]:
    """Everything that is led where something else is."""
    return frozenset(each for keys in units.companions.values() for each in keys)


def reunited(units: Units, view: ClusterView) -> Iterator[PartitionChange]:
    """What brings the parts of split units together again.

    The first partition's leader takes over the others. Where it cannot, because it is not in sync
    there, the first partition goes to the leader of the others, if that one can.
    """
    for head, keys in units.companions.items():
        first = view.partitions.get(head)
        if first is None or first.value.leader is None:
            continue
        others = [(key, stored) for key in keys if (stored := view.partitions.get(key)) is not None]
        moves = list(_moves(others, first.value.leader, view))
        if all(change is not None for change in moves):
            yield from filter(None, moves)
            continue
        rest = {stored.value.leader for _, stored in others}
        target = next(iter(rest), None) if len(rest) == 1 else None
        if target is not None:
            yield from filter(None, _moves([(head, first)], target, view))


def handed_out(units: Units, view: ClusterView) -> Iterator[PartitionChange]:
    """What gives each node that leads none of the units that it needs the first that is its own."""
    heads = [(key, view.partitions[key]) for key in sorted(units.needed & view.partitions.keys())]
    leading = {stored.value.leader for _, stored in heads}
    for head, stored in heads:
        owner = stored.value.preferred
        record = None if owner in leading else elections.preferred(stored, view)
        followers = (view.partitions.get(key) for key in units.companions[head])
        if record is not None and all(each and owner in each.value.isr for each in followers):
            leading.add(owner)
            yield PartitionChange(head, stored.revision, record, frozenset({owner}))


def _moves(
    partitions: Iterable[tuple[PartitionKey, Stored[PartitionRecord]]],
    leader: int,
    view: ClusterView,
) -> Iterator[PartitionChange | None]:
    """The change of each partition that another node leads; None for one that this cannot."""
    for key, stored in partitions:
        record = stored.value
        if record.leader in {None, leader}:
            continue  # without a leader, it is for an election to find one
        can_lead = leader in record.isr and leader in elections.candidates(record, view)
        if not can_lead or view.is_full(leader):
            yield None
            continue
        led = elections.led_by(record, leader, record, view)
        yield PartitionChange(key, stored.revision, led, frozenset({leader}))
