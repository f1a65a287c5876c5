"""Units: partitions of internal topics that one node has to lead as a whole.

The state of a queue group refers to the offsets of the group of the same name, and what is known of
delayed messages to the logs that they wait in. A unit has the same replicas throughout, so that one
node can lead all of it. While it is split, as it may be for a moment after an election, nobody
serves it; the controller moves what follows to where the first partition is led.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.cluster import elections
from goqueue.cluster.proposals import PartitionChange
from goqueue.cluster.records import PartitionKey
from goqueue.model.internal_topics import COMPANIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from uuid import UUID

    from goqueue.cluster.records import PartitionRecord
    from goqueue.cluster.view import ClusterView, Stored

Units: TypeAlias = "Mapping[PartitionKey, tuple[PartitionKey, ...]]"
"""The partitions that belong to another, by that one."""

NO_UNITS: Final[Units] = MappingProxyType({})


def units_of(topics: Mapping[str, tuple[UUID, int]]) -> Units:
    """The units among topics, of which the id and the number of partitions are given by name."""
    units: dict[PartitionKey, tuple[PartitionKey, ...]] = {}
    for name, (head, count) in COMPANIONS.items():
        if name not in topics or head not in topics:
            continue
        (head_id, head_count), (topic_id, partition_count) = topics[head], topics[name]
        for number in range(head_count):
            members = range(number * count, min((number + 1) * count, partition_count))
            key = PartitionKey(head_id, number)
            units[key] = tuple(PartitionKey(topic_id, each) for each in members)
    return units


def members(units: Units) -> frozenset[PartitionKey]:
    """Everything that is led where something else is."""
    return frozenset(each for keys in units.values() for each in keys)


def reunited(units: Units, view: ClusterView) -> Iterator[PartitionChange]:
    """What brings the parts of split units together again.

    The first partition's leader takes over the others. Where it cannot, because it is not in sync
    there, the first partition goes to the leader of the others, if that one can.
    """
    for head, keys in units.items():
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
