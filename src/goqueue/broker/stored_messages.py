"""Single messages out of what was fetched, for protocols whose clients do not open batches."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.fetch import FetchRequest, PartitionRead, bytes_for, visible_batches
from goqueue.broker.partition import Isolation
from goqueue.records import decode_readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.damage import DamageReports
    from goqueue.broker.fetch import Fetched, Fetcher
    from goqueue.broker.partition import PartitionId
    from goqueue.records import Record


class StoredMessage(NamedTuple):
    """A message that was read."""

    topic: str
    partition: int
    record: Record


@dataclass(frozen=True, slots=True)
class MessagesRead:
    """The messages of one partition from an offset on, and how to go on."""

    messages: list[StoredMessage]
    next_offset: int
    high_watermark: int
    log_start: int


class MessageReader:
    """Reads messages without keeping anything about the reader."""

    def __init__(self, fetcher: Fetcher, damage: DamageReports) -> None:
        self._fetcher = fetcher
        self._damage = damage

    async def read(
        self,
        partition: PartitionId,
        offset: int,
        *,
        limit: int,
        max_bytes: int = 4 * 1024 * 1024,
        max_wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> MessagesRead:
        """Up to `limit` messages from `offset` on, waiting for the first if there is none.

        Raises:
            TopicError, OffsetOutOfRangeError, StorageError: they cannot be read.
        """
        request = FetchRequest(
            [PartitionRead(partition, offset, bytes_for(limit, max_bytes))],
            max_wait_ms,
            isolation=isolation,
            by_message=True,
        )
        (fetched,) = await self._fetcher.fetch(request)
        if fetched.error is not None:
            raise fetched.error
        messages = list(itertools.islice(messages_of(fetched, self._damage), limit))
        if messages:
            self._fetcher.handed_out({partition.topic: len(messages)})
        cut_short = len(messages) == limit and messages
        return MessagesRead(
            messages,
            messages[-1].record.offset + 1 if cut_short else fetched.next_offset,
            fetched.high_watermark,
            fetched.log_start,
        )


def messages_of(fetched: Fetched, damage: DamageReports) -> Iterator[StoredMessage]:
    """The data messages of a fetch, from the offset that was asked for on.

    Records that do not decode are skipped and reported: nobody could ever read past them otherwise.
    """
    place = fetched.read.partition
    for position, info in visible_batches(fetched):
        if info.last_offset < fetched.read.offset:
            continue
        records, faults = decode_readable(fetched.data, position)
        for fault in faults:
            damage.undecodable(place, fault)
        for record in records:
            if record.offset >= fetched.read.offset:
                yield StoredMessage(place.topic, place.number, record)
