"""Partitions, offsets and lag as JSON shows them: by topic and partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.partition import PartitionId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.lag import PartitionLag


def by_topic(partitions: Iterable[PartitionId]) -> dict[str, list[int]]:
    """Partitions as JSON shows them: numbers by topic, in order."""
    found: dict[str, list[int]] = {}
    for each in sorted(partitions, key=lambda each: (each.topic, each.number)):
        found.setdefault(each.topic, []).append(each.number)
    return found


def offsets_by_topic(offsets: Iterable[tuple[PartitionId, int]]) -> dict[str, dict[int, int]]:
    """Offsets as JSON shows them: by topic and partition."""
    found: dict[str, dict[int, int]] = {}
    for partition, offset in offsets:
        found.setdefault(partition.topic, {})[partition.number] = offset
    return found


def committed_by_topic(lags: Iterable[PartitionLag]) -> dict[str, dict[int, int | None]]:
    """Committed offsets as JSON shows them; None where there is none."""
    found: dict[str, dict[int, int | None]] = {}
    for each in lags:
        found.setdefault(each.topic, {})[each.partition] = each.committed
    return found


def lag_by_topic(lags: Iterable[PartitionLag]) -> dict[str, dict[int, int]]:
    """Lag as JSON shows it: by topic and partition."""
    return offsets_by_topic((PartitionId(each.topic, each.partition), each.lag) for each in lags)
