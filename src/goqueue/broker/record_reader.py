"""Single records out of stored batches, for those who take messages one by one.

Queue groups hand out a batch in many small portions, to many members. A batch that was read stays
here for a while, so that it is read once, and opened once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from goqueue.broker.partition import Isolation
from goqueue.model.errors import BatchError, DamagedRangeError, OffsetOutOfRangeError
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.records import check_records, decode_readable
from goqueue.records.batch import walk
from goqueue.records.sound import sound_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.broker.damage import DamageReports
    from goqueue.broker.partition import Partition
    from goqueue.delivery.operations import Range
    from goqueue.records import Record
    from goqueue.records.batch import BatchInfo
    from goqueue.records.salvage import Fault

READ_BYTES: Final = 256 * 1024
MAX_CACHED_BYTES: Final = 32 * 1024 * 1024
_ROW_BYTES: Final = 200
"""What an opened record costs beside its bytes, roughly."""


@dataclass(slots=True)
class StoredBatch:
    """One batch of a partition, opened when somebody asks for its records."""

    info: BatchInfo
    data: memoryview
    _rows: list[Record] | None = field(default=None, repr=False)
    _faults: list[Fault] | None = field(default=None, repr=False)

    @property
    def is_dense(self) -> bool:
        """There is a record for each offset."""
        return self.info.count == self.info.last_offset_delta + 1

    @property
    def cost_bytes(self) -> int:
        """What keeping it costs, once it is open."""
        return 2 * self.info.size_bytes + _ROW_BYTES * self.info.count

    def faults(self, *, opened: bool) -> list[Fault]:
        """What does not decode; without `opened` the records that do are not kept."""
        if self._faults is None:
            if opened or not _decodes(self.data):
                self._rows, self._faults = decode_readable(self.data)
            else:
                self._faults = []
        return self._faults

    @property
    def sound_data(self) -> memoryview:
        """The batch for those who open it themselves, rid of records that do not decode."""
        return sound_batch(self.data)[0] if self.faults(opened=False) else self.data

    def rows(self, first: int, end: int) -> Sequence[Record]:
        """The records with offsets in [first, end) that decode."""
        rows = self._rows
        if rows is None:
            rows, self._faults = decode_readable(self.data)
            self._rows = rows
        base = self.info.base_offset
        if self.is_dense and not self._faults:
            return rows[max(first - base, 0) : max(end - base, 0)]
        return rows[bisect_left(rows, first, key=_offset) : bisect_left(rows, end, key=_offset)]


def _offset(record: Record) -> int:
    return record.offset


def _holes(batch: StoredBatch, first: int, end: int) -> Iterator[Range]:
    """The offsets of [first, end) of which there is no record, in a batch that has gaps."""
    expected = first
    for record in batch.rows(first, end):
        if record.offset > expected:
            yield expected, record.offset
        expected = record.offset + 1
    if expected < end:
        yield expected, end


def _within(faults: list[Fault], first: int, end: int) -> Iterator[Fault]:
    """What of [first, end) does not decode."""
    for fault in faults:
        if fault.first < end and first < fault.end:
            yield fault._replace(first=max(fault.first, first), end=min(fault.end, end))


def around(first: int, end: int, gone: Iterable[Range]) -> Iterator[Range]:
    """The parts of [first, end) that are not gone."""
    for from_, to in sorted(gone):
        if to <= first or from_ >= end:
            continue
        if from_ > first:
            yield first, from_
        first = max(first, to)
    if end > first:
        yield first, end


def _decodes(data: memoryview) -> bool:
    try:
        check_records(data, max_value_bytes=MAX_BATCH_BYTES, max_headers_bytes=MAX_BATCH_BYTES)
    except BatchError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Loaded:
    """What there is of the offsets that were asked for."""

    parts: list[tuple[StoredBatch, int, int]] = field(default_factory=list)
    """Batches, and which of their offsets were asked for, first and behind the last."""
    gone: list[Range] = field(default_factory=list)
    """Offsets that hold no message: compacted or retained away, damaged, or not data at all."""
    faults: list[Fault] = field(default_factory=list)
    """Offsets whose records do not decode, and why."""
    rest: list[Range] = field(default_factory=list)
    """Offsets that were left for another time, there being enough."""

    @property
    def size_bytes(self) -> int:
        """The size of the batches that hold something of it."""
        return sum({id(batch): batch.info.size_bytes for batch, _, _ in self.parts}.values())

    def records(self) -> Iterator[Record]:
        """The records themselves."""
        for batch, first, end in self.parts:
            yield from batch.rows(first, end)


class RecordReader:
    """Reads records by their offsets, and keeps the batches that were read last."""

    def __init__(self, executor: Executor, damage: DamageReports) -> None:
        self._executor = executor
        self._damage = damage
        self._kept: OrderedDict[tuple[Partition, int], StoredBatch] = OrderedDict()
        self._bases: dict[Partition, list[int]] = {}
        self._kept_bytes = 0

    async def load(
        self,
        partition: Partition,
        ranges: Iterable[Range],
        *,
        opened: bool = True,
        max_bytes: int | None = None,
    ) -> Loaded:
        """The batches that hold these offsets, which are all committed.

        Without `opened` whoever asks hands on whole batches: that they decode is made sure, and
        their records are not kept. With `max_bytes` the rest is left once batches of so many bytes
        are loaded; the first is loaded whatever its size.

        Raises:
            StorageError: the disk refused.
        """
        loaded = Loaded()
        for first, end in ranges:
            at = first
            while at < end:
                if max_bytes is not None and loaded.size_bytes >= max_bytes:
                    loaded.rest.append((at, end))
                    break
                at = await self._load_next(partition, at, end, loaded, opened=opened)
        return loaded

    async def _load_next(
        self, partition: Partition, first: int, end: int, loaded: Loaded, *, opened: bool
    ) -> int:
        """Load what one batch holds of [first, end), or step over a gap; says where to go on."""
        batch = self._find(partition, first)
        resume_at = first
        if batch is None:
            batch, resume_at = await self._read(partition, first)
        if batch is not None and batch.info.base_offset <= first:
            resume_at = min(batch.info.next_offset, end)
            self._sort(partition, batch, (first, resume_at), loaded, opened=opened)
            return resume_at
        resume_at = min(end, resume_at if batch is None else batch.info.base_offset)
        loaded.gone.append((first, resume_at))
        return resume_at

    def _sort(
        self,
        partition: Partition,
        batch: StoredBatch,
        wanted: Range,
        loaded: Loaded,
        *,
        opened: bool,
    ) -> None:
        """Tell messages from what only takes up offsets, and from what does not decode."""
        info, (first, end) = batch.info, wanted
        if info.is_control or partition.transactions.is_aborted(info):
            loaded.gone.append((first, end))
            return
        sound = [(first, end)]
        if faults := batch.faults(opened=opened):
            for fault in faults:
                self._damage.undecodable(partition.id, fault)
            sound = list(around(first, end, [(each.first, each.end) for each in faults]))
            loaded.faults.extend(_within(faults, first, end))
        for part in sound:
            loaded.parts.append((batch, *part))
            if not batch.is_dense:
                loaded.gone.extend(_holes(batch, *part))

    # --- Reading ---------------------------------------------------------------------------------

    async def _read(self, partition: Partition, offset: int) -> tuple[StoredBatch | None, int]:
        """Read on from `offset`: the first batch that reaches it, or where there may be one."""
        try:
            region = partition.find(offset, READ_BYTES, Isolation.READ_COMMITTED)
            if region is None:
                return None, offset + 1
            chunk = region.load_cached()
            if chunk is None:
                loop = asyncio.get_running_loop()
                chunk = await loop.run_in_executor(self._executor, region.load)
        except OffsetOutOfRangeError as error:
            return None, max(error.log_start, offset + 1)
        except DamagedRangeError as damage:
            self._damage.damaged(partition.id, damage)
            return None, max(damage.resume_at, offset + 1)
        data = memoryview(chunk.data)
        found: StoredBatch | None = None
        for position, info in walk(data):
            batch = StoredBatch(info, data[position : position + info.size_bytes])
            self._keep(partition, batch)
            if found is None and info.next_offset > offset:
                found = batch
        return found, max(chunk.next_offset, offset + 1)

    # --- Keeping ---------------------------------------------------------------------------------

    def _find(self, partition: Partition, offset: int) -> StoredBatch | None:
        bases = self._bases.get(partition)
        if not bases:
            return None
        at = bisect_right(bases, offset) - 1
        if at < 0:
            return None
        key = (partition, bases[at])
        batch = self._kept[key]
        if offset >= batch.info.next_offset:
            return None
        self._kept.move_to_end(key)
        return batch

    def _keep(self, partition: Partition, batch: StoredBatch) -> None:
        key = (partition, batch.info.base_offset)
        if key in self._kept:
            return
        self._kept[key] = batch
        self._kept_bytes += batch.cost_bytes
        insort(self._bases.setdefault(partition, []), batch.info.base_offset)
        while self._kept_bytes > MAX_CACHED_BYTES and len(self._kept) > 1:
            (other, base), dropped = self._kept.popitem(last=False)
            self._kept_bytes -= dropped.cost_bytes
            self._forget_base(other, base)

    def _forget_base(self, partition: Partition, base: int) -> None:
        bases = self._bases[partition]
        del bases[bisect_left(bases, base)]
        if not bases:
            del self._bases[partition]

    def forget(self, partition: Partition) -> None:
        """A partition is gone, and what was kept of it with it."""
        for base in self._bases.pop(partition, ()):
            self._kept_bytes -= self._kept.pop((partition, base)).cost_bytes
