"""Partitions, offsets and lag as JSON shows them: by topic and partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.lag import PartitionLag

_T = TypeVar("_T")


def by_partition(values: Iterable[tuple[tuple[str, int], _T]]) -> dict[str, dict[int, _T]]:
    """Something of each partition: by topic and number."""
    found: dict[str, dict[int, _T]] = {}
    for (topic, number), value in values:
        found.setdefault(topic, {})[number] = value
    return found


def committed_by_topic(lags: Iterable[PartitionLag]) -> dict[str, dict[int, int | None]]:
    """Committed offsets; None where there is none."""
    return by_partition(((each.topic, each.partition), each.committed) for each in lags)


def log_ends_by_topic(lags: Iterable[PartitionLag]) -> dict[str, dict[int, int]]:
    """Where the logs end."""
    return by_partition(((each.topic, each.partition), each.log_end) for each in lags)


def lag_by_topic(lags: Iterable[PartitionLag]) -> dict[str, dict[int, int]]:
    """The lag of a group."""
    return by_partition(((each.topic, each.partition), each.lag) for each in lags)
