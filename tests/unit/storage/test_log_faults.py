"""A disk that refuses: clear errors, no appends over a hole, nothing acknowledged lost."""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import (
    DiskError,
    DiskFullError,
    DiskPermissionError,
    LogClosedError,
    LogFailedError,
    MalformedBatchError,
)
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.batches import batch, fill, values
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.logs import expire
from support.oracle import Oracle, Stored, readable, split

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = LogConfig(segment_bytes=600)


@pytest.fixture
def disk(memory_path: Path) -> FaultyDisk:
    return FaultyDisk(memory_path)


@pytest.fixture
def log(disk: FaultyDisk) -> Log:
    return open_log(disk)


def open_log(disk: FaultyDisk, config: LogConfig = CONFIG) -> Log:
    return Log(disk.root / "log", config, disk=disk, clock=ManualClock())


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, DiskFullError), (errno.EDQUOT, DiskFullError), (errno.EIO, DiskError)],
)
@pytest.mark.parametrize("short", [0, 1, 60, 100])
def test_a_failed_write_appends_nothing_and_stops_the_log_until_it_has_recovered(
    disk: FaultyDisk, code: int, kind: type[DiskError], short: int
) -> None:
    log = open_log(disk, LogConfig())
    stored = fill(log, 2)
    disk.fail_next("write", code, ending=".log", short=short)
    with pytest.raises(kind, match=r"00000000000000000000\.log"):
        log.append(batch())
    assert log.end_offset == 6
    with pytest.raises(LogFailedError):
        log.append(batch())
    with pytest.raises(LogFailedError):
        log.append_replica(bytes(batch()))
    assert [item.data for item in readable(log)] == stored, "reading goes on"
    log.recover()
    assert log.failure is None
    assert log.append(batch()).first_offset == 6
    assert len(list(readable(log))) == 3


def test_a_failed_write_leaves_nothing_behind_for_a_killed_process(
    log: Log, disk: FaultyDisk
) -> None:
    stored = fill(log, 2)
    disk.fail_next("write", errno.ENOSPC, ending=".log", short=30)
    with pytest.raises(DiskFullError):
        log.append(batch())
    disk.kill()
    log = open_log(disk)
    assert log.recovery.cut_bytes == 30
    assert [item.data for item in readable(log)] == stored
    assert log.end_offset == 6


@pytest.mark.parametrize("drop", [False, True], ids=["called-clean", "dropped"])
@pytest.mark.parametrize("seed", range(5))
def test_after_a_failed_sync_nothing_is_called_durable_that_is_not(
    memory_path: Path, drop: bool, seed: int
) -> None:
    """The kernel forgets which pages it could not write: syncing once more proves nothing."""
    disk = FaultyDisk(memory_path, seed=seed)
    log = open_log(disk, LogConfig())
    oracle = Oracle()
    for stored in fill(log, 3):
        oracle.appended(stored)
    log.flush()
    for stored in fill(log, 3):
        oracle.appended(stored)
    disk.fail_next("sync", ending=".log", drop=drop)
    with pytest.raises(DiskError):
        log.flush()
    assert log.flushed_offset == 9
    for _ in range(2):
        with pytest.raises(LogFailedError):
            log.flush()
    assert log.flushed_offset == 9
    log.recover()
    oracle.attempts, oracle.batches = oracle.batches, list(readable(log))
    assert log.flushed_offset == log.end_offset == 18
    assert oracle.end == (9 if drop else 18)
    data = batch()
    assert log.append(data).first_offset == 18, "readers may have seen what the kernel dropped"
    oracle.appended(data)
    log.flush()
    disk.crash()
    oracle.judge(open_log(disk, LogConfig()), promised_end=oracle.end)


