"""What compaction must do, said as plainly as possible: a list of batches and a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.records import DELETE_HORIZON, Compression, Record, decode_rows, encode, peek, walk
from goqueue.records.batch import COMPRESSION_MASK

if TYPE_CHECKING:
    from goqueue.records import BatchInfo
    from goqueue.storage.log import Log

NO_PRODUCER = (-1, -1, -1)


@dataclass(frozen=True)
class Draft:
    """A batch to be appended: (key, value, timestamp) each, and what the header says."""

    rows: tuple[tuple[bytes | None, bytes | None, int], ...]
    compression: Compression = Compression.NONE
    attributes: int = 0
    producer: tuple[int, int, int] = NO_PRODUCER
    epoch: int = 0

    def encode(self) -> bytearray:
        producer_id, producer_epoch, base_sequence = self.producer
        return encode(
            [Record(n, stamp, key, value) for n, (key, value, stamp) in enumerate(self.rows)],
            compression=self.compression,
            attributes=self.attributes,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )


def stored_batches(log: Log) -> list[tuple[BatchInfo, bytes]]:
    """Every batch that a reader gets, from the start of the log on."""
    return [
        (info, bytes(chunk.data[at : at + info.size_bytes]))
        for chunk in log.chunks(log.start_offset)
        for at, info in walk(chunk.data)
    ]


def stored_records(log: Log) -> list[Record]:
    """Every record of data that a reader gets."""
    return [
        record
        for info, data in stored_batches(log)
        if not info.is_control
        for record in decode_rows(data)
        if record.offset >= log.start_offset
    ]


@dataclass
class Twin:
    """Remembers everything that was appended, and works out what may be left of it."""

    records: list[Record] = field(default_factory=list)
    """Committed records of data, never removed from here."""
    batches: dict[int, bytes] = field(default_factory=dict)
    """Every batch as it was stored, by its base offset."""
    aborted: set[int] = field(default_factory=set)
    """The base offsets of batches that were never committed."""

    def append(self, log: Log, draft: Draft, *, abort: bool = False) -> int:
        data = draft.encode()
        base = log.append(data, draft.epoch).first_offset
        info = peek(data)
        self.batches[base] = bytes(data)
        if abort:
            self.aborted.add(base)
        elif not info.is_control:
            self.records += decode_rows(bytes(data))
        return base

    def is_aborted(self, info: BatchInfo) -> bool:
        return info.base_offset in self.aborted

    def adopt(self, log: Log) -> None:
        """Take what a cut has left as all that there ever was."""
        present = {record.offset for record in stored_records(log)}
        self.records = [record for record in self.records if record.offset in present]
        left = {info.base_offset for info, _ in stored_batches(log)}
        self.batches = {base: data for base, data in self.batches.items() if base in left}
        self.aborted &= left

    def judge(self, log: Log, *, expired: frozenset[int] = frozenset()) -> None:
        """Check what is left against what must and what must not be.

        `expired` are the offsets of tombstones that may be gone.
        """
        log.check_invariants()
        self._judge_batches(log)
        self._judge_records(stored_records(log), log, expired)

    def _judge_records(self, found: list[Record], log: Log, expired: frozenset[int]) -> None:
        clean_below = log.store.checkpoint.clean_below
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets)), "out of order, or one twice"
        original = {record.offset: record for record in self.records}
        newest = {record.key: record.offset for record in self.records}
        newest_clean = {r.key: r.offset for r in self.records if r.offset < clean_below}
        for record in found:
            if record.offset not in original:
                assert record.offset >= clean_below, "an aborted record is left"
                continue
            assert record == original[record.offset], "a record was changed"
            if record.key is not None and record.offset < clean_below:
                assert record.offset == newest_clean[record.key], f"replaced, and left: {record}"
        present = set(offsets)
        for record in self.records:
            wanted = record.key is None or newest[record.key] == record.offset
            if wanted and record.offset >= log.start_offset and record.offset not in expired:
                assert record.offset in present, f"lost {record}"

    def _judge_batches(self, log: Log) -> None:
        """What survives whole is as it was; what does not keeps its header; producers go on."""
        last_of: dict[int, int] = {}
        for base, data in self.batches.items():
            info = peek(data)
            if info.has_producer and not info.is_control:
                last_of[info.producer_id] = base
        found = stored_batches(log)
        for info, data in found:
            before = peek(self.batches[info.base_offset])
            if info.count == before.count and not info.has_delete_horizon:
                assert data == self.batches[info.base_offset], "the bytes have changed"
            assert _lasting(info) == _lasting(before)
        present = {info.base_offset for info, _ in found}
        for base in last_of.values():
            assert base in present or base < log.start_offset, "a producer's last batch is gone"


def _lasting(info: BatchInfo) -> BatchInfo:
    """The header without what compaction may change."""
    return info._replace(
        length=0,
        crc=0,
        count=0,
        base_timestamp=0,
        max_timestamp=0,
        attributes=info.attributes & ~(DELETE_HORIZON | COMPRESSION_MASK),
    )
