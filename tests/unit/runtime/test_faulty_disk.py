"""The disk that the log is tested on must itself forget and refuse as a real one would."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import DiskError, DiskFullError, GoQueueError
from support.disks import FaultyDisk, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_was_synced_with_its_name_survives_every_crash(memory_path: Path) -> None:
    for seed in range(30):
        folder = memory_path / str(seed)
        folder.mkdir()
        disk = FaultyDisk(folder, seed=seed)
        file = disk.open(folder / "file", create=True)
        file.write(0, b"a" * 2000)
        file.sync()
        disk.sync_folder(folder)
        file.write(2000, b"b" * 2000)
        disk.crash()
        assert contents(folder)["file"][:2000] == b"a" * 2000


def test_a_name_that_was_not_synced_may_be_lost_with_all_its_bytes(memory_path: Path) -> None:
    seen = set()
    for seed in range(30):
        folder = memory_path / str(seed)
        folder.mkdir()
        disk = FaultyDisk(folder, seed=seed)
        file = disk.open(folder / "file", create=True)
        file.write(0, b"a")
        file.sync()
        disk.crash()
        seen.add("file" in contents(folder))
    assert seen == {True, False}


def test_unsynced_bytes_are_kept_lost_or_torn_by_the_sector(memory_path: Path) -> None:
    seen = set()
    for seed in range(60):
        folder = memory_path / str(seed)
        folder.mkdir()
        disk = FaultyDisk(folder, seed=seed)
        file = disk.open(folder / "file", create=True)
        disk.sync_folder(folder)
        file.write(0, b"a" * 1536)
        disk.crash()
        seen.add(contents(folder)["file"])
    assert b"" in seen
    assert b"a" * 1536 in seen
    assert b"\0" * 512 + b"a" * 1024 in seen, "a hole where a sector was lost"
    assert any(len(data) % 512 for data in seen), "or cut anywhere"


def test_unsynced_renames_and_removals_may_be_undone(memory_path: Path) -> None:
    seen = set()
    for seed in range(60):
        folder = memory_path / str(seed)
        folder.mkdir()
        (folder / "old").write_bytes(b"old")
        (folder / "gone").write_bytes(b"gone")
        (folder / "new").write_bytes(b"new")
        disk = FaultyDisk(folder, seed=seed)
        disk.rename(folder / "new", folder / "old")
        disk.remove(folder / "gone")
        disk.crash()
        seen.add((contents(folder)["old"], "gone" in contents(folder)))
    assert seen == {(b"old", True), (b"old", False), (b"new", True), (b"new", False)}


def test_a_killed_process_loses_nothing_but_its_handles(memory_path: Path) -> None:
    disk = FaultyDisk(memory_path)
    file = disk.open(memory_path / "file", create=True)
    file.write(0, b"abc")
    disk.kill()
    assert contents(memory_path) == {"file": b"abc"}
    with pytest.raises(SimulatedCrash):
        file.write(0, b"x")


def test_a_failed_sync_makes_the_pages_clean_without_storing_them(memory_path: Path) -> None:
    disk = FaultyDisk(memory_path)
    file = disk.open(memory_path / "file", create=True)
    disk.sync_folder(memory_path)
    file.write(0, b"abc")
    disk.fail_next("sync")
    with pytest.raises(DiskError):
        file.sync()
    assert file.read(0, 9) == b"abc", "still in the cache"
    file.sync()
    disk.crash()
    assert contents(memory_path) == {"file": b""}, "and never on the disk"


def test_a_fault_strikes_the_operation_it_is_meant_for(memory_path: Path) -> None:
    disk = FaultyDisk(memory_path)
    file = disk.open(memory_path / "a.log", create=True)
    disk.fail_next("write", errno.ENOSPC, ending=".log", skip=1, short=2)
    file.write(0, b"abc")
    with pytest.raises(DiskFullError):
        file.write(3, b"def")
    assert file.read(0, 9) == b"abcde"
    file.write(5, b"f")


def test_the_plug_is_pulled_at_the_operation_asked_for_and_stays_out(memory_path: Path) -> None:
    disk = FaultyDisk(memory_path)
    file = disk.open(memory_path / "file", create=True)
    disk.crash_after(1)
    file.write(0, b"a")
    with pytest.raises(SimulatedCrash):
        file.write(1, b"b")
    with pytest.raises(SimulatedCrash):
        file.sync()
    with pytest.raises(SimulatedCrash):
        disk.open(memory_path / "other", create=True)
    disk.crash()
    disk.open(memory_path / "other", create=True).write(0, b"c")


def test_a_crash_is_nothing_that_the_product_could_catch() -> None:
    assert not issubclass(SimulatedCrash, Exception)
    assert not issubclass(SimulatedCrash, GoQueueError)
