"""One flipped bit is found wherever it is, and costs nothing but the batch that it hits."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import DamagedRangeError
from goqueue.records import Compression, stamp
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.batches import batch
from support.disks import HastyDisk
from support.effort import sampled
from support.oracle import Stored, readable, split

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = LogConfig(segment_bytes=100_000)
EPOCHS = [4, 4, 4, 6, 6, 6]
EPOCH_FIELD = slice(12, 16)
CHECKED_FROM = 21
TRIED = 90
"""So many bits of a batch are turned over in an ordinary run."""
HITS = pytest.mark.parametrize(
    "hit", [0, 2, 3, 5], ids=["first", "last-of-epoch", "first-of-epoch", "last"]
)


class Flips:
    """A folder with a good log, in which one bit at a time is turned over."""

    def __init__(
        self,
        folder: Path,
        config: LogConfig = CONFIG,
        *,
        compression: Compression = Compression.NONE,
        close: bool = True,
        roll: bool = False,
    ) -> None:
        self.folder = folder
        self.config = config
        self.stored: list[Stored] = []
        log = self.open()
        for number, epoch in enumerate(EPOCHS):
            data = batch(
                3, value=b"%d" % number * 9, timestamps=[50 + number] * 3, compression=compression
            )
            log.append(data, leader_epoch=epoch)
            self.stored += split(data)
        if roll:
            log.store.roll()
        if close:
            log.close()
        self.path = folder / f"{0:020d}.log"
        self._good = {path: path.read_bytes() for path in folder.iterdir()}

    def open(self) -> Log:
        return Log(self.folder, self.config, disk=HastyDisk())

    def forget(self, name: str) -> None:
        """Lose a file for all flips to come."""
        del self._good[self.folder / name]

    def restore(self) -> None:
        for path in self.folder.iterdir():
            if path != self.path and path.read_bytes() != self._good.get(path):
                path.unlink()
        for path, data in self._good.items():
            if not path.exists():
                path.write_bytes(data)
        self.write(self._good[self.path])

    def write(self, data: bytes | bytearray) -> None:
        with self.path.open("r+b") as file:  # making it anew would wait for the disk
            file.write(data)
            file.truncate()

    def each(self, hit: int, *, every_bit: bool = False) -> Iterator[bytes]:
        """Every bit that no checksum covers, and a bit of every other byte of a batch (or all)."""
        good = self._good[self.path]
        start = sum(len(item.data) for item in self.stored[:hit])
        flips = [
            (byte, bit)
            for byte in range(len(self.stored[hit].data))
            for bit in (range(8) if every_bit or byte < CHECKED_FROM else [byte % 8])
        ]
        for byte, bit in sampled(flips, TRIED):
            data = bytearray(good)
            data[start + byte] ^= 1 << bit
            self.restore()
            self.write(data)
            yield bytes(data[start : start + len(self.stored[hit].data)])
        self.restore()

    def assert_isolated(self, log: Log, hit: int) -> None:
        """The batch that was hit raises, wherever in it a read starts; the others are there."""
        for number, item in enumerate(self.stored):
            for offset in (item.first, item.end - 1):
                if number != hit:
                    assert read_once(log, offset) == item
                    continue
                with pytest.raises(DamagedRangeError) as caught:
                    read_once(log, offset)
                assert caught.value.resume_at == item.end
        intact = [item for number, item in enumerate(self.stored) if number != hit]
        assert list(readable(log)) == intact
        assert [item for chunk in log.chunks(0) for item in split(chunk.data)] == intact
        for number in range(len(self.stored)):
            found = log.find_time(50 + number)
            expected = next((i.first for i in intact if i.first >= 3 * number), None)
            assert (found and found.offset) == expected
        assert log.end_offset == self.stored[-1].end
        log.check_invariants()


def read_once(log: Log, offset: int) -> Stored:
    region = log.read(offset, 1)
    assert region is not None
    return split(region.load().data)[0]


@HITS
def test_a_flipped_bit_is_found_in_a_log_that_was_closed_cleanly(
    memory_path: Path, hit: int
) -> None:
    flips = Flips(memory_path)
    for _ in flips.each(hit, every_bit=hit == 2):
        flips.assert_isolated(flips.open(), hit)


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_a_flipped_bit_is_found_in_a_compressed_batch(
    memory_path: Path, compression: Compression
) -> None:
    flips = Flips(memory_path, compression=compression)
    for _ in flips.each(2):
        flips.assert_isolated(flips.open(), 2)


@pytest.mark.parametrize("interval", [1, 4096])
def test_a_flipped_bit_is_found_in_a_log_that_is_open(memory_path: Path, interval: int) -> None:
    config = LogConfig(segment_bytes=100_000, index_interval_bytes=interval)
    flips = Flips(memory_path, config)
    log = flips.open()
    for _ in flips.each(2):
        flips.assert_isolated(log, 2)
    assert list(readable(log)) == flips.stored


@pytest.mark.parametrize(("interval", "index"), [(1, "lost"), (4096, "kept"), (4096, "lost")])
@pytest.mark.parametrize("hit", [0, 2, 5], ids=["first", "middle", "last"])
def test_a_flipped_bit_is_found_in_a_sealed_segment(
    memory_path: Path, interval: int, index: str, hit: int
) -> None:
    config = LogConfig(segment_bytes=100_000, index_interval_bytes=interval)
    flips = Flips(memory_path, config, roll=True)
    if index == "lost":
        flips.forget(f"{0:020d}.index")
    for _ in flips.each(hit):
        flips.assert_isolated(flips.open(), hit)


@HITS
def test_a_flipped_bit_is_found_by_the_recovery_of_an_unchecked_tail(
    memory_path: Path, hit: int
) -> None:
    """The checkpoint knows the epochs, and vouches for nothing."""
    flips = Flips(memory_path, close=False)
    item = flips.stored[hit]
    for _ in flips.each(hit):
        log = flips.open()
        if hit == 5:  # with nothing behind it, damage is a torn tail
            assert log.recovery.cut_bytes == len(item.data)
            assert list(readable(log)) == flips.stored[:5]
            assert log.end_offset == item.first
        else:
            assert [damage.resume_at for damage in log.recovery.damage] == [item.end]
            flips.assert_isolated(log, hit)


@HITS
def test_a_flipped_bit_is_found_when_the_checkpoint_is_lost_too(
    memory_path: Path, hit: int
) -> None:
    flips = Flips(memory_path)
    flips.forget("log.checkpoint")
    item = flips.stored[hit]
    for flipped in flips.each(hit):
        (epoch,) = struct.unpack(">i", flipped[EPOCH_FIELD])
        before = EPOCHS[hit - 1] if hit else 0
        after = EPOCHS[hit + 1] if hit < 5 else epoch
        if epoch != EPOCHS[hit] and before <= epoch <= after:
            continue  # such a leader could have been: only the checkpoint would know better
        log = flips.open()
        assert log.recovery.checkpoint_missing
        if hit == 5:
            assert list(readable(log)) == flips.stored[:5]
            assert log.end_offset == item.first
        else:
            assert [damage.resume_at for damage in log.recovery.damage] == [item.end]
            flips.assert_isolated(log, hit)


def test_where_compaction_left_gaps_a_flipped_offset_is_found_unless_it_still_fits(
    memory_path: Path,
) -> None:
    """An offset that moves within its gap contradicts nothing; no checksum of the format tells.

    One that runs into its neighbour may cost that one too: which of them is wrong cannot be known.
    """
    bases = [5, 9, 30, 34, 90, 100]
    log = Log(memory_path, CONFIG, disk=HastyDisk())
    for base in bases:
        data = batch(3)
        stamp(data, 0, base, 4)
        log.append_replica(bytes(data), gaps=True)
    stored = list(readable(log))
    log.flush(checkpoint=True)
    path = memory_path / f"{0:020d}.log"
    good = path.read_bytes()
    for hit, bit in itertools.product(range(1, 5), range(64)):
        base = bases[hit] ^ 1 << bit
        base -= (base >> 63) << 64
        if stored[hit - 1].end <= base and base + 3 <= stored[hit + 1].first:
            continue
        damaged = bytearray(good)
        struct.pack_into(">q", damaged, sum(len(item.data) for item in stored[:hit]), base)
        with path.open("r+b") as file:
            file.write(damaged)
        found = list(readable(log))
        assert set(found) <= set(stored) - {stored[hit]}, "never under a wrong offset"
        assert set(stored) - set(found) <= set(stored[hit - 1 : hit + 2])
        with path.open("r+b") as file:
            file.write(good)


def test_a_reader_below_a_watermark_is_told_where_to_go_on(memory_path: Path) -> None:
    """Damage just below the watermark must not push the reader past what lies above it."""
    flips = Flips(memory_path)
    item = flips.stored[2]
    for _ in flips.each(2):
        log = flips.open()
        with pytest.raises(DamagedRangeError) as caught:
            log.read(item.first, 1 << 20, until=item.end).load()
        assert caught.value.resume_at == item.end
