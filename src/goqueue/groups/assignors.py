"""Server-side assignors: pure functions from members and partition counts to a whole assignment.

Each is deterministic: the same members, subscriptions and counts give the same answer, in whatever
order they are handed in. Topics are names or ids; anything that can be sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from goqueue.groups.sticky import assign_sticky

T = TypeVar("T")

Assignment: TypeAlias = Mapping[str, frozenset[tuple[T, int]]]
"""Member id to the partitions that are its own."""


class MemberSpec(msgspec.Struct, Generic[T], frozen=True):
    """What an assignor knows of one member."""

    topics: frozenset[T]
    owned: frozenset[tuple[T, int]] = msgspec.field(default_factory=frozenset)
    """What the member had before; only the sticky assignor looks."""


def assign_range(
    members: Mapping[str, MemberSpec[T]], partition_counts: Mapping[T, int]
) -> dict[str, frozenset[tuple[T, int]]]:
    """Contiguous blocks of each topic; the first members take what does not divide evenly."""
    shares: dict[str, set[tuple[T, int]]] = {member_id: set() for member_id in sorted(members)}
    for topic in sorted(partition_counts):  # type: ignore[type-var] # topics are str or UUID
        readers = [member_id for member_id in shares if topic in members[member_id].topics]
        if not readers:
            continue
        size, extra = divmod(partition_counts[topic], len(readers))
        start = 0
        for place, member_id in enumerate(readers):
            end = start + size + (place < extra)
            shares[member_id].update((topic, partition) for partition in range(start, end))
            start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def assign_round_robin(
    members: Mapping[str, MemberSpec[T]], partition_counts: Mapping[T, int]
) -> dict[str, frozenset[tuple[T, int]]]:
    """Partition after partition to member after member, past those who do not read the topic."""
    order = sorted(members)
    shares: dict[str, set[tuple[T, int]]] = {member_id: set() for member_id in order}
    place = 0
    for topic in sorted(partition_counts):  # type: ignore[type-var] # topics are str or UUID
        if not any(topic in spec.topics for spec in members.values()):
            continue
        for partition in range(partition_counts[topic]):
            while topic not in members[order[place % len(order)]].topics:
                place += 1
            shares[order[place % len(order)]].add((topic, partition))
            place += 1
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def assign_uniform(
    members: Mapping[str, MemberSpec[T]], partition_counts: Mapping[T, int]
) -> dict[str, frozenset[tuple[T, int]]]:
    """Even shares with as few moves as they allow (Kafka's name for its sticky assignor)."""
    return assign_sticky(
        {member_id: spec.topics for member_id, spec in members.items()},
        {member_id: spec.owned for member_id, spec in members.items()},
        partition_counts,
    )


Assignor: TypeAlias = Callable[
    [Mapping[str, MemberSpec[Any]], Mapping[Any, int]], dict[str, frozenset[tuple[Any, int]]]
]

SERVER_ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "uniform": assign_uniform,
    "range": assign_range,
    "round-robin": assign_round_robin,
}
"""The assignors of KIP-848 by name, the default first. Apache Kafka has the first two."""

DEFAULT_ASSIGNOR: Final = "uniform"


def count_moves(before: Assignment[T], after: Assignment[T]) -> tuple[int, int]:
    """How many partitions were taken from members, and given to members without them."""

    def missing(old: Assignment[T], new: Assignment[T]) -> int:
        return sum(len(parts - new.get(member, frozenset())) for member, parts in old.items())

    return missing(before, after), missing(after, before)
