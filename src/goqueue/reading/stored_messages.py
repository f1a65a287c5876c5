"""Single messages out of what was fetched, for protocols whose clients do not open batches."""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from goqueue.model.tuples import NamedTuple
from goqueue.partitions.partition import Isolation
from goqueue.reading.fetch import (
    Fetched,
    FetchRequest,
    PartitionRead,
    bytes_for,
    visible_batches,
)
from goqueue.records import Record, decode_readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.batch_opener import BatchOpener
    from goqueue.partitions.damage import DamageReports
    from goqueue.records.opening import Room
    from goqueue.records.salvage import Fault

_MAX_OPENED_BYTES: Final = 16 * 1024 * 1024
"""Messages of one partition in one answer, decompressed. What goes beyond it comes with the next
read; one message is returned whatever its size."""
_HEADER_BYTES: Final = 64
"""What a header counts for: many small ones take long to write into an answer."""


class StoredMessage(NamedTuple):
    """A message that was read."""

    topic: str
    partition: int
    record: Record


class MessagesRead(msgspec.Struct, frozen=True):
    """The messages of one partition from an offset on, and how to go on."""

    messages: list[StoredMessage]
    next_offset: int
    high_watermark: int
    log_start: int
    last_stable: int
    """Where readers of committed messages stop."""


class Fetches(Protocol):
    """What partitions are read by: those of this node, or of the cluster."""

    async def fetch(self, request: FetchRequest) -> list[Fetched]:
        """Read every partition asked for; see `Fetcher.fetch`."""

    def handed_out(self, counts: Mapping[str, int]) -> None:
        """So many messages of each topic went to a reader that takes them one by one."""


class MessageReader:
    """Reads messages without keeping anything about the reader."""

    def __init__(self, fetcher: Fetches, damage: DamageReports, opener: BatchOpener) -> None:
        self._fetcher = fetcher
        self._damage = damage
        self._opener = opener

    async def read(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        limit: int,
        max_bytes: int = 4 * 1024 * 1024,
        max_wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> MessagesRead:
        """Up to `limit` messages from `offset` on, waiting for the first if there is none.

        Offsets without a message, as markers have them, do not end the wait.

        Raises:
            TopicError, OffsetOutOfRangeError, StorageError: they cannot be read.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + max_wait_ms / 1000
        max_bytes = bytes_for(limit, max_bytes)
        while True:
            wait_ms = max(round((deadline_s - loop.time()) * 1000), 0)
            request = FetchRequest(
                [PartitionRead(partition, offset, max_bytes)],
                wait_ms,
                isolation=isolation,
                by_message=True,
            )
            found = await self._read(request, limit)
            if found.messages or found.next_offset <= offset or loop.time() >= deadline_s:
                return found
            offset = found.next_offset

    async def _read(self, request: FetchRequest, limit: int) -> MessagesRead:
        (fetched,) = await self._fetcher.fetch(request)
        if fetched.error is not None:
            raise fetched.error
        messages, is_all = await messages_of(fetched, self._opener, self._damage, limit)
        if messages:
            self._fetcher.handed_out({fetched.read.partition.topic: len(messages)})
        return MessagesRead(
            messages,
            fetched.next_offset if is_all else messages[-1].record.offset + 1,
            fetched.high_watermark,
            fetched.log_start,
            fetched.last_stable,
        )


async def messages_of(
    fetched: Fetched, opener: BatchOpener, damage: DamageReports, limit: int
) -> tuple[list[StoredMessage], bool]:
    """Up to `limit` data messages of a fetch, from the offset asked for on; whether these are all.

    Records that do not decode are skipped and reported: nobody could ever read past them otherwise.
    """
    place = fetched.read.partition
    messages: list[StoredMessage] = []
    left = _Left(limit, _MAX_OPENED_BYTES)
    for position, info in visible_batches(fetched):
        if info.last_offset < fetched.read.offset:
            continue
        if left.messages <= 0 or left.size_bytes <= 0:
            return messages, False
        opened = await opener.run(partial(_open, fetched, position, left))
        for fault in opened.faults:
            damage.undecodable(place, fault)
        messages += [
            StoredMessage(place.topic, place.partition, record) for record in opened.records
        ]
        left = opened.left
        if opened.is_cut:
            return messages, False
    return messages, True


class _Left(NamedTuple):
    """How much may still be read."""

    messages: int
    size_bytes: int


class _Opened(NamedTuple):
    """What was read of one batch."""

    records: list[Record]
    faults: list[Fault]
    left: _Left
    is_cut: bool
    """There is more in it."""


def _open(fetched: Fetched, position: int, left: _Left, room: Room | None) -> _Opened:
    """What is wanted of one batch; the rest of it is let go at once."""
    rows, faults = decode_readable(fetched.data, position, room=room)
    start = bisect_left(rows, fetched.read.offset, key=attrgetter("offset"))
    records: list[Record] = []
    count, size_bytes = left
    for record in itertools.islice(rows, start, start + count):
        if size_bytes <= 0:
            break
        records.append(record)
        headers_bytes = _HEADER_BYTES * len(record.headers)
        size_bytes -= len(record.key or b"") + len(record.value or b"") + headers_bytes
    is_cut = start + len(records) < len(rows)
    return _Opened(records, faults, _Left(count - len(records), size_bytes), is_cut)
