"""Which partitions a maintenance pass has to look at, without a walk over all of them.

An append marks its partition once until a pass has looked at it. A pass that knows when a partition
needs the next look, because a segment reaches its retention then, says so with `look_at`. A
partition without marks costs a pass nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.model.topic_partition import TopicPartition

_SPARE: Final = 1024
"""Replaced entries of a heap that are never worth making it anew."""


class DueMarks:
    """The marks of one pass: partitions that changed, and partitions with a time of their own.

    Holds at most one mark and one time for each partition.
    """

    def __init__(self) -> None:
        self._changed: OrderedDict[TopicPartition, None] = OrderedDict()
        self._due_ms: dict[TopicPartition, int] = {}
        self._heap: list[tuple[int, TopicPartition]] = []

    def __len__(self) -> int:
        """How many partitions the pass would look at some time."""
        return len(self._changed.keys() | self._due_ms.keys())

    def touch(self, partition: TopicPartition) -> None:
        """Let the next pass look at a partition."""
        self._changed[partition] = None

    def look_at(self, partition: TopicPartition, due_ms: int | None) -> None:
        """Let the first pass at or after `due_ms` look at a partition; None is never.

        It replaces the time that was said before.
        """
        if due_ms is None:
            self._due_ms.pop(partition, None)
            return
        self._due_ms[partition] = due_ms
        heappush(self._heap, (due_ms, partition))
        if len(self._heap) > 2 * len(self._due_ms) + _SPARE:
            self._heap = [(due, each) for each, due in self._due_ms.items()]
            heapify(self._heap)

    def forget(self, partition: TopicPartition) -> None:
        """A partition is gone."""
        self._changed.pop(partition, None)
        self._due_ms.pop(partition, None)

    def take(self, now_ms: int) -> Iterator[TopicPartition]:
        """The partitions to look at now, each once, their marks removed one by one.

        What is marked while the pass runs is for the next one. A pass that is interrupted leaves
        the marks of those that it did not reach.
        """
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, partition = heappop(self._heap)
            if self._due_ms.get(partition) == due_ms:  # else it was replaced
                del self._due_ms[partition]
                self._changed[partition] = None
        for _ in range(len(self._changed)):
            if not self._changed:
                return  # the rest was forgotten meanwhile
            yield self._changed.popitem(last=False)[0]


class MaintenanceMarks:
    """The marks of every pass that follows appends."""

    def __init__(self) -> None:
        self.retention = DueMarks()
        self.compaction = DueMarks()
        self.checkpoints = DueMarks()
        self.failing: set[TopicPartition] = set()
        """Partitions whose logs have failed, until a pass finds that they accept appends again."""
        self._all: Final = (self.retention, self.compaction, self.checkpoints)

    def touch(self, partition: TopicPartition) -> None:
        """A partition was opened, appended to or given other settings."""
        for marks in self._all:
            marks.touch(partition)

    def forget(self, partition: TopicPartition) -> None:
        """A partition is gone."""
        self.failing.discard(partition)
        for marks in self._all:
            marks.forget(partition)
