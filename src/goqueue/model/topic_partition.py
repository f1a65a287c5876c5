"""The name of one partition, the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

_T = TypeVar("_T", "str", "UUID")

TopicIdPartition: TypeAlias = "tuple[UUID, int]"
"""A partition by its topic's id, so that a topic made again under its old name is another topic."""


class TopicPartition(NamedTuple):
    """A topic's name and the number of one of its partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def numbers_by_topic(partitions: Iterable[tuple[_T, int]]) -> dict[_T, list[int]]:
    """The numbers of partitions by their topics, both in order."""
    found: dict[_T, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found
