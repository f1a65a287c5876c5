"""Which partitions each member of a share group reads: the rules of Kafka's `simple` assignor.

A partition may have several members, so there are two cases. With as many members as partitions, or
fewer, every partition has one member. With more members, every partition has the same number of
them, and every member has a partition. In both, no member has more than one partition more than
another, and members keep what they have as far as that allows.

Members that subscribe to the same topics share all partitions of them out together. As soon as one
subscribes to others, each topic is shared out on its own among its subscribers.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
    from uuid import UUID

    from goqueue.model.topic_partition import TopicIdPartition


def assign(
    topics: Mapping[str, AbstractSet[UUID]],
    partition_counts: Mapping[UUID, int],
    held: Mapping[str, AbstractSet[TopicIdPartition]],
) -> dict[str, frozenset[TopicIdPartition]]:
    """What each member is to read: by member, the topics it subscribes to and what it has now.

    Topics that are not in `partition_counts` do not exist, and are passed over.
    """
    found: dict[str, set[TopicIdPartition]] = {member: set() for member in topics}
    for members, names in _pools(topics):
        partitions = [
            (topic, number) for topic in names for number in range(partition_counts.get(topic, 0))
        ]
        if partitions:
            for member, mine in _share_out(members, partitions, held).items():
                found[member] |= mine
    return {member: frozenset(mine) for member, mine in found.items()}


def _pools(
    topics: Mapping[str, AbstractSet[UUID]],
) -> Iterable[tuple[list[str], list[UUID]]]:
    """Members that share topics out, and the topics."""
    if len({frozenset(each) for each in topics.values()}) == 1:
        yield list(topics), sorted(next(iter(topics.values())))
        return
    for topic in sorted(set().union(*topics.values())):
        yield [member for member, mine in topics.items() if topic in mine], [topic]


def _share_out(
    members: list[str],
    partitions: list[TopicIdPartition],
    held: Mapping[str, AbstractSet[TopicIdPartition]],
) -> dict[str, set[TopicIdPartition]]:
    pool = set(partitions)
    mine = {member: set(held.get(member, ())) & pool for member in members}
    sharing = -(-len(members) // len(partitions))
    quotas = _quotas(mine, sharing * len(partitions))
    readers: dict[TopicIdPartition, set[str]] = {partition: set() for partition in partitions}
    for member, kept in mine.items():
        for partition in kept:
            readers[partition].add(member)
    _revoke(partitions, sharing, quotas, mine, readers)
    _fill(partitions, sharing, quotas, mine, readers)
    return mine


def _quotas(mine: Mapping[str, set[TopicIdPartition]], total: int) -> dict[str, int]:
    """How many partitions each member gets; those that have more now are given the larger share."""
    least, extra = divmod(total, len(mine))
    by_size = sorted(mine, key=lambda member: -len(mine[member]))
    return {member: least + (at < extra) for at, member in enumerate(by_size)}


def _revoke(
    partitions: Sequence[TopicIdPartition],
    sharing: int,
    quotas: Mapping[str, int],
    mine: Mapping[str, set[TopicIdPartition]],
    readers: Mapping[TopicIdPartition, set[str]],
) -> None:
    """Take partitions from members where too many read one, or one reads too many."""
    for partition in partitions:
        excess = len(readers[partition]) - sharing
        if excess > 0:
            # Those first that have too much anyway, then those that have most.
            fullest = sorted(
                readers[partition],
                key=lambda member: (quotas[member] - len(mine[member]), member),
            )
            for member in fullest[:excess]:
                readers[partition].discard(member)
                mine[member].discard(partition)
    for member, kept in mine.items():
        excess = len(kept) - quotas[member]
        if excess > 0:
            most_shared = sorted(kept, key=lambda each: (-len(readers[each]), each))
            for partition in most_shared[:excess]:
                kept.discard(partition)
                readers[partition].discard(member)


def _fill(
    partitions: Sequence[TopicIdPartition],
    sharing: int,
    quotas: Mapping[str, int],
    mine: Mapping[str, set[TopicIdPartition]],
    readers: Mapping[TopicIdPartition, set[str]],
) -> None:
    """Give each partition the members that it lacks, those that lack most first.

    A partition without a reader always finds one: the quotas are as many as all readers together.
    One may end with a reader less than others, when whoever has room reads it already.
    """
    lacking = [
        (len(mine[member]) - quota, at, member)
        for at, (member, quota) in enumerate(quotas.items())
        if len(mine[member]) < quota
    ]
    heapq.heapify(lacking)
    for partition in sorted(partitions, key=lambda each: len(readers[each])):
        passed: list[tuple[int, int, str]] = []
        while len(readers[partition]) < sharing and lacking:
            room, at, member = heapq.heappop(lacking)
            if member in readers[partition]:
                passed.append((room, at, member))
                continue
            readers[partition].add(member)
            mine[member].add(partition)
            if room < -1:
                passed.append((room + 1, at, member))
        for each in passed:
            heapq.heappush(lacking, each)
