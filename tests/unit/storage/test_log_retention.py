"""Retention by time and by size takes whole old segments, never the active one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.batches import batch
from support.clocks import ManualClock
from support.disks import HastyDisk
from support.oracle import readable

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def log(memory_path: Path, clock: ManualClock) -> Log:
    return Log(memory_path, LogConfig(segment_bytes=100), disk=HastyDisk(), clock=clock)


def write(log: Log, *times: int) -> None:
    """A segment for each, of one record."""
    for time in times:
        log.append(batch(timestamps=[time], value=b"v" * 30))
    assert len(log.segments) >= len(times)


def first_offsets(log: Log) -> list[int]:
    return [item.first for item in readable(log)]


def test_segments_whose_newest_record_is_too_old_go(log: Log, clock: ManualClock) -> None:
    write(log, NOW - 500, NOW - 400, NOW - 300, NOW - 100, NOW)
    assert log.expire(retention_ms=300) == 2
    assert log.start_offset == 2
    assert first_offsets(log) == [2, 3, 4]
    assert log.expire(retention_ms=300) == 0
    clock.advance(1)
    assert log.expire(retention_ms=300) == 1
    assert log.start_offset == 3


def test_an_old_segment_behind_a_younger_one_stays(log: Log) -> None:
    """Offsets go in order: a log has no holes."""
    write(log, NOW, NOW - 500, NOW)
    assert log.expire(retention_ms=100) == 0
    assert first_offsets(log) == [0, 1, 2]


def test_an_active_segment_of_which_every_record_is_due_goes_too(
    log: Log, clock: ManualClock
) -> None:
    write(log, NOW - 500, NOW - 400)
    assert log.expire(retention_ms=100) == 2
    assert (log.start_offset, log.end_offset) == (2, 2)
    assert log.size_bytes == 0
    write(log, NOW)
    assert first_offsets(log) == [2]


def test_an_active_segment_that_was_open_too_long_is_sealed(
    memory_path: Path, clock: ManualClock
) -> None:
    log = Log(memory_path, LogConfig(segment_ms=1000), disk=HastyDisk(), clock=clock)
    log.append(batch(timestamps=[NOW + 50_000]))
    clock.advance(1000)
    log.expire()
    assert len(log.segments) == 1
    clock.advance(1)
    log.expire()
    assert len(log.segments) == 2
    log.expire()
    assert len(log.segments) == 2, "an empty one is not sealed"


def test_records_without_a_time_are_kept_by_a_limit_of_time(log: Log) -> None:
    write(log, -1, -1, NOW)
    assert log.expire(retention_ms=1) == 0
    assert first_offsets(log) == [0, 1, 2]


def test_by_size_the_oldest_go_while_enough_is_left(log: Log) -> None:
    write(log, *[NOW] * 6)
    size = log.size_bytes // 6
    assert log.expire(retention_bytes=size * 6) == 0
    assert log.expire(retention_bytes=size * 4 + 1) == 1
    assert log.expire(retention_bytes=size * 3) == 2
    assert log.size_bytes == size * 3
    assert log.expire(retention_bytes=0) == 2
    assert first_offsets(log) == [5], "the active segment stays"


def test_without_limits_nothing_goes(log: Log) -> None:
    write(log, 1, 2, 3)
    assert log.expire() == 0


def test_deletion_below_an_offset_is_exact_and_only_goes_forward(log: Log) -> None:
    for _ in range(4):
        log.append(batch(5, value=b"v" * 30))
    assert log.delete_before(7) == 7
    assert log.delete_before(3) == 7
    assert log.start_offset == 7
    assert log.find_time(0).offset == 7
    assert log.find_latest_time().offset == 7
    assert [s.base_offset for s in log.segments] == [5, 10, 15]
    assert log.delete_before(99) == 20
    assert log.read(0, 1) is None


def test_what_was_deleted_stays_deleted(log: Log, memory_path: Path, clock: ManualClock) -> None:
    write(log, *[NOW] * 5)
    log.delete_before(3)
    again = Log(memory_path, LogConfig(segment_bytes=100), disk=HastyDisk(), clock=clock)
    assert again.start_offset == 3
    assert first_offsets(again) == [3, 4]
    assert again.append(batch()).first_offset == 5


def test_a_log_deleted_to_its_end_goes_on_at_the_next_offset(
    log: Log, memory_path: Path, clock: ManualClock
) -> None:
    write(log, NOW, NOW)
    log.delete_before(2)
    again = Log(memory_path, LogConfig(segment_bytes=100), disk=HastyDisk(), clock=clock)
    assert again.append(batch()).first_offset == 2
    assert first_offsets(again) == [2]