@pytest.mark.parametrize("operation", ["sync", "sync_folder", "rename", "create", "write"])
def test_a_checkpoint_that_cannot_be_written_loses_nothing(
    memory_path: Path, operation: str
) -> None:
    for seed in range(5):
        disk = FaultyDisk(memory_path / str(seed), seed=seed)
        log = open_log(disk)
        oracle = Oracle()
        for stored in fill(log, 6):
            oracle.appended(stored)
        ending = {"sync_folder": "", "rename": "log.checkpoint"}.get(operation, "checkpoint.tmp")
        disk.fail_next(operation, ending=ending)
        with pytest.raises(DiskError):
            log.flush(checkpoint=True)
        log.recover()
        assert log.flushed_offset == 18
        disk.crash()
        oracle.judge(open_log(disk), promised_end=18)


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_folder"])
def test_an_epoch_that_cannot_be_noted_writes_nothing(
    log: Log, disk: FaultyDisk, operation: str
) -> None:
    """Afterwards the old leader may well go on: its batches are not taken for damage."""
    fill(log, 2)
    log.flush()
    disk.fail_next(operation)
    with pytest.raises(DiskError):
        log.append(batch(), leader_epoch=7)
    assert log.end_offset == 6
    log.recover()
    log.append(batch(value=b"after"))
    log.flush()
    disk.crash()
    log = open_log(disk)
    assert log.recovery.clean
    assert values(log)[-1] == (6, b"after")


@pytest.mark.parametrize("operation", ["create", "write"])
def test_a_new_segment_that_cannot_be_made_changes_nothing(
    log: Log, disk: FaultyDisk, operation: str
) -> None:
    stored = fill(log, 2, size=60)
    ending = ".log" if operation == "create" else "index"
    disk.fail_next(operation, errno.EIO, ending=ending)
    with pytest.raises(DiskError):
        log.append(batch(4, value=b"x" * 60))
    assert log.end_offset == 6
    log.recover()
    data = batch(4, value=b"x" * 60)
    assert log.append(data).first_offset == 6
    log.flush()
    disk.crash()
    assert [item.data for item in readable(open_log(disk))] == [*stored, bytes(data)]


@pytest.mark.parametrize("ending", [".log", ".index", ".timeindex"])
def test_retention_that_cannot_roll_does_not_let_appends_pass_the_new_segment(
    disk: FaultyDisk, ending: str
) -> None:
    """An empty file that waits at offset 6 would hide whatever the old segment gets from there."""
    log = open_log(disk, LogConfig())
    fill(log, 2)
    operation = "create" if ending == ".log" else "write"
    disk.fail_next(operation, errno.EIO, ending=ending)
    with pytest.raises(DiskError):
        expire(log, retention_ms=1)
    log.recover()
    log.append(batch(value=b"after"))
    log.flush()
    disk.kill()
    log = open_log(disk, LogConfig())
    assert log.recovery.clean
    assert values(log)[-1] == (6, b"after")


def test_an_index_that_does_not_fit_on_the_disk_is_kept_in_memory(
    log: Log, disk: FaultyDisk
) -> None:
    disk.fail_next("write", errno.ENOSPC, ending="index", times=100)
    fill(log, 9)
    assert len(log.segments) > 3
    assert [log.find_time(1000), log.find_time(1001)] == [(0, 1000), None]
    assert values(log, 20)[0][0] == 20
    with pytest.raises(DiskFullError):
        log.flush(checkpoint=True)
    disk.faults.clear()
    log.recover()
    log.close()
    assert open_log(disk).recovery.scanned_bytes == 0


def test_a_recovery_that_fails_can_be_tried_again(log: Log, disk: FaultyDisk) -> None:
    stored = fill(log, 2)
    disk.fail_next("write", errno.ENOSPC, ending=".log", short=10)
    with pytest.raises(DiskFullError):
        log.append(batch())
    for operation in ("write", "sync", "rename", "sync_folder", "truncate"):
        disk.fail_next(operation, errno.EIO)
        with pytest.raises(DiskError):
            log.recover()
        with pytest.raises(LogFailedError):
            log.append(batch())
        assert [item.data for item in readable(log)] == stored
    log.recover()
    log.append(batch())
    assert log.end_offset == 7


def test_recovering_a_log_that_has_not_failed_does_nothing(log: Log, disk: FaultyDisk) -> None:
    fill(log, 1)
    before = list(disk.trace)
    log.recover()
    assert disk.trace == before


def test_closing_a_failed_log_leaves_the_rest_to_the_next_start(log: Log, disk: FaultyDisk) -> None:
    stored = fill(log, 2)
    disk.fail_next("write", ending=".log", short=5)
    with pytest.raises(DiskError):
        log.append(batch())
    log.close()
    disk.kill()
    log = open_log(disk)
    assert log.recovery.cut_bytes == 5
    assert [item.data for item in readable(log)] == stored


