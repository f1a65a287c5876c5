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
from goqueue.model.errors import DamagedRangeError, OffsetOutOfRangeError
from goqueue.records import decode_rows
from goqueue.records.batch import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.broker.partition import Partition, PartitionId
    from goqueue.delivery.operations import Range
    from goqueue.records import Record
    from goqueue.records.batch import BatchInfo

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

    @property
    def is_dense(self) -> bool:
        """There is a record for each offset."""
        return self.info.count == self.info.last_offset_delta + 1

    @property
    def cost_bytes(self) -> int:
        """What keeping it costs, once it is open."""
        return 2 * self.info.size_bytes + _ROW_BYTES * self.info.count

    def rows(self, first: int, end: int) -> Sequence[Record]:
        """The records with offsets in [first, end)."""
        rows = self._rows
        if rows is None:
            rows = self._rows = list(decode_rows(self.data, 0, check_crc=False))
        base = self.info.base_offset
        if self.is_dense:
            return rows[max(first - base, 0) : max(end - base, 0)]
        return rows[bisect_left(rows, first, key=_offset) : bisect_left(rows, end, key=_offset)]


def _offset(record: Record) -> int:
    return record.offset


@dataclass(frozen=True, slots=True)
class Loaded:
    """What there is of the offsets that were asked for."""

    parts: list[tuple[StoredBatch, int, int]]
    """Batches, and which of their offsets were asked for, first and behind the last."""
    gone: list[Range]
    """Offsets that hold no message: compacted or retained away, damaged, or not data at all."""

    def records(self) -> Iterator[Record]:
        """The records themselves."""
        for batch, first, end in self.parts:
            yield from batch.rows(first, end)


class RecordReader:
    """Reads records by their offsets, and keeps the batches that were read last."""

    def __init__(
        self, executor: Executor, on_damage: Callable[[PartitionId, DamagedRangeError], None]
    ) -> None:
        self._executor = executor
        self._on_damage = on_damage
        self._kept: OrderedDict[tuple[Partition, int], StoredBatch] = OrderedDict()
        self._bases: dict[Partition, list[int]] = {}
        self._kept_bytes = 0

    async def load(self, partition: Partition, ranges: Iterable[Range]) -> Loaded:
        """The batches that hold these offsets, which are all committed.

        Raises:
            StorageError: the disk refused.
        """
        loaded = Loaded([], [])
        for first, end in ranges:
            at = first
            while at < end:
                at = await self._load_next(partition, at, end, loaded)
        return loaded

    async def _load_next(self, partition: Partition, first: int, end: int, loaded: Loaded) -> int:
        """Load what one batch holds of [first, end), or step over a gap; says where to go on."""
        batch = self._find(partition, first)
        resume_at = first
        if batch is None:
            batch, resume_at = await self._read(partition, first)
        if batch is not None and batch.info.base_offset <= first:
            resume_at = min(batch.info.next_offset, end)
            self._sort(partition, batch, first, resume_at, loaded)
            return resume_at
        resume_at = min(end, resume_at if batch is None else batch.info.base_offset)
        loaded.gone.append((first, resume_at))
        return resume_at

    def _sort(
        self, partition: Partition, batch: StoredBatch, first: int, end: int, loaded: Loaded
    ) -> None:
        """Tell messages from what only takes up offsets."""
        info = batch.info
        if info.is_control or partition.transactions.is_aborted(info):
            loaded.gone.append((first, end))
            return
        loaded.parts.append((batch, first, end))
        if batch.is_dense:
            return
        expected = first
        for record in batch.rows(first, end):
            if record.offset > expected:
                loaded.gone.append((expected, record.offset))
            expected = record.offset + 1
        if expected < end:
            loaded.gone.append((expected, end))

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
            self._on_damage(partition.id, damage)
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
