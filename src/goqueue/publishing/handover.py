"""Appending to a partition exactly once, for those inside the broker who move messages.

Whoever hands messages over does it in four steps, so that a crash between any two of them neither
loses a message nor appends it twice:

1. Ask `next_sequence`, and store what is about to happen: which messages, to which partition, where
   its log ends now, with which sequence. Wait until that is on the disk.
2. `append`, with that sequence.
3. When `is_settled`, the messages survive what the topic promises to survive: store that they went.
4. After a crash, for each intention of which nothing more is stored, ask `found`. It reads the
   partition's log: what is in it has gone, what is not is still to go, with a sequence anew.

The batches carry a producer id of their own, so that they are recognised among all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.delivery import DELIVERY_HEADERS
from goqueue.records import DELIVERY, LOG_APPEND_TIME, Compression, Record, encode, peek
from goqueue.records.batch import walk
from goqueue.storage.config import Fsync

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.partitions.partition import Partition, Placed
    from goqueue.topics.settings import TopicSettings

EPOCH: Final = 0
_SEQUENCES: Final = 1 << 31


class Handover:
    """Appends under one producer id. One at a time uses it for one partition."""

    def __init__(self, producer_id: int) -> None:
        """Use an id of `ProducerIds` that nobody else has, and keep it for ever."""
        self.producer_id = producer_id

    def next_sequence(self, partition: Partition, after: int = 0) -> int:
        """The sequence of the next batch; `after` so many records that are about to go before."""
        last = partition.sequences.last_sequence(self.producer_id, EPOCH)
        return (last + 1 + after) % _SEQUENCES

    def batch(
        self,
        records: Sequence[Record],
        base_sequence: int,
        *,
        attributes: int = 0,
        compression: Compression = Compression.NONE,
    ) -> bytearray:
        """Records, numbered from 0 on, as one batch.

        Raises:
            BatchTooLargeError: no batch can hold them.
        """
        return encode(
            records,
            compression=compression,
            attributes=attributes,
            producer_id=self.producer_id,
            producer_epoch=EPOCH,
            base_sequence=base_sequence,
        )

    def append(
        self,
        partition: Partition,
        settings: TopicSettings,
        records: Sequence[Record],
        base_sequence: int,
    ) -> Placed:
        """Append records, numbered from 0 on, as one batch in the way the topic stores them.

        Readers see them at once, unless the topic wants them on the disk first. Twice with the
        same sequence appends once.

        Raises:
            ProducerError: a batch with a later sequence is there: this one never will be.
            BatchError, DiskError, LogFailedError, LogClosedError: nothing was appended.
        """
        stamp = LOG_APPEND_TIME if settings.stamps_append_time else 0
        batch = self.batch(
            records,
            base_sequence,
            attributes=delivery_bit(records) | stamp,
            compression=settings.codec or Compression.NONE,
        )
        return partition.append(batch, peek(batch))

    @staticmethod
    def is_settled(partition: Partition, end_offset: int) -> bool:
        """Whether an append outlives what the topic's policy promises to outlive.

        Where the policy is to leave it to the operating system, that is at once; where the disk is
        synced now and then, after the next time. What went with its topic needs no more care.
        """
        if partition.is_closed or partition.fsync is Fsync.NEVER:
            return True
        return partition.failure is None and partition.synced_to >= end_offset

    def found(self, partition: Partition, from_offset: int) -> set[int]:
        """The sequences of all batches that were handed over and are in the log from there on.

        Reads the log: to be called for what is unsettled, which is never long ago.
        """
        return {
            info.base_sequence
            for chunk in partition.chunks(max(from_offset, partition.log_start))
            for _, info in walk(chunk.data)
            if info.producer_id == self.producer_id
        }


def delivery_bit(records: Iterable[Record]) -> int:
    """The attribute of a batch whose records say how they are to be delivered, or 0."""
    says = any(name in DELIVERY_HEADERS for record in records for name, _ in record.headers)
    return DELIVERY if says else 0
