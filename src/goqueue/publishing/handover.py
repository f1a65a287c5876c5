"""Appending to a partition exactly once, for those inside the broker who move messages.

Whoever hands messages over does it in four steps, so that a crash or a failover between any two of
them neither loses a message nor appends it twice:

1. Ask for the `position`, and store what is about to happen: which messages, to which partition,
   where its log ends now, with which sequence. Wait until that is committed.
2. `append` or `publish`, with that sequence.
3. When that returns, the messages survive what the topic promises to survive: store that they went.
4. After a crash, for each intention of which nothing more is stored, ask `found`. It reads the
   partition's committed log: what is in it has gone, what is not is still to go.

The batches carry a producer id of their own, so that they are recognised among all others. In a
cluster, a request of an earlier leader may still be under way when its intention is resolved. So
`found` ends the epoch of the producer in the partition first: what arrives later is refused.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.delivery import DELIVERY_HEADERS
from goqueue.model.tuples import NamedTuple
from goqueue.records import DELIVERY, LOG_APPEND_TIME, Compression, Record, encode
from goqueue.records.batch import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Partition, Placed
    from goqueue.topics.settings import TopicSettings

SEQUENCES: Final = 1 << 31
FIRST_EPOCH: Final = 0
"""Of a producer that hands over under a new id each time that an outcome is not known."""
LAST_EPOCH: Final = (1 << 15) - 2
"""Of a producer; the one behind it can still end it."""


class Position(NamedTuple):
    """What is to be stored before a batch is handed over."""

    next_sequence: int
    """Of the batch."""
    end_offset: int
    """Nothing that is appended from now on lies before it."""


class Fate(Enum):
    """What became of a batch that was appended."""

    UNDER_WAY = "under way"
    SETTLED = "settled"
    """It survives what its topic promises to survive."""
    UNKNOWN = "unknown"
    """The log is not the one that it was appended to: `Target.found` says whether it is there."""


class Handover:
    """Makes batches of one producer id. One at a time uses it for one partition."""

    def __init__(self, producer_id: int, epoch: int = FIRST_EPOCH) -> None:
        """Use an id of `ProducerIds` that nobody else has, and keep it for ever."""
        self.producer_id = producer_id
        self.epoch = epoch

    def next_sequence(self, partition: Partition) -> int:
        """The sequence of the next batch in a partition that this node leads."""
        last = partition.sequences.last_sequence(self.producer_id, self.epoch)
        return (last + 1) % SEQUENCES

    def found(self, partition: Partition, from_offset: int) -> set[int]:
        """The sequences of all batches that are in the log of such a partition from there on."""
        return {
            info.base_sequence
            for chunk in partition.chunks(max(from_offset, partition.log_start))
            for _, info in walk(chunk.data)
            if (info.producer_id, info.producer_epoch) == (self.producer_id, self.epoch)
            and not info.is_control
        }

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
            producer_epoch=self.epoch,
            base_sequence=base_sequence,
        )

    def batch_for(
        self, settings: TopicSettings, records: Sequence[Record], base_sequence: int
    ) -> bytearray:
        """The same in the way that a topic stores its records."""
        stamp = LOG_APPEND_TIME if settings.stamps_append_time else 0
        return self.batch(
            records,
            base_sequence,
            attributes=delivery_bit(records) | stamp,
            compression=settings.codec or Compression.NONE,
        )


class Target(Protocol):
    """A partition that messages are handed over to, wherever it is led.

    Whatever an error other than `HandoverUnknownError` is about, nothing was appended.
    """

    id: TopicPartition

    async def position(self, handover: Handover) -> Position:
        """Where the next batch of a producer goes. Raises `GoQueueError`: try again later."""

    async def append(self, batch: bytearray) -> Placed:
        """Store a batch as it is; it is committed when this returns.

        Raises:
            HandoverUnknownError: whether it is there, `found` says.
            GoQueueError: it is not.
        """

    async def publish(self, batch: bytearray, *, delivery: bool, traced: bool) -> Placed:
        """The same with a batch that is held to what its topic asks of every publisher.

        `delivery` and `traced` are those of `PublishRequest`. Raises like `append`.
        """

    async def found(self, producer_id: int, epoch: int, from_offset: int) -> set[int]:
        """The first sequences of a producer's batches in the log from there on, that are to stay.

        In a cluster no batch of this or an earlier epoch of the producer is appended after this
        has returned, whoever has sent it. Reads the log: for what is unsettled, which is never long
        ago.

        Raises:
            GoQueueError: nobody can tell at the moment; ask again.
        """


def delivery_bit(records: Iterable[Record]) -> int:
    """The attribute of a batch whose records say how they are to be delivered, or 0."""
    says = any(name in DELIVERY_HEADERS for record in records for name, _ in record.headers)
    return DELIVERY if says else 0
