"""What is published, and what became of it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchError, GoQueueError, SchemaValidationError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Placed
    from goqueue.publishing.delivery_headers import Delayed, Opened
    from goqueue.records import Record


class Acks(IntEnum):
    """What a publisher waits for; the numbers are Kafka's.

    `ALL` waits until every in-sync replica has the batch, `LEADER` for the leader alone. On one
    node the leader is all there is. Whoever waits at all waits for what the topic promises: under
    `fsync=always` for the disk.
    """

    ALL = -1
    NONE = 0
    LEADER = 1


class SchemaVerdict(NamedTuple):
    """What came of holding a batch against schemas."""

    error: GoQueueError | None = None
    """Why it is refused, if it is."""


FITS: Final = SchemaVerdict()


def refusal(reasons: Mapping[int, str]) -> SchemaValidationError | None:
    """What is said of a batch in which some messages do not fit."""
    if not reasons:
        return None
    first, more = next(iter(reasons.values())), len(reasons) - 1
    said = f"{first} (and {more} more do not fit)" if more else first
    return SchemaValidationError(said, reasons)


class PublishRequest(NamedTuple):
    """One batch for one partition."""

    partition: TopicPartition
    batch: memoryview
    """Exactly one record batch. A writable view is stamped in place."""
    acks: Acks = Acks.ALL
    internal: bool = False
    """The broker itself publishes, which alone may write to internal topics."""
    delivery: bool = False
    """The batch was made here, and its attribute `DELIVERY` is true. A producer that sets it only
    asks for the batch to be opened."""
    traced: bool = False
    """Messages of the batch were traced before, and name their traces: they are traced on."""
    opened: Opened | None = None
    """What is in such a batch, from whoever made it; the batch is opened otherwise."""
    records: list[Record] | BatchError | None = None
    """What a large batch holds, or why it cannot be opened, from `LargeBatches`."""
    verdict: SchemaVerdict | None = None
    """What came of holding it against schemas; a topic that asks for it takes none without."""
    transactional_id: str | None = None
    """Of a transactional batch, where it is known: a leader elsewhere is told it."""


class Published(NamedTuple):
    """What became of a batch."""

    placed: Placed
    log_start: int
    append_time_ms: int = -1
    """Set when the topic stamps records with the time of the append."""
    durable: Awaitable[None] | None = None
    """To be awaited before the publisher is told; None when there is nothing to wait for."""
    delayed: Sequence[Delayed] = ()
    """Records that wait until they are due. Their places in the offsets of the batch stay empty,
    if there are as many offsets as there were records; otherwise the others have moved up."""
    stored_count: int = 0
    """Messages of the batch that are in the log."""
