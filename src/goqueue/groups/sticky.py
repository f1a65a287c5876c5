"""The sticky assignor: balance first, then as few moves as balance allows.

Balanced means: no partition can go to another of its readers so that the two loads come closer.
Where all members read the same topics, that is a difference of at most one partition, and the
number of partitions that stay is the largest possible.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set as AbstractSet

T = TypeVar("T")


def assign_sticky(
    subscriptions: Mapping[str, AbstractSet[T]],
    owned: Mapping[str, AbstractSet[tuple[T, int]]],
    partition_counts: Mapping[T, int],
) -> dict[str, frozenset[tuple[T, int]]]:
    """Share out every partition that somebody reads."""
    subscriptions = {
        member_id: subscriptions[member_id] & partition_counts.keys()
        for member_id in sorted(subscriptions)
    }
    shares = _keep(subscriptions, owned, partition_counts)
    if len({frozenset(topics) for topics in subscriptions.values()}) <= 1:
        _share_evenly(shares, subscriptions, partition_counts)
    else:
        _share_mixed(shares, subscriptions, partition_counts)
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _keep(
    subscriptions: Mapping[str, AbstractSet[T]],
    owned: Mapping[str, AbstractSet[tuple[T, int]]],
    partition_counts: Mapping[T, int],
) -> dict[str, set[tuple[T, int]]]:
    """What each member has and may still have; of two claims the first member's counts."""
    taken: set[tuple[T, int]] = set()
    shares: dict[str, set[tuple[T, int]]] = {}
    for member_id, topics in subscriptions.items():
        share = {
            part
            for part in owned.get(member_id, ())
            if part[0] in topics and 0 <= part[1] < partition_counts[part[0]] and part not in taken
        }
        taken |= share
        shares[member_id] = share
    return shares


def _free(
    shares: Mapping[str, set[tuple[T, int]]],
    topics: AbstractSet[T],
    partition_counts: Mapping[T, int],
) -> list[tuple[T, int]]:
    """The partitions of `topics` that nobody has, topic by topic."""
    taken = set().union(*shares.values())
    return [
        (topic, partition)
        for topic in sorted(topics)  # type: ignore[type-var] # topics are str or UUID
        for partition in range(partition_counts[topic])
        if (topic, partition) not in taken
    ]


def _share_evenly(
    shares: dict[str, set[tuple[T, int]]],
    subscriptions: Mapping[str, AbstractSet[T]],
    partition_counts: Mapping[T, int],
) -> None:
    """All members read the same: whoever has most now gets the larger of the two quotas."""
    if not shares:
        return
    topics = next(iter(subscriptions.values()))
    quota, larger_quotas = divmod(sum(partition_counts[topic] for topic in topics), len(shares))
    richest_first = sorted(shares, key=lambda member_id: -len(shares[member_id]))
    quotas = {
        member_id: quota + (place < larger_quotas) for place, member_id in enumerate(richest_first)
    }
    for member_id, share in shares.items():
        for part in sorted(share)[quotas[member_id] :]:
            share.discard(part)
    hungry = deque(m for m in shares if len(shares[m]) < quotas[m])
    for part in _free(shares, topics, partition_counts):
        member_id = hungry.popleft()
        shares[member_id].add(part)
        if len(shares[member_id]) < quotas[member_id]:
            hungry.append(member_id)


def _share_mixed(
    shares: dict[str, set[tuple[T, int]]],
    subscriptions: Mapping[str, AbstractSet[T]],
    partition_counts: Mapping[T, int],
) -> None:
    """Members read different topics: hand out what is free, then even out along paths."""
    readers: dict[T, list[str]] = {}
    for member_id, topics in subscriptions.items():
        for topic in topics:
            readers.setdefault(topic, []).append(member_id)
    free: dict[T, list[tuple[T, int]]] = {}
    for part in _free(shares, readers.keys(), partition_counts):
        free.setdefault(part[0], []).append(part)
    # The topics with the fewest readers first: they have the least choice.
    for topic in sorted(free, key=lambda topic: len(readers[topic])):
        loads = [(len(shares[member_id]), member_id) for member_id in readers[topic]]
        heapq.heapify(loads)
        for part in free[topic]:
            load, member_id = loads[0]
            shares[member_id].add(part)
            heapq.heapreplace(loads, (load + 1, member_id))
    _even_out(shares, readers)


def _even_out(shares: dict[str, set[tuple[T, int]]], readers: Mapping[T, Sequence[str]]) -> None:
    """Shift partitions from loaded to idle members until no shift brings two loads closer."""
    settled: set[str] = set()
    while len(settled) < len(shares):
        source = max(
            (member_id for member_id in shares if member_id not in settled),
            key=lambda member_id: len(shares[member_id]),
        )
        path = _path_to_idler(source, shares, readers)
        if path is None:
            settled.add(source)
            continue
        settled.clear()
        for giver, taker, part in path:
            shares[giver].remove(part)
            shares[taker].add(part)


def _path_to_idler(
    source: str, shares: Mapping[str, set[tuple[T, int]]], readers: Mapping[T, Sequence[str]]
) -> list[tuple[str, str, tuple[T, int]]] | None:
    """The shortest chain of hand-overs from `source` to a member with two partitions fewer."""
    came_by: dict[str, tuple[str, tuple[T, int]]] = {}
    seen_topics: set[T] = set()
    queue = deque([source])
    while queue:
        giver = queue.popleft()
        for part in sorted(shares[giver], reverse=True):
            if part[0] in seen_topics:
                continue
            seen_topics.add(part[0])
            for taker in readers[part[0]]:
                if taker == source or taker in came_by:
                    continue
                came_by[taker] = (giver, part)
                if len(shares[taker]) <= len(shares[source]) - 2:
                    return _walk_back(taker, came_by)
                queue.append(taker)
    return None


def _walk_back(
    taker: str, came_by: Mapping[str, tuple[str, tuple[T, int]]]
) -> list[tuple[str, str, tuple[T, int]]]:
    path = []
    while taker in came_by:
        giver, part = came_by[taker]
        path.append((giver, taker, part))
        taker = giver
    return path
