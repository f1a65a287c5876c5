"""Retention by time and by size takes whole old segments, never the active one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from goqueue.storage.retention import next_look_ms
from support.batches import batch
from support.clocks import ManualClock
from support.disks import HastyDisk
from support.logs import expire
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
    assert expire(log, retention_ms=300) == 2
    assert log.start_offset == 2
    assert first_offsets(log) == [2, 3, 4]
    assert expire(log, retention_ms=300) == 0
    clock.advance(1)
    assert expire(log, retention_ms=300) == 1
    assert log.start_offset == 3


def test_an_old_segment_behind_a_younger_one_stays(log: Log) -> None:
    """Offsets go in order: a log has no holes."""
    write(log, NOW, NOW - 500, NOW)
    assert expire(log, retention_ms=100) == 0
    assert first_offsets(log) == [0, 1, 2]


def test_an_active_segment_of_which_every_record_is_due_goes_too(
    log: Log, clock: ManualClock
) -> None:
    write(log, NOW - 500, NOW - 400)
    assert expire(log, retention_ms=100) == 2
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
    expire(log)
    assert len(log.segments) == 1
    clock.advance(1)
    expire(log)
    assert len(log.segments) == 2
    expire(log)
    assert len(log.segments) == 2, "an empty one is not sealed"


def test_records_without_a_time_are_as_old_as_their_file(log: Log, clock: ManualClock) -> None:
    write(log, -1, -1, NOW)
    assert expire(log, retention_ms=1000) == 0
    assert first_offsets(log) == [0, 1, 2]
    clock.advance(1001)
    assert expire(log, retention_ms=1000) == 3


def test_a_record_dated_in_the_far_future_does_not_keep_its_segment_for_ever(
    log: Log, clock: ManualClock
) -> None:
    year_9999 = 253_370_764_800_000
    write(log, NOW - 500, year_9999, NOW)
    assert expire(log, retention_ms=300) == 1
    clock.advance(300)
    assert expire(log, retention_ms=300) == 0
    clock.advance(1)
    assert expire(log, retention_ms=300) == 2
    assert log.start_offset == 3


def test_a_segment_written_while_the_clock_was_ahead_ages_from_now_on_also_after_a_restart(
    memory_path: Path, clock: ManualClock
) -> None:
    config = LogConfig(segment_bytes=100)
    log = Log(memory_path, config, disk=HastyDisk(), clock=clock)
    write(log, NOW + 500_000, NOW + 500_000)
    expire(log, retention_ms=1000)
    log.close()
    clock.advance(1001)
    log = Log(memory_path, config, disk=HastyDisk(), clock=clock)
    assert expire(log, retention_ms=1000) >= 1


def test_a_segment_found_at_start_is_as_old_as_its_first_record(
    memory_path: Path, clock: ManualClock
) -> None:
    config = LogConfig(segment_ms=1000)
    log = Log(memory_path, config, disk=HastyDisk(), clock=clock)
    log.append(batch(timestamps=[NOW]))
    log.close()
    clock.advance(1001)
    log = Log(memory_path, config, disk=HastyDisk(), clock=clock)
    expire(log)
    assert len(log.segments) == 2


def test_jitter_seals_segments_earlier_and_not_all_at_once(
    memory_path: Path, clock: ManualClock
) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=1000)
    logs = [Log(memory_path / str(n), config, disk=HastyDisk(), clock=clock) for n in range(20)]
    for log in logs:
        log.append(batch(timestamps=[NOW]))
    sealed_at = [0] * len(logs)
    for step in range(12):
        clock.advance(100)
        for number, log in enumerate(logs):
            expire(log)
            if len(log.segments) == 2 and not sealed_at[number]:
                sealed_at[number] = step
    assert all(len(log.segments) == 2 for log in logs)
    assert len(set(sealed_at)) > 3


def test_the_next_look_is_when_time_alone_gives_retention_something_to_do(
    log: Log, clock: ManualClock
) -> None:
    assert next_look_ms(log.segments, NOW, log.config, 300) is None
    write(log, NOW - 100, NOW)
    due_ms = next_look_ms(log.segments, NOW, log.config, 300)
    assert due_ms == NOW - 100 + 300 + 1
    clock.advance(200)
    assert expire(log, retention_ms=300) == 0
    clock.advance(1)
    assert expire(log, retention_ms=300) == 1


def test_by_size_the_oldest_go_while_enough_is_left(log: Log) -> None:
    write(log, *[NOW] * 6)
    size = log.size_bytes // 6
    assert expire(log, retention_bytes=size * 6) == 0
    assert expire(log, retention_bytes=size * 4 + 1) == 1
    assert expire(log, retention_bytes=size * 3) == 2
    assert log.size_bytes == size * 3
    assert expire(log, retention_bytes=0) == 2
    assert first_offsets(log) == [5], "the active segment stays"


def test_without_limits_nothing_goes(log: Log) -> None:
    write(log, 1, 2, 3)
    assert expire(log) == 0


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
