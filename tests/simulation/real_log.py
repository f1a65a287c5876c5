"""The log of `storage` in place of the model's, on a disk that forgets what was not synced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import BatchError, DamagedRangeError
from goqueue.records import Record as StoredRecord, decode_rows, encode, walk
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from simulation.model_log import HOLE, ModelLog, Record
from support.disks import FaultyDisk

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from goqueue.storage.epochs import LeaderEpochs

SEGMENT_BYTES = 2048
"""Small, so that logs roll."""


class Fetched(list[Record]):
    """Records, with the bytes that they were read from."""

    data: bytes = b""


class RealLog(ModelLog):
    """One record a batch, so that an offset is a batch."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir(parents=True)
        self._disk = FaultyDisk(folder, seed=seed)
        self._folder = folder / "log"
        self._cache: dict[int, Record] = {}
        self.trimmed = {}
        self._open()

    def _open(self) -> None:
        self._cache.clear()
        config = LogConfig(segment_bytes=SEGMENT_BYTES)
        self._log = Log(self._folder, config, disk=self._disk, is_replica=True)

    @property
    def start(self) -> int:  # type: ignore[override]
        return self._log.start_offset

    @property
    def end(self) -> int:  # type: ignore[override]
        return self._log.end_offset

    @property
    def flushed(self) -> int:  # type: ignore[override]
        return self._log.flushed_offset

    @property
    def epochs(self) -> LeaderEpochs:  # type: ignore[override]
        return self._log.epochs

    def at(self, offset: int) -> Record | None:
        if not self.start <= offset < self.end:
            return None
        if offset not in self._cache:
            for number, record in enumerate(self.read(offset, 1 if self._log.damaged else 32)):
                self._cache[offset + number] = record
        return self._cache.get(offset, HOLE)

    @property
    def damaged(self) -> tuple[int, int] | None:
        for first in self._log.damaged:
            stretch = self._log.damaged_stretch(first)
            if stretch is not None:
                return stretch.first_offset, stretch.end_offset
        return None

    def patch(self, records: list[Record]) -> bool:
        assert self.damaged is not None
        stretch = self._log.damaged_stretch(self.damaged[0])
        assert stretch is not None
        try:
            self._log.patch(stretch, records.data if isinstance(records, Fetched) else b"")
        except BatchError:
            return False
        self._log.settle_damage()
        self._cache.clear()
        return True

    def append(self, epoch: int, producer: int, sequence: int) -> None:
        value = b"%d/%d" % (producer, sequence)
        self._log.append(encode([StoredRecord(0, 1000, None, value)]), epoch)

    def read(self, offset: int, most: int) -> Fetched:
        found = Fetched()
        try:
            region = self._log.read(offset, 1 if self._log.damaged else 1 << 16)
            if region is None:
                return found
            chunk = region.load()
        except DamagedRangeError:
            return found
        size = 0
        for position, info in walk(chunk.data):
            for row in decode_rows(chunk.data, position):
                if row.offset != offset + len(found):
                    raise AssertionError(f"{row.offset} is stored, expected {offset + len(found)}")
                producer, _, sequence = (row.value or b"").partition(b"/")
                found.append(Record(info.leader_epoch, int(producer), int(sequence)))
            size = position + info.size_bytes
            if len(found) >= most:
                break
        found.data = bytes(chunk.data[:size])
        return found

    def joined(self, found: list[Record], more: list[Record]) -> list[Record]:
        assert isinstance(found, Fetched)
        assert isinstance(more, Fetched)
        both = Fetched([*found, *more])
        both.data = found.data + more.data
        return both

    def append_replica(self, records: list[Record]) -> None:
        if isinstance(records, Fetched):
            self._log.append_replica(records.data)

    def note_epoch(self, epoch: int) -> None:
        self._log.note_epoch(epoch)

    def drop_empty_epoch(self) -> None:
        self._log.forget_epochs()

    def flush(self) -> None:
        self._log.flush()

    def truncate(self, to: int) -> None:
        self._cache.clear()
        self._log.truncate_to(to)

    def restart(self, at: int) -> None:
        self._cache.clear()
        self._log.restart_at(at)

    def delete_before(self, offset: int) -> None:
        if self.start < offset <= self.end:
            for at in range(self.start, offset):
                record = self.at(at)
                if record is not None:
                    self.trimmed[record.producer] = (record.sequence, at)
            self._log.delete_before(offset)

    def power_cut(self, rng: random.Random, *, keep_hole: bool = False) -> None:
        del rng, keep_hole
        self._disk.crash()
        self._open()

    def reopen(self) -> None:
        self._disk.kill()
        self._open()
        self._log.flush()

    def close(self) -> None:
        self._log.close()
        self._open()
