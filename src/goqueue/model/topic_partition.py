"""The name of one partition, the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from uuid import UUID

TopicIdPartition: TypeAlias = "tuple[UUID, int]"
"""A partition by its topic's id, so that a topic made again under its old name is another topic."""


class TopicPartition(NamedTuple):
    """A topic's name and the number of one of its partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
