"""What publishing needs of whoever keeps messages that are due later."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.publishing.delivery_headers import Delayed, Opened
    from goqueue.records import Record
    from goqueue.records.batch import BatchInfo
    from goqueue.topics.catalogue import Topic


_END_BITS: Final = 48


class Origin(NamedTuple):
    """Where the rest of an idempotent batch goes in a cluster, once its delayed part is stored."""

    leader_epoch: int
    """The epoch in which this node leads the partition; in another the rest is not stored."""
    marked_end: int
    """`end_offset`, and above its bits `attempt`: one number on the wire and in the log."""

    @classmethod
    def of(cls, leader_epoch: int, end_offset: int, attempt: int) -> Origin:
        """The origin of one attempt to store a batch."""
        return cls(leader_epoch, end_offset | attempt << _END_BITS)

    @property
    def end_offset(self) -> int:
        """Where the log of the partition ends before that."""
        return self.marked_end & ((1 << _END_BITS) - 1)

    @property
    def attempt(self) -> int:
        """Counts the attempts of this epoch to store the batch; the rest in the log tells its own.

        An attempt that was given up leaves a delayed part behind, perhaps. The rest of a later one
        must not make that count as well, whoever leads by then.
        """
        return self.marked_end >> _END_BITS


class SplitBatch(NamedTuple):
    """An idempotent batch of which a part waits. That part counts if the rest was stored."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    origin: Origin
    first_id: int
    """What clients know the first delayed message of the batch by."""


class Rest(IntEnum):
    """What became of the rest of a batch, as the leader of its partition knows it."""

    ABSENT = 0
    """It is not in the log, and never will be: whoever sends the batch again makes another."""
    STORED = 1
    UNDER_WAY = 2


class TakenIn(NamedTuple):
    """The messages of one batch that wait."""

    messages: list[Delayed]
    ends: list[int | None]
    """How far the log of each class must be on the disk for them to be."""
    unit: int = 0
    unconfirmed: Any = None
    """Of an idempotent batch in a cluster: what its unit knows it by until the rest is stored."""

    @property
    def first_id(self) -> int:
        """What clients know the first of the messages by."""
        return self.messages[0][1] or 0


class DelayedMessages(Protocol):
    """Keeps the messages of a batch that are due later."""

    def take(
        self,
        topic: Topic,
        partition: int,
        info: BatchInfo,
        found: Opened,
        origin: Origin | None = None,
    ) -> TakenIn:
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

    async def committed(self, taken: TakenIn) -> None:
        """Return when every in-sync replica has messages that were taken in."""

    def confirm(self, taken: TakenIn) -> None:
        """The rest of an idempotent batch is committed: what waits of it counts."""

    def void(self, taken: TakenIn) -> None:
        """The rest of an idempotent batch is not stored: what waits of it never goes."""

    def doubt(self, taken: TakenIn) -> None:
        """Nobody knows whether the rest of an idempotent batch is there to stay: find out."""
