"""Readers in threads of their own, while the writer appends, flushes, rolls and deletes."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import pytest

from goqueue.records import Record, decode_rows, encode
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.batches import batch, fill
from support.disks import HastyDisk
from support.oracle import readable, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

BATCHES = 1500
CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=150)


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Switch threads so often that every pair of lines is torn apart now and then."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Tailer:
    """Reads from the start to the end that is announced, and checks all it gets."""

    def __init__(self, log: Log, done: threading.Event) -> None:
        self._log = log
        self._done = done

    def follow(self, *, watermark: bool) -> int:
        offset = 0
        while True:
            ended = self._done.is_set()
            end = self._log.end_offset
            region = self._log.read(offset, 3000, until=end if watermark else None)
            if region is None:
                if ended and offset >= end:
                    return offset
                continue
            chunk = region.load()
            offset = self._check(chunk.data, offset, end if watermark else None)
            assert chunk.next_offset == offset

    def _check(self, data: bytes | bytearray, offset: int, end: int | None) -> int:
        for item in split(data):
            for record in decode_rows(item.data):
                assert record.offset == offset
                assert record.value == b"%d" % offset
                offset += 1
        assert end is None or offset <= end, "a batch past the watermark was handed out"
        return offset

    def jump(self) -> int:
        """Look up offsets and times all over the log."""
        number = looks = 0
        while not self._done.is_set():
            end = self._log.end_offset
            number = (number * 7919 + 13) % max(end, 1)
            region = self._log.read(number, 1)
            assert region is not None or end == 0
            if end:
                item = split(region.load().data)[0]
                assert item.first <= number < item.end
                hit = self._log.find_time(number)
                assert hit == (number, number)
            looks += 1
        return looks


def write(log: Log, done: threading.Event) -> None:
    try:
        for number in range(BATCHES):
            base = log.end_offset
            count = 1 + number % 3
            data = bytearray()
            for _ in range(1 + number % 2):
                data += _numbered(base, count)
                base += count
            log.append(data)
            if number % 50 == 0:
                log.flush(checkpoint=number % 100 == 0)
    finally:
        done.set()


def _numbered(base: int, count: int) -> bytearray:
    return encode([Record(n, base + n, None, b"%d" % (base + n)) for n in range(count)])


def test_readers_see_a_growing_prefix_and_never_a_torn_batch(memory_path: Path) -> None:
    log = Log(memory_path, CONFIG, disk=HastyDisk())
    done = threading.Event()
    tailer = Tailer(log, done)
    with ThreadPoolExecutor(4) as pool:
        followers = [pool.submit(tailer.follow, watermark=flag) for flag in (True, False)]
        jumper = pool.submit(tailer.jump)
        pool.submit(write, log, done).result(60)
        assert [follower.result(60) for follower in followers] == [log.end_offset] * 2
        assert jumper.result(60) > 0
    assert len(log.segments) > 10
    assert all(segment.index_rebuilds == 0 for segment in log.segments)
    log.check_invariants()


class BetweenLines:
    """Calls a reader between any two lines of the storage engine that a writer runs through."""

    def __init__(self, reader: Callable[[], None]) -> None:
        self.calls = 0
        self._reader = reader
        self._reading = False

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if self._reading or "/goqueue/storage/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self._reading = True
            try:
                self.calls += 1
                self._reader()
            finally:
                self._reading = False
        return self._trace


def test_between_any_two_lines_of_an_append_a_reader_sees_whole_batches_below_its_limit(
    memory_path: Path,
) -> None:
    log = Log(memory_path, LogConfig(segment_bytes=500, index_interval_bytes=1), disk=HastyDisk())
    fill(log, 1, records=1)

    def read() -> None:
        for limit in (log.end_offset, log.end_offset - 1):
            offset = 0
            while offset < limit:
                region = log.read(offset, 10_000, until=limit)
                assert region is not None
                chunk = region.load()
                assert offset < chunk.next_offset <= limit, "handed out past the limit"
                sent = region.file.read(region.position, region.length)
                assert split(sent)[-1].end <= limit, "and `sendfile` sends no more"
                offset = chunk.next_offset
        assert log.find_time(1000) == (0, 1000)
        assert log.find_latest_time() == (0, 1000)

    with BetweenLines(read) as between:
        for number in range(12):
            log.append(batch() + batch(), leader_epoch=number // 2)
    assert between.calls > 200
    assert len(log.segments) > 2
    assert all(segment.index_rebuilds == 0 for segment in log.segments)
    assert len(list(readable(log))) == 25


def test_readers_meet_deletion_and_rolling_without_an_error(memory_path: Path) -> None:
    log = Log(memory_path, LogConfig(segment_bytes=600), disk=HastyDisk())
    fill(log, 3)
    done = threading.Event()

    def trim() -> None:
        try:
            for _ in range(300):
                fill(log, 3)
                log.delete_before(log.end_offset - 12)
        finally:
            done.set()

    def read() -> int:
        count = 0
        while not done.is_set():
            offset = log.start_offset
            for item in readable(log):
                assert item.first + 3 >= offset
                assert decode_rows(item.data)[0].offset == item.first
                offset = item.end
                count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        pool.submit(trim).result(60)
        assert all(reader.result(60) > 0 for reader in readers)


def test_many_readers_may_be_the_first_to_miss_an_index(memory_path: Path) -> None:
    log = Log(memory_path, LogConfig(segment_bytes=3000, index_interval_bytes=100))
    fill(log, 60)
    log.close()
    for path in memory_path.glob("*index"):
        path.unlink()
    for _ in range(5):
        log = Log(memory_path, LogConfig(segment_bytes=3000, index_interval_bytes=100))
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n, log=log: log.read(n * 7, 1).first_offset, range(24)))
        assert found == [n * 7 - n * 7 % 3 for n in range(24)]
        assert log.find_time(1000) == (0, 1000)
        for path in memory_path.glob("*index"):
            path.unlink()


def test_an_old_view_of_a_log_that_was_cut_can_still_be_searched(memory_path: Path) -> None:
    """Its indexes stay mapped; a mapped file that got shorter would kill the process."""
    config = LogConfig(segment_bytes=200_000, index_interval_bytes=1)
    log = Log(memory_path, config, disk=HastyDisk())
    fill(log, 1000, records=1)
    log.store.roll()
    log.flush(checkpoint=True)
    old = next(iter(log.segments))
    assert len(old.indexes.offsets) == 1000
    log.truncate_to(3)
    log.append(batch())
    log.flush(checkpoint=True)
    assert old.indexes.offsets.at_or_before(990).key == 990
    assert [item.first for item in readable(log)] == [0, 1, 2, 3]
