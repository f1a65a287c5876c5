"""The hidden logs of delayed messages, one for each class, and what is stored of their fate."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.delays.deltas import encode_delta
from goqueue.delays.entries import CLASSES, decode_place, decode_waiting, make_id, split_id
from goqueue.model.errors import BatchTooLargeError, DamagedRangeError, DelayError
from goqueue.records import Record, decode_rows, encode
from goqueue.records.batch import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.delays.book import DelayBook
    from goqueue.delays.deltas import Delta
    from goqueue.delays.entries import Waiting
    from goqueue.partitions.partition import Partition
    from goqueue.state.log import StateLog
    from goqueue.storage.region import Chunk

BATCH_RECORDS: Final = 100
BATCH_BYTES: Final = 128 * 1024
"""Batches are small, because messages are taken out of them one by one."""
_READ_BYTES: Final = 256 * 1024
_DENSE: Final = 8
"""Records a wanted one, up to which a longer stretch is read at once."""


class DelayStore:
    """Three logs. Appends happen on the event loop; reads may happen in any thread."""

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self.partitions = tuple(partitions)

    def append(self, class_number: int, records: list[Record]) -> int:
        """Store messages of one class, all or none; returns the offset of the first.

        Raises:
            BatchError: one of them is too large.
            DiskError, LogFailedError: nothing was stored.
        """
        partition = self.partitions[class_number]
        data = bytearray().join(
            batch
            for at in range(0, len(records), BATCH_RECORDS)
            for batch in _batches(records[at : at + BATCH_RECORDS])
        )
        appended = partition.log.append(data, partition.leader_epoch, checked=True)
        partition.flusher.appended()
        return appended.first_offset

    async def durable(self, ends: Iterable[int | None]) -> None:
        """Return when each log is on the disk up to its given end, if it has one.

        Raises:
            LogFailedError: the disk refused.
        """
        for partition, end in zip(self.partitions, ends, strict=True):
            while end is not None and partition.log.flushed_offset < end:
                await partition.flusher.flush()

    def ends(self) -> tuple[int, ...]:
        """Where each log ends now."""
        return tuple(partition.log_end for partition in self.partitions)

    def read(self, ids: Iterable[int]) -> dict[int, Record]:
        """The stored records of these messages; what is damaged or gone is missing."""
        wanted: list[list[int]] = [[] for _ in range(CLASSES)]
        for delayed_id in ids:
            class_number, offset = split_id(delayed_id)
            wanted[class_number].append(offset)
        return {
            make_id(class_number, record.offset): record
            for class_number, offsets in enumerate(wanted)
            for record in _read(self.partitions[class_number], sorted(offsets))
        }

    def places(self, class_number: int, start: int) -> Iterator[tuple[int, bytes, int]]:
        """Offset, topic id and due time of every message from an offset on; `scan` in a hurry."""
        for chunk in self._chunks(class_number, start):
            for position, info in walk(chunk.data):
                if info.last_offset < start:
                    continue
                for offset, _, _, _, headers in decode_rows(chunk.data, position, check_crc=False):
                    if offset >= start:
                        yield offset, *decode_place(headers)

    def scan(
        self, class_number: int, start: int, end: int | None = None
    ) -> Iterator[tuple[Record, Waiting]]:
        """Every message of a class from one offset up to another, or to the end of the log."""
        for chunk in self._chunks(class_number, start):
            for position, info in walk(chunk.data):
                if end is not None and info.base_offset >= end:
                    return
                if info.last_offset < start:
                    continue
                for record in decode_rows(chunk.data, position, check_crc=False):
                    if record.offset >= start and (end is None or record.offset < end):
                        yield record, decode_waiting(record.headers)

    def _chunks(self, class_number: int, start: int) -> Iterator[Chunk]:
        """The log of a class from an offset on; damage is reported and left out."""
        partition = self.partitions[class_number]
        on_damage = partial(partition.damage.damaged, partition.id)
        return partition.log.chunks(start, on_damage=on_damage)


def _batches(records: list[Record]) -> Iterator[bytearray]:
    """Batches that are not too large, as long as each record is not."""
    try:
        batch = encode(records)
        if len(batch) <= BATCH_BYTES or len(records) == 1:
            yield batch
            return
    except BatchTooLargeError:
        if len(records) == 1:
            raise
    middle = len(records) // 2
    yield from _batches(records[:middle])
    yield from _batches(records[middle:])


def _read(partition: Partition, offsets: list[int]) -> Iterator[Record]:
    log, at = partition.log, 0
    while at < len(offsets):
        further = min(at + BATCH_RECORDS, len(offsets) - 1)
        dense = offsets[further] - offsets[at] < _DENSE * (further - at)
        try:
            region = log.read(offsets[at], _READ_BYTES if dense else 1)
            if region is None:
                return
            data = region.load().data
        except DamagedRangeError as damage:
            partition.damage.damaged(partition.id, damage)
            at = bisect_right(offsets, damage.resume_at - 1, at)
            continue
        before = at
        for position, info in walk(data):
            following = bisect_right(offsets, info.last_offset, at)
            if following > at:
                rows = {row.offset: row for row in decode_rows(data, position, check_crc=False)}
                yield from (rows[each] for each in offsets[at:following] if each in rows)
                at = following
            if at == len(offsets):
                return
        if at == before:
            raise DelayError(f"nothing was found at offset {offsets[at]} of {log.folder}")


class DelayLedger:
    """What became of delayed messages: stored first, then true."""

    def __init__(self, log: StateLog, book: DelayBook) -> None:
        self.log = log
        self.book = book

    def change(self, *deltas: Delta) -> int:
        """Store changes, all or none, then apply them; returns what must be committed to tell.

        Raises:
            DiskError, LogFailedError: nothing has changed.
        """
        end_offset = self.log.append([encode_delta(delta) for delta in deltas])
        for delta in deltas:
            self.book.apply(delta)
        return end_offset

    async def durable(self, end_offset: int) -> None:
        """Return when changes are on the disk. Raises `LogFailedError` when it refused."""
        await self.log.partition.committed(end_offset)
