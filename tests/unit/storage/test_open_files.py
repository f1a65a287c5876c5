"""Open files are bounded, whatever the number of logs and segments, and nothing is lost by it."""

from __future__ import annotations

from pathlib import Path

from goqueue.model.limits import MAX_OPEN_SEGMENTS
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from goqueue.storage.open_files import (
    _MIN_OPEN_SEGMENTS,
    OpenFiles,
    SharedFiles,
    open_segments_within,
)
from support.batches import batch, fill
from support.disks import FaultyDisk, HastyDisk
from support.oracle import readable

LIMIT = 8


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def logs_in(folder: Path, shared: SharedFiles, count: int) -> list[Log]:
    config = LogConfig(segment_bytes=600, index_interval_bytes=100)
    return [Log(folder / str(number), config, shared=shared) for number in range(count)]


def test_a_quarter_of_the_process_limit_is_for_segments_and_no_more_than_the_bound() -> None:
    assert open_segments_within(None) == MAX_OPEN_SEGMENTS
    assert open_segments_within(1_000_000) == MAX_OPEN_SEGMENTS
    assert open_segments_within(1024) * 3 <= 1024 / 2
    assert open_segments_within(10) == _MIN_OPEN_SEGMENTS


def test_many_segments_of_many_logs_hold_few_files_open_and_all_can_be_read(
    memory_path: Path,
) -> None:
    shared = SharedFiles(HastyDisk(), OpenFiles(LIMIT), memory_path)
    before = open_descriptors()
    logs = logs_in(memory_path, shared, 40)
    for log in logs:
        fill(log, 12)
        log.flush(checkpoint=True)
    assert sum(len(log.segments) for log in logs) > 20 * LIMIT
    for _ in range(2):
        assert [len(list(readable(log))) for log in logs] == [12] * 40
        assert len(shared.open_files) <= LIMIT
        assert open_descriptors() <= before + 3 * LIMIT
    for log in logs:
        log.close()
    assert len(shared.open_files) == 0
    logs = logs_in(memory_path, shared, 40)
    assert [len(list(readable(log))) for log in logs] == [12] * 40
    assert open_descriptors() <= before + 3 * LIMIT


def test_a_file_with_unsynced_bytes_stays_open_until_they_are_synced(memory_path: Path) -> None:
    shared = SharedFiles(HastyDisk(), OpenFiles(LIMIT), memory_path)
    written, *others = logs_in(memory_path, shared, 20)
    written.append(batch())
    active = written.segments.active
    assert active is not None
    handle = active.file
    for log in others:
        log.append(batch())
        log.flush()
    assert active.file is handle
    written.flush()
    for log in others:
        list(readable(log))
    assert active.file is not handle


def test_more_unsynced_files_than_may_be_open_are_synced_by_their_flush(memory_path: Path) -> None:
    for seed in range(20):
        disk = FaultyDisk(memory_path / str(seed), seed=seed)
        disk.make_folder(disk.root)
        shared = SharedFiles(disk, OpenFiles(LIMIT), disk.root)
        logs = logs_in(disk.root, shared, 5 * LIMIT)
        for log in logs:
            fill(log, 2)
        assert len(shared.open_files) <= 2 * LIMIT
        for log in logs:
            log.flush()
        disk.crash()
        logs = logs_in(disk.root, shared, 5 * LIMIT)
        assert [len(list(readable(log))) for log in logs] == [2] * 5 * LIMIT
