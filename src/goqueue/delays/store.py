"""The hidden logs of delayed messages, one for each class, and what is stored of their fate."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from goqueue.delays.deltas import Delta, encode_delta
from goqueue.delays.entries import CLASSES, Waiting, decode_place, decode_waiting, make_id, split_id
from goqueue.model.errors import BatchTooLargeError, DelayError, StorageError
from goqueue.records import Record, decode_rows, encode
from goqueue.records.batch import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.delays.book import DelayBook
    from goqueue.partitions.partition import Partition
    from goqueue.state.shard import StateShard

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
        data = bytearray().join(
            batch
            for at in range(0, len(records), BATCH_RECORDS)
            for batch in _batches(records[at : at + BATCH_RECORDS])
        )
        return self.partitions[class_number].append_all(data).first_offset

    async def durable(self, ends: Iterable[int | None]) -> None:
        """Return when each log is on the disk up to its given end, if it has one.

        Raises:
            LogFailedError: the disk refused.
        """
        for partition, end in zip(self.partitions, ends, strict=True):
            if end is not None:
                await partition.synced(end)

    async def committed(self, ends: Iterable[int | None]) -> None:
        """Return when every in-sync replica has each log up to its given end, if it has one.

        Raises:
            StorageError: this node does not lead the unit any more.
        """
        for partition, end in zip(self.partitions, ends, strict=True):
            if end is not None and not partition.is_committed(end):
                await partition.committed(end)

    def committed_ends(self) -> tuple[int, ...]:
        """How far each log is committed."""
        return tuple(partition.high_watermark for partition in self.partitions)

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
        partition = self.partitions[class_number]
        for chunk in partition.chunks(start, partition.report_damage):
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
        partition = self.partitions[class_number]
        for chunk in partition.chunks(start, partition.report_damage):
            for position, info in walk(chunk.data):
                if end is not None and info.base_offset >= end:
                    return
                if info.last_offset < start:
                    continue
                for record in decode_rows(chunk.data, position, check_crc=False):
                    if record.offset >= start and (end is None or record.offset < end):
                        yield record, decode_waiting(record.headers)


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
    at = 0
    while at < len(offsets):
        further = min(at + BATCH_RECORDS, len(offsets) - 1)
        dense = offsets[further] - offsets[at] < _DENSE * (further - at)
        size_bytes = _READ_BYTES if dense else 1
        chunk = next(partition.chunks(offsets[at], partition.report_damage, size_bytes), None)
        if chunk is None:
            return
        before = at
        for position, info in walk(chunk.data):
            following = bisect_right(offsets, info.last_offset, at)
            if following > at:
                rows = {
                    row.offset: row for row in decode_rows(chunk.data, position, check_crc=False)
                }
                yield from (rows[each] for each in offsets[at:following] if each in rows)
                at = following
            if at == len(offsets):
                return
        if at == before:
            raise DelayError(f"nothing was found at offset {offsets[at]} of {partition.id}")


class DelayLedger:
    """What became of delayed messages: stored first, then true.

    It belongs to one replay of the log. Whoever still holds it after another one is refused.
    """

    def __init__(self, state: StateShard, book: DelayBook) -> None:
        self.state = state
        self.book = book
        self._generation = state.generation

    def change(self, *deltas: Delta) -> int:
        """Store changes, all or none, then apply them; returns what must be committed to tell.

        Raises:
            DelaysUnavailableError: nothing has changed.
        """
        self.check()
        try:
            end_offset = self.state.append([encode_delta(delta) for delta in deltas])
        except StorageError as error:
            raise self.state.failed(error) from error
        for delta in deltas:
            self.book.apply(delta)
        return end_offset

    async def committed(self, end_offset: int) -> None:
        """Return when changes are committed.

        Raises:
            DelaysUnavailableError: they are not, or the log was replayed since: what is built from
                it knows what became of them.
        """
        await self.state.committed(end_offset)
        self.check()

    def check(self) -> None:
        """Raise `DelaysUnavailableError` when the log was replayed since, or refuses changes."""
        if self._generation != self.state.generation:
            raise self.state.refusal()
        self.state.check()