def test_a_truncation_that_fails_can_be_done_again(log: Log, disk: FaultyDisk) -> None:
    for operation in ("remove", "truncate", "sync", "rename", "sync_folder"):
        fill(log, 8)
        log.flush(checkpoint=True)
        kept = [item for item in readable(log) if item.end <= 4]
        disk.fail_next(operation)
        with pytest.raises(DiskError):
            log.truncate_to(4)
        log.recover()
        assert log.end_offset >= 3
        assert list(readable(log))[:1] == kept
        log.truncate_to(4)
        assert list(readable(log)) == kept
        log.truncate_to(0)


def test_permission_denied_is_told_with_what_to_do(disk: FaultyDisk) -> None:
    disk.fail_next("names", errno.EACCES)
    with pytest.raises(DiskPermissionError, match="must be able to read and write"):
        open_log(disk)


def test_a_read_only_folder_is_told_with_the_first_append(log: Log, disk: FaultyDisk) -> None:
    disk.fail_next("create", errno.EROFS)
    with pytest.raises(DiskPermissionError, match="not allowed"):
        log.append(batch())


def test_a_file_where_the_folder_should_be_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("not a folder")
    with pytest.raises(DiskError, match=str(tmp_path)):
        Log(tmp_path / "log", CONFIG)


def test_a_folder_where_a_segment_should_be_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "log" / f"{0:020d}.log").mkdir(parents=True)
    with pytest.raises(DiskError, match=r"00000000000000000000\.log"):
        Log(tmp_path / "log", CONFIG)


def test_a_closed_log_says_so(log: Log) -> None:
    fill(log, 1)
    log.close()
    log.close()
    for use in (
        lambda: log.append(batch()),
        lambda: log.read(0, 1),
        lambda: log.find_time(0),
        lambda: log.truncate_to(0),
        lambda: log.delete_before(1),
        log.flush,
    ):
        with pytest.raises(LogClosedError):
            use()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed in /proc")
def test_a_closed_log_holds_no_files(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", CONFIG)
    fill(log, 9)
    list(readable(log))
    log.close()
    assert not [name for name in open_files() if name.startswith(str(tmp_path))]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed in /proc")
def test_a_log_of_many_segments_holds_few_files_open(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", CONFIG)
    stored = []
    for _ in range(20):
        stored += fill(log, 3)
        log.flush(checkpoint=log.checkpoint_due)
    log.flush(checkpoint=True)
    assert len(log.segments) >= 20
    held = [name for name in open_files() if name.startswith(str(tmp_path))]
    assert len(held) <= 3, "the segment that grows, and its indexes"
    assert [item.data for item in readable(log)] == stored
    assert log.segments.active is not None
    assert all(segment.index_rebuilds == 0 for segment in log.segments)


def open_files() -> list[str]:
    names = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this very listing
            names.append(str(link.readlink()))
    return names


def test_a_deleted_log_is_gone(log: Log, disk: FaultyDisk) -> None:
    fill(log, 3)
    log.delete()
    assert not (disk.root / "log").exists()
    assert open_log(disk).end_offset == 0


def test_a_damaged_batch_is_refused_and_costs_nothing(log: Log) -> None:
    good = batch()
    bad = batch(value=b"other")
    bad[-1] ^= 1
    for data in (bad, good + bad, good[:-1], b""):
        with pytest.raises((MalformedBatchError, Exception), match=r"."):
            log.append(bytearray(data))
        assert log.end_offset == 0
    assert log.append(good).first_offset == 0


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=False
        ).returncode
    ):
        pytest.skip("a small volume can only be mounted by root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def append_until_full(log: Log) -> list[Stored]:
    stored = []
    for _ in range(100):
        data = batch(value=os.urandom(1500))
        try:
            log.append(data)
        except DiskFullError:
            return stored
        stored += split(data)
    pytest.fail("the volume never got full")


def test_a_full_volume_stops_appends_loses_nothing_and_can_be_trimmed(small_volume: Path) -> None:
    config = LogConfig(segment_bytes=8000)
    log = Log(small_volume / "log", config)
    stored = append_until_full(log)
    assert len(stored) > 10
    assert list(readable(log)) == stored
    with pytest.raises(LogFailedError):
        log.append(batch())
    log.close()
    log = Log(small_volume / "log", config)
    assert list(readable(log)) == stored, "a full disk does not keep a log from being opened"
    log.delete_before(20)
    log.recover()
    log.append(batch())
    log.close()
    log = Log(small_volume / "log", config)
    assert log.start_offset == 20
    assert log.end_offset == len(stored) + 1
