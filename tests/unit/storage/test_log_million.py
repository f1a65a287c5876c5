"""A million messages: all readable, found by offset and by time, before and after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.records import Record, decode_columns, encode
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.disks import HastyDisk

if TYPE_CHECKING:
    from pathlib import Path

MESSAGES = 1_000_000
BATCH = 1000
START = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=16 * 1024 * 1024)


def write(folder: Path) -> Log:
    """One message a millisecond. The same records in every batch, so that encoding is done once."""
    log = Log(folder, CONFIG, disk=HastyDisk())
    for base in range(0, MESSAGES, BATCH):
        log.append(_encoded(base))
    return log


def _encoded(base: int) -> bytearray:
    value = b"%0100d" % base
    return encode([Record(n, START + base + n, b"%d" % (n % 50), value) for n in range(BATCH)])


def assert_whole(log: Log) -> None:
    offset = 0
    for chunk in log.chunks(0):
        offsets = memoryview(decode_columns(chunk.data).offsets).cast("q")
        assert offsets.tolist() == list(range(offset, chunk.next_offset))
        offset = chunk.next_offset
    assert offset == MESSAGES
    for number in range(0, MESSAGES, 9973):
        region = log.read(number, 1)
        assert region.first_offset == number - number % BATCH
        assert log.find_time(START + number) == (number, START + number)
    assert log.find_time(START - 1) == (0, START)
    assert log.find_time(START + MESSAGES) is None
    assert log.find_latest_time() == (MESSAGES - 1, START + MESSAGES - 1)


def test_a_million_messages_are_all_readable_also_after_a_restart(tmp_path: Path) -> None:
    log = write(tmp_path)
    assert log.end_offset == MESSAGES
    assert len(log.segments) > 5
    assert all(segment.size_bytes <= CONFIG.segment_bytes for segment in log.segments)
    assert_whole(log)
    log.close()
    log = Log(tmp_path, CONFIG, disk=HastyDisk())
    assert log.recovery.scanned_bytes == 0
    assert log.recovery.clean
    assert_whole(log)
    assert sum(segment.index_rebuilds for segment in log.segments) == 0


def test_recovery_looks_at_the_unchecked_tail_however_long_the_log_is(memory_path: Path) -> None:
    scanned = {}
    for segments in (2, 40):
        folder = memory_path / str(segments)
        log = Log(folder, LogConfig(segment_bytes=250_000), disk=HastyDisk())
        while len(log.segments) <= segments:
            log.append(_encoded(0))
        log.flush(checkpoint=True)
        for _ in range(3):
            log.append(_encoded(0))
        again = Log(folder, LogConfig(segment_bytes=250_000), disk=HastyDisk())
        assert again.end_offset == log.end_offset
        scanned[segments] = again.recovery.scanned_bytes
    assert scanned[2] == scanned[40] == 3 * len(_encoded(0))
