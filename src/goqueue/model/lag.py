"""What lag is: one definition for the broker's views and for Spark's report.

A partition counts for a group when the group has committed an offset of it or when a member is
assigned to it. Without a commit the lag is counted from the log start. Where a client would really
begin is its own setting (`auto.offset.reset`), which the broker is never told: the log start is the
upper bound, and such lag is told apart as uncommitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class PartitionLag(msgspec.Struct, frozen=True):
    """How far a group is behind in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The offset that the group continues at; None: it has committed nothing here."""
    log_start: int
    log_end: int

    @property
    def position(self) -> int:
        """Where the group continues: retention may have removed what it had committed."""
        committed = self.log_start if self.committed is None else self.committed
        return max(committed, self.log_start)

    @property
    def lag(self) -> int:
        """Messages between the group's position and the end of the log."""
        return max(self.log_end - self.position, 0)

    @property
    def uncommitted_lag(self) -> int:
        """The lag where nothing is committed, which is an upper bound; otherwise 0."""
        return self.lag if self.committed is None else 0

    @property
    def lost(self) -> int:
        """Messages that were removed before the group had read them."""
        return 0 if self.committed is None else max(self.log_start - self.committed, 0)


def counted_partitions(
    committed: Collection[TopicPartition],
    assigned: Collection[TopicPartition],
    partition_count: Callable[[str], int],
    *,
    is_subscriber: bool,
) -> list[TopicPartition]:
    """The partitions that count for a group, in order, whether or not they still exist.

    While nobody is assigned anything, as after the last member of a group of subscribers has left,
    the other partitions of the topics that it has committed offsets of go on counting: otherwise
    the lag would fall when the members stop.
    """
    found = {*committed, *assigned}
    if is_subscriber and not assigned:
        for topic in {topic for topic, _ in committed}:
            numbers = range(partition_count(topic))
            found.update(TopicPartition(topic, number) for number in numbers)
    return sorted(found)
