"""What publishing needs of whoever keeps messages that are due later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.publishing.delivery_headers import Delayed, Opened
    from goqueue.records import Record
    from goqueue.records.batch import BatchInfo
    from goqueue.topics.catalogue import Topic


class TakenIn(NamedTuple):
    """The messages of one batch that wait."""

    messages: list[Delayed]
    ends: list[int | None]
    """How far the log of each class must be on the disk for them to be."""


class DelayedMessages(Protocol):
    """Keeps the messages of a batch that are due later."""

    def take(self, topic: Topic, partition: int, info: BatchInfo, found: Opened) -> TakenIn:
        """Store the records of a batch that are due later."""

    def finish(self, topic: Topic, partition: int, info: BatchInfo) -> None:
        """The rest of a batch is stored too."""

    async def restore(
        self,
        topic: Topic,
        partition: Partition,
        info: BatchInfo,
        records: list[Record],
        known: SequencedBatch,
    ) -> None:
        """Store what is missing of a repeated batch."""

    async def durable(self, taken: TakenIn | None = None) -> None:
        """Return when messages that were taken in are on the disk; without any, all that were."""
