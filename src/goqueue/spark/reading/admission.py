"""How much of what is there goes into one micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.model.topic_partition import TopicPartition


def admit_offsets(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """The ends of a micro-batch of at most `limit` offsets.

    Each partition gets its share by how much it has, and at least one offset, so that a quiet
    partition is not left behind by a busy one. Where there are more partitions than offsets to
    give, they take turns.
    """
    sizes = {place: end[place] - start[place] for place in sorted(end) if end[place] > start[place]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    takes_turns = limit < len(sizes)
    granted = _in_turn(start, list(sizes), limit) if takes_turns else _by_share(sizes, limit)
    return {place: start.get(place, at) + granted.get(place, 0) for place, at in end.items()}


def _in_turn(
    start: Mapping[TopicPartition, int], places: list[TopicPartition], limit: int
) -> dict[TopicPartition, int]:
    """One offset each for as many as possible; the turn moves on with what has been read."""
    first = sum(start[place] for place in places) % len(places)
    chosen = (places[first:] + places[:first])[:limit]
    return dict.fromkeys(chosen, 1)


def _by_share(sizes: Mapping[TopicPartition, int], limit: int) -> dict[TopicPartition, int]:
    rest, rest_total = limit - len(sizes), sum(sizes.values()) - len(sizes)
    granted = {place: 1 + rest * (size - 1) // rest_total for place, size in sizes.items()}
    missing = limit - sum(granted.values())
    for place, size in sizes.items():
        if not missing:
            break
        if granted[place] < size:
            granted[place] += 1
            missing -= 1
    return granted


def admit_bytes(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    record_bytes: Mapping[TopicPartition, float],
    limit: int,
) -> dict[TopicPartition, int]:
    """The ends of a micro-batch of about `limit` bytes, by what a record of each partition takes.

    At least one offset is let through: a record that is larger than the limit must be read too.
    """
    sizes = {place: end[place] - start[place] for place in end if end[place] > start[place]}
    expected = sum(size * record_bytes.get(place, 0.0) for place, size in sizes.items())
    if expected <= limit:
        return dict(end)
    share = limit / expected
    return admit_offsets(start, end, max(1, int(sum(sizes.values()) * share)))
