"""The machine's disk behind our words: what it promises, and how it complains."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from goqueue.model.errors import DiskError, DiskFullError, DiskPermissionError
from goqueue.runtime.disk import SystemDisk, SystemFile, replace_file, translate
from support.disks import FaultyDisk, SimulatedCrash


@pytest.fixture
def disk() -> SystemDisk:
    return SystemDisk()


def test_what_is_written_is_read_at_its_position(disk: SystemDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "file", create=True)
    file.write(3, b"hello")
    file.write(0, memoryview(b"abc"))
    assert file.read(0, 100) == b"abchello"
    assert file.read(4, 2) == b"el"
    assert file.read(99, 5) == b""
    assert file.size() == disk.size(tmp_path / "file") == 8
    file.sync()
    file.truncate(2)
    assert file.read(0, 100) == b"ab"


def test_a_cached_read_gives_the_bytes_or_nothing(disk: SystemDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "file", create=True)
    file.write(0, b"hello")
    assert file.read_cached(1, 3) in (b"ell", None)
    assert file.read_cached(1, 30) is None, "fewer than asked for is not an answer"


def test_a_file_closes_with_its_last_holder_and_closing_twice_is_harmless(
    disk: SystemDisk, tmp_path: Path
) -> None:
    file = disk.open(tmp_path / "file", create=True)
    descriptor = file.fileno()
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    descriptor = disk.open(tmp_path / "file").fileno()  # nobody holds it
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_short_write_is_continued(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(tmp_path / "file", create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file.write(0, b"abcdefgh")
    assert file.read(0, 100) == b"abcdefgh"


def test_a_short_read_is_continued(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(tmp_path / "file", create=True)
    file.write(0, b"abcdefgh")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: real(fd, min(length, 3), at))
    assert file.read(1, 6) == b"bcdefg"
    assert file.read(5, 60) == b"fgh"


def test_folders_are_made_with_their_parents_and_listed_in_order(
    disk: SystemDisk, tmp_path: Path
) -> None:
    folder = tmp_path / "a" / "b"
    assert disk.names(folder) == []
    disk.make_folder(folder)
    disk.make_folder(folder)
    for name in ("z", "a", "m"):
        disk.open(folder / name, create=True)
    disk.sync_folder(folder)
    assert disk.names(folder) == ["a", "m", "z"]
    disk.remove(folder / "m")
    disk.remove(folder / "m")
    disk.rename(folder / "z", folder / "a")
    assert disk.names(folder) == ["a"]
    disk.remove_folder(folder)
    disk.remove_folder(folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (errno.ENOSPC, DiskFullError, "free some space"),
        (errno.EDQUOT, DiskFullError, "free some space"),
        (errno.EACCES, DiskPermissionError, "must be able to read and write"),
        (errno.EPERM, DiskPermissionError, "must be able to read and write"),
        (errno.EROFS, DiskPermissionError, "must be able to read and write"),
        (errno.EIO, DiskError, "Input/output error"),
    ],
)
def test_an_error_says_what_failed_where_and_what_to_do(
    code: int, kind: type[DiskError], advice: str
) -> None:
    error = translate(OSError(code, os.strerror(code)), "writing", Path("/data/file"))
    assert type(error) is kind
    assert "/data/file" in str(error)
    assert "writing" in str(error)
    assert advice in str(error)


def test_only_errors_that_may_pass_are_worth_another_try() -> None:
    assert DiskError.retriable
    assert DiskFullError.retriable
    assert not DiskPermissionError.retriable


def test_every_refusal_of_the_machine_becomes_an_error_of_ours(
    disk: SystemDisk, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file, not a folder")
    inside = tmp_path / "file" / "inside"
    for use in (
        lambda: disk.open(inside, create=True),
        lambda: disk.open(tmp_path / "missing"),
        lambda: disk.names(tmp_path / "file"),
        lambda: disk.size(tmp_path / "missing"),
        lambda: disk.make_folder(inside),
        lambda: disk.rename(tmp_path / "missing", tmp_path / "other"),
        lambda: disk.remove(inside),
        lambda: disk.sync_folder(tmp_path / "missing"),
        lambda: disk.open(tmp_path / "file", write=False).write(0, b"x"),
        lambda: disk.open(tmp_path / "file", write=False).truncate(0),
    ):
        with pytest.raises(DiskError):
            use()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_recognised() -> None:
    file = SystemFile(Path("/dev/full"), os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(DiskFullError, match="/dev/full"):
        file.write(0, b"x" * 5000)


def test_a_replaced_file_is_the_old_one_or_the_new_one_wherever_it_stops(
    memory_path: Path,
) -> None:
    outcomes = set()
    for seed in range(100):
        disk = FaultyDisk(memory_path / str(seed), seed=seed)
        path = memory_path / str(seed) / "file"
        disk.make_folder(path.parent)
        replace_file(disk, path, b"old" * 500)
        disk.crash_after(seed % 7)
        done = False
        with suppress(SimulatedCrash):
            replace_file(disk, path, b"new" * 600)
            done = True
        disk.crash()
        content = path.read_bytes()
        assert content in {b"old" * 500, b"new" * 600}
        assert content == b"new" * 600 or not done
        outcomes.add(content)
    assert len(outcomes) == 2
