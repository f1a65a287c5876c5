"""Single records out of stored batches, for those who take messages one by one.

Queue groups hand out a batch in many small portions, to many members. A batch that was read stays
here for a while, so that it is read once, and opened once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from goqueue.model.errors import (
    BatchError,
    BatchTooLargeError,
    DamagedRangeError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
)
from goqueue.model.limits import MAX_BATCH_BYTES, MAX_CACHED_RECORD_BYTES
from goqueue.model.ranges import Range, around
from goqueue.partitions.partition import Isolation, Partition
from goqueue.reading.remote_source import RemoteSource
from goqueue.records import Record, check_records, decode_readable
from goqueue.records.batch import BatchInfo, walk
from goqueue.records.salvage import Fault
from goqueue.records.sound import sound_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.partitions.batch_opener import BatchOpener
    from goqueue.partitions.damage import DamageReports
    from goqueue.records.opening import Room
    from goqueue.storage.region import Chunk

RecordSource: TypeAlias = Partition | RemoteSource
"""Where records are read: a partition of this node, or one that another node leads."""

READ_BYTES: Final = 256 * 1024
_ROW_BYTES: Final = 200
"""What an opened record, or a header of one, costs beside its bytes, roughly."""
_LEAST_BYTES: Final = 16
"""What it takes at the least in an answer."""


class StoredBatch(msgspec.Struct):
    """One batch of a partition, opened when somebody asks for its records."""

    info: BatchInfo
    data: memoryview
    kept_bytes: int = 0
    """What the reader counts for it; 0 when it is not kept."""
    _rows: list[Record] | None = None
    _faults: list[Fault] | None = None
    _sound: memoryview | None = None
    _row_bytes: int = 0
    _content_bytes: int = 0

    @property
    def is_dense(self) -> bool:
        """There is a record for each offset."""
        return self.info.count == self.info.last_offset_delta + 1

    @property
    def cost_bytes(self) -> int:
        """What keeping it costs, with its records if it is open."""
        return self.info.size_bytes + self._row_bytes

    @property
    def record_bytes(self) -> int:
        """The size of one of its records, on average and decompressed; its header counts too."""
        return max((self._content_bytes or self.info.size_bytes) // max(self.info.count, 1), 1)

    @property
    def faults(self) -> list[Fault]:
        """What does not decode, once it was checked or opened."""
        return self._faults or []

    @property
    def sound_data(self) -> memoryview:
        """The batch for those who open it themselves, rid of records that do not decode."""
        return self.data if self._sound is None else self._sound

    def needs(self, *, opened: bool) -> bool:
        """Whether it must still be checked, or opened."""
        return self._faults is None or (opened and self._rows is None)

    def open(self, room: Room | None) -> None:
        """Decode the records, and keep them.

        Raises:
            BatchTooLargeError: they do not fit into `room`.
        """
        rows, self._faults = decode_readable(self.data, room=room)
        headers = sum(len(row.headers) for row in rows if row.headers)
        self._content_bytes = self.info.size_bytes
        if self.info.compression:
            self._content_bytes = sum(len(row.key or b"") + len(row.value or b"") for row in rows)
            self._content_bytes += _LEAST_BYTES * (len(rows) + headers)
        self._row_bytes = self._content_bytes + _ROW_BYTES * (len(rows) + headers)
        self._rows = rows
        if self._faults and self._sound is None:
            self._sound = sound_batch(self.data)[0]

    def check(self, room: Room | None) -> None:
        """Find out whether all records decode; they are kept only if some do not.

        Raises:
            BatchTooLargeError: they do not fit into `room`.
        """
        if (
            not self.is_dense
            or self.info.has_delivery_headers
            or not _decodes(self.data, self.info, room)
        ):
            self.open(room)
        else:
            self._faults = []

    def rows(self, first: int, end: int) -> Sequence[Record]:
        """The records with offsets in [first, end) that decode."""
        if self._rows is None:
            self.open(None)
        rows = self._rows or []
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


def _holds_no_message(partition: RecordSource, batch: StoredBatch, isolation: Isolation) -> bool:
    is_committed = isolation is Isolation.READ_COMMITTED
    info = batch.info
    return info.is_control or (is_committed and partition.transactions.is_aborted(info))


def _decodes(data: memoryview, info: BatchInfo, room: Room | None) -> bool:
    try:
        check_records(
            data,
            info=info,
            max_value_bytes=MAX_BATCH_BYTES,
            max_headers_bytes=MAX_BATCH_BYTES,
            room=room,
        )
    except BatchError as error:
        if room is not None and isinstance(error, BatchTooLargeError):
            raise
        return False
    return True


class Loaded(msgspec.Struct):
    """What there is of the offsets that were asked for."""

    parts: list[tuple[StoredBatch, int, int]] = msgspec.field(default_factory=list)
    """Batches, and which of their offsets were asked for, first and behind the last."""
    gone: list[Range] = msgspec.field(default_factory=list)
    """Offsets that hold no message: compacted or retained away, damaged, or not data at all."""
    faults: list[Fault] = msgspec.field(default_factory=list)
    """Offsets whose records do not decode, and why."""
    rest: list[Range] = msgspec.field(default_factory=list)
    """Offsets that were left for another time, there being enough."""

    size_bytes: int = 0
    """What the batches take in memory that hold something of it."""

    def records(self) -> Iterator[Record]:
        """The records themselves."""
        for batch, first, end in self.parts:
            yield from batch.rows(first, end)


class RecordReader:
    """Reads records by their offsets, and keeps the batches that were read last."""

    def __init__(self, executor: Executor, damage: DamageReports, opener: BatchOpener) -> None:
        self._executor = executor
        self._damage = damage
        self._opener = opener
        self._kept: OrderedDict[tuple[RecordSource, int], StoredBatch] = OrderedDict()
        self._bases: dict[RecordSource, list[int]] = {}
        self._kept_bytes = 0
        self.is_copied: Callable[[Partition], bool] | None = None
        """Of a cluster: whether other replicas of a partition are in sync. What is not here may be
        there, and is not to be taken for gone."""

    async def load(
        self,
        partition: RecordSource,
        ranges: Iterable[Range],
        *,
        opened: bool = True,
        max_bytes: int | None = None,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> Loaded:
        """The batches that hold these offsets, which can all be read at that isolation.

        Without `opened` the caller passes on whole batches: that they decode is made sure, and
        their records are not kept. With `max_bytes` the rest is left once the batches take so much
        memory; the first is loaded whatever its size.

        Raises:
            StorageError: the disk refused.
            OffsetNotAvailableError: other replicas have it, this one not yet or not any more.
        """
        loaded = Loaded()
        for first, end in ranges:
            at = first
            while at < end:
                if max_bytes is not None and loaded.size_bytes >= max_bytes:
                    loaded.rest.append((at, end))
                    break
                batch, resume_at = self._find(partition, at), at
                if batch is None:
                    batch, resume_at = await self._read(partition, at, isolation)
                if batch is None or batch.info.base_offset > at:
                    resume_at = min(end, resume_at if batch is None else batch.info.base_offset)
                    loaded.gone.append((at, resume_at))
                    at = resume_at
                    continue
                if batch.needs(opened=opened) and not _holds_no_message(
                    partition, batch, isolation
                ):
                    work = batch.open if opened else batch.check
                    if not self._opener.has_done(work):
                        await self._opener.run_large(partial(work, None))
                    self._count(batch)
                if not loaded.parts or loaded.parts[-1][0] is not batch:
                    loaded.size_bytes += batch.cost_bytes
                resume_at = min(batch.info.next_offset, end)
                self.sort(partition, batch, (at, resume_at), loaded, isolation)
                at = resume_at
        return loaded

    def sort(
        self,
        partition: RecordSource,
        batch: StoredBatch,
        wanted: Range,
        loaded: Loaded,
        isolation: Isolation,
    ) -> None:
        """Tell messages from what only takes up offsets, and from what does not decode.

        The batch was opened or checked before.
        """
        first, end = wanted
        if _holds_no_message(partition, batch, isolation):
            loaded.gone.append((first, end))
            return
        sound = [(first, end)]
        if faults := batch.faults:
            for fault in faults:
                self._damage.undecodable(partition.id, fault)
            sound = list(around(first, end, [(each.first, each.end) for each in faults]))
            loaded.faults.extend(_within(faults, first, end))
        for part in sound:
            holes = [] if batch.is_dense else list(_holes(batch, *part))
            loaded.parts.extend((batch, *piece) for piece in around(*part, holes))
            loaded.gone.extend(holes)

    # --- Reading ---------------------------------------------------------------------------------

    async def _read(
        self, partition: RecordSource, offset: int, isolation: Isolation
    ) -> tuple[StoredBatch | None, int]:
        """Read on from `offset`: the first batch that reaches it, or where there may be one."""
        if self.is_copied is not None and offset >= partition.readable_to(isolation):
            raise OffsetNotAvailableError(
                f"{partition.id} is known here to be committed up to offset "
                f"{partition.readable_to(isolation)}, which is not past {offset}: try again"
            )
        if isinstance(partition, RemoteSource):
            fetched, resume_at = await partition.fetch(offset, READ_BYTES, isolation)
            return (None, resume_at) if fetched is None else self._taken(partition, fetched, offset)
        try:
            region = partition.find_committed(offset, READ_BYTES, isolation)
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
            if self.is_copied is not None and self.is_copied(partition):
                raise OffsetNotAvailableError(
                    f"{partition.id} is damaged here at offset {damage.first} and fetched again "
                    "from another replica: try again"
                ) from damage
            return None, max(damage.resume_at, offset + 1)
        return self._taken(partition, chunk, offset)

    def _taken(
        self, partition: RecordSource, chunk: Chunk, offset: int
    ) -> tuple[StoredBatch | None, int]:
        """Keep the batches of a chunk; the first that reaches the offset."""
        data = memoryview(chunk.data)
        found: StoredBatch | None = None
        for position, info in walk(data):
            batch = StoredBatch(info, data[position : position + info.size_bytes])
            self._keep(partition, batch)
            if found is None and info.next_offset > offset:
                found = batch
        return found, max(chunk.next_offset, offset + 1)

    # --- Keeping ---------------------------------------------------------------------------------

    def _find(self, partition: RecordSource, offset: int) -> StoredBatch | None:
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

    def _keep(self, partition: RecordSource, batch: StoredBatch) -> None:
        key = (partition, batch.info.base_offset)
        if key in self._kept:
            return
        self._kept[key] = batch
        batch.kept_bytes = batch.cost_bytes
        self._kept_bytes += batch.kept_bytes
        insort(self._bases.setdefault(partition, []), batch.info.base_offset)
        self._drop_oldest()

    def _count(self, batch: StoredBatch) -> None:
        """A batch that was opened costs more than before."""
        cost_bytes = batch.cost_bytes
        if batch.kept_bytes not in (0, cost_bytes):
            self._kept_bytes += cost_bytes - batch.kept_bytes
            batch.kept_bytes = cost_bytes
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        while self._kept_bytes > MAX_CACHED_RECORD_BYTES and len(self._kept) > 1:
            (other, base), dropped = self._kept.popitem(last=False)
            self._kept_bytes -= dropped.kept_bytes
            dropped.kept_bytes = 0
            self._forget_base(other, base)

    def _forget_base(self, partition: RecordSource, base: int) -> None:
        bases = self._bases[partition]
        del bases[bisect_left(bases, base)]
        if not bases:
            del self._bases[partition]

    def forget(self, partition: RecordSource) -> None:
        """A partition is gone, and what was kept of it with it."""
        for base in self._bases.pop(partition, ()):
            dropped = self._kept.pop((partition, base))
            self._kept_bytes -= dropped.kept_bytes
            dropped.kept_bytes = 0
