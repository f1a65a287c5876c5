"""Partitions, and runs of their offsets: what plans are made of, and what a task gets to read."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.model.topic_partition import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets from `start` up to, not including, `end`."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are; compaction and transactions may leave fewer messages."""
        return self.end - self.start

    @property
    def place(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"
