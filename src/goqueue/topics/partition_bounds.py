"""How many partitions there may be in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.model.errors import InvalidPartitionCountError
from goqueue.model.internal_topics import is_internal_topic

if TYPE_CHECKING:
    from collections.abc import Iterable


class Counted(Protocol):
    """A topic, as far as it is counted."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""


def check_total(topics: Iterable[Counted], name: str, new_count: int, limit: int) -> None:
    """Hold new partitions of a topic to the bound of all topics together.

    Raises:
        InvalidPartitionCountError: there would be too many.
    """
    total = sum(each.partition_count for each in topics if not is_internal_topic(each.name))
    if total + new_count > limit:
        raise InvalidPartitionCountError(
            f"{new_count} more partitions for topic {name!r}: there are {total}, and "
            f"topics.max_partitions allows {limit}: delete topics, ask for fewer partitions, or "
            "raise the setting"
        )
