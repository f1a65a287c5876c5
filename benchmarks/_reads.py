"""Reading a log, and the same bytes plainly, for the storage benchmarks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks._logs import FIRST_TIMESTAMP_MS, MB, numbered_value
from benchmarks._turns import Turns, expect
from goqueue.records import decode_rows, walk

if TYPE_CHECKING:
    from goqueue.records import Record
    from goqueue.storage.log import Log
    from goqueue.storage.region import Region


def look_up(log: Log, offset: int, turns: Turns) -> None:
    """Look for one message in both ways, read its bytes plainly, and check that it is the one."""
    region, data = turns.call("by offset", lambda: read_one(log, offset))
    same = turns.call("pread", lambda: _pread(region))
    hit = turns.call("by time", lambda: log.find_time(FIRST_TIMESTAMP_MS + offset))
    found = decode_rows(data)[offset - region.first_offset]
    expect(found.value == numbered_value(offset) and data == same, f"offset {offset}")
    expect(hit == (offset, FIRST_TIMESTAMP_MS + offset), f"the time of offset {offset}")


def look_up_cold(log: Log, offset: int, turns: Turns) -> None:
    """The same by offset, with the disk to be asked each time."""
    region, _ = read_one(log, offset)
    _forget(log)
    turns.call("pread", lambda: _pread(region))
    _forget(log)
    _, data = turns.call("by offset", lambda: read_one(log, offset))
    expect(data == _pread(region), f"offset {offset}")


def read_one(log: Log, offset: int) -> tuple[Region, bytes | bytearray]:
    """The batch that holds `offset`, found, read and checked."""
    region = log.read(offset, max_bytes=1)
    assert region is not None, f"there is nothing at {offset}"
    return region, region.load().data


def _pread(region: Region) -> bytes:
    return os.pread(region.file.fileno(), region.length, region.position)


def _forget(log: Log) -> None:
    """Let the kernel drop the segments from its cache, where it can be asked to."""
    if hasattr(os, "posix_fadvise"):
        for segment in log.segments:
            os.posix_fadvise(segment.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(log: Log) -> int:
    """Every byte through the log, with its checksums; returns how many there were."""
    return sum(len(chunk.data) for chunk in log.chunks(0, max_bytes=MB))


def pread_all(log: Log) -> int:
    """Every byte of the segment files as they are; returns how many there were."""
    read = 0
    for segment in log.segments:
        descriptor = segment.file.fileno()
        for position in range(0, segment.size_bytes, MB):
            read += len(os.pread(descriptor, MB, position))
    return read


def newest(log: Log) -> dict[bytes | None, Record]:
    """The last record of each key, by reading everything."""
    latest: dict[bytes | None, Record] = {}
    for chunk in log.chunks(0, max_bytes=MB):
        for position, _ in walk(chunk.data):
            for record in decode_rows(chunk.data, position):
                latest[record.key] = record
    return latest
