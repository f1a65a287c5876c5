"""Which partitions a node of a cluster holds, and how it begins to hold one.

A node begins as a follower of nobody: it leads only once it has been told so, in an epoch that is
later than any it has led in before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from goqueue.model.tuples import NamedTuple
from goqueue.partitions.replica import Following
from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
from goqueue.partitions.replication.tail import TailBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.partitions.partition import Partition
    from goqueue.topics.catalogue import Topic


class Held(NamedTuple):
    """A partition of which a replica is to be here."""

    epoch: int
    """The leader epoch of its record."""
    high_watermark: int = 0
    """What an earlier run knew to be committed; a value to start from, never where to cut."""


class Holding:
    """What `Partitions` asks on a node of a cluster."""

    def __init__(self, held: Callable[[Topic, int], Held | None]) -> None:
        """Ask `held` for a topic and a partition's number; None: there is no replica here."""
        self.held = held
        self.tails = TailBudget()
        """What all partitions hold in memory together."""
        self.on_cut: Callable[[Partition], None] = lambda _: None
        """Told of a partition of which records are gone that may have been read."""

    def maker(self, topic: Topic, number: int) -> Callable[..., ReplicatedPartition]:
        """Makes the partition of a log that is open, from what every partition is made of."""
        held = self.held(topic, number) or Held(0)  # the record may have changed meanwhile
        return partial(
            ReplicatedPartition,
            role=Following(None, held.epoch),
            high_watermark=held.high_watermark,
            tails=self.tails,
            on_cut=self._was_cut,
        )

    def _was_cut(self, partition: Partition) -> None:
        self.on_cut(partition)  # whoever is told may come later than the partition
