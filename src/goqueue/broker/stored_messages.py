"""Single messages out of what was fetched, for protocols whose clients do not open batches."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.fetch import FetchRequest, PartitionRead, bytes_for, visible_batches
from goqueue.broker.partition import Isolation
from goqueue.records import decode_readable
from goqueue.records.salvage import Readable

if TYPE_CHECKING:
    from goqueue.broker.damage import DamageReports
    from goqueue.broker.fetch import Fetched, Fetcher
    from goqueue.broker.opener import BatchOpener
    from goqueue.broker.partition import PartitionId
    from goqueue.records import Record
    from goqueue.records.opening import Room


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

    def __init__(self, fetcher: Fetcher, damage: DamageReports, opener: BatchOpener) -> None:
        self._fetcher = fetcher
        self._damage = damage
        self._opener = opener

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
        messages = await messages_of(fetched, self._opener, self._damage, limit)
        if messages:
            self._fetcher.handed_out({partition.topic: len(messages)})
        cut_short = len(messages) == limit and messages
        return MessagesRead(
            messages,
            messages[-1].record.offset + 1 if cut_short else fetched.next_offset,
            fetched.high_watermark,
            fetched.log_start,
        )


async def messages_of(
    fetched: Fetched, opener: BatchOpener, damage: DamageReports, limit: int
) -> list[StoredMessage]:
    """Up to `limit` data messages of a fetch, from the offset that was asked for on.

    Records that do not decode are skipped and reported: nobody could ever read past them otherwise.
    """
    place = fetched.read.partition
    messages: list[StoredMessage] = []
    for position, info in visible_batches(fetched):
        if len(messages) >= limit:
            break
        if info.last_offset < fetched.read.offset:
            continue
        wanted = partial(_open, fetched, position, limit - len(messages))
        records, faults = await opener.run(wanted)
        for fault in faults:
            damage.undecodable(place, fault)
        messages += [StoredMessage(place.topic, place.number, record) for record in records]
    return messages


def _open(fetched: Fetched, position: int, limit: int, room: Room | None) -> Readable:
    """What is wanted of one batch; the rest of it is let go at once."""
    records, faults = decode_readable(fetched.data, position, room=room)
    start = bisect_left(records, fetched.read.offset, key=attrgetter("offset"))
    return Readable(records[start : start + limit], faults)
