"""A million records over ten thousand keys, compacted by a process that is killed at every step.

The log is written once; each step gets a copy of its folder (hard links: compaction never changes
a sealed file, and the active one is copied). The child compacts with a disk that sends SIGKILL to
its own process at the named operation. Then the log is opened here, and judged by what was written:
the newest value of each key is there at its offset, no record has moved or changed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.records import BatchInfo, Record, decode_rows, encode, walk
from goqueue.runtime.disk import Bytes, SystemDisk, SystemFile
from goqueue.storage.compaction.compaction import compact
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.effort import sampled

if TYPE_CHECKING:
    from collections.abc import Iterable

NOW = 1_700_000_000_000
RECORDS = 1_000_000
KEYS = 10_000
BATCH = 2_000
SMALL = LogConfig(segment_bytes=6 * 1024 * 1024)
CONFIG = LogConfig(segment_bytes=20 * 1024 * 1024)
"""Larger than what the log was written with, so that a copy stands for several segments."""
VALUE = b"%012d" + b"." * 88

STEPS = {
    "while the keys are read": ("read", ".log", 40),
    "when the first copy is made": ("open", ".log.cleaned", 0),
    "while the first copy is written": ("write", ".log.cleaned", 0),
    "while a later copy is written": ("write", ".log.cleaned", 3),
    "before a copy is synced": ("sync", ".log.cleaned", 1),
    "before the index of a copy is synced": ("sync", ".index.cleaned", 1),
    "before the time index of a copy is synced": ("sync", ".timeindex.cleaned", 2),
    "while the gaps are noted": ("write", ".checkpoint.tmp", 0),
    "before the note of the gaps counts": ("rename", "log.checkpoint", 0),
    "before the first copy counts": ("rename", ".swap", 0),
    "before that is on the disk": ("sync_folder", "", 1),
    "before an old index is removed": ("remove", ".index", 0),
    "before an old time index is removed": ("remove", ".timeindex", 0),
    "before an old segment is removed": ("remove", "0.log", 0),
    "before the next old segment is removed": ("remove", "0.log", 1),
    "before the removals are on the disk": ("sync_folder", "", 2),
    "before the copy has its name": ("rename", ".log", 0),
    "before the name is on the disk": ("sync_folder", "", 3),
    "before the new index has its name": ("rename", ".index", 0),
    "before the new time index has its name": ("rename", ".timeindex", 0),
    "before a later copy counts": ("rename", ".swap", 1),
    "before a later copy has its name": ("rename", ".log", 1),
    "before the pass is noted": ("rename", "log.checkpoint", 1),
}


class DeadlyFile(SystemFile):
    """A file whose reads, writes and syncs are counted."""

    disk: DeadlyDisk

    def read(self, position: int, length: int) -> bytes:
        self.disk.step("read", self.path)
        return super().read(position, length)

    def write(self, position: int, data: Bytes) -> None:
        if self.disk.due("write", self.path):
            super().write(position, memoryview(data)[: len(data) // 2])
            self.disk.die()
        super().write(position, data)

    def sync(self) -> None:
        self.disk.step("sync", self.path)
        super().sync()


class DeadlyDisk(SystemDisk):
    """The real disk, except that one operation kills the process instead."""

    def __init__(self, operation: str, ending: str, skip: int) -> None:
        self._deadly = operation, ending
        self._skip = skip
        self.armed = False

    def due(self, operation: str, path: Path) -> bool:
        wanted, ending = self._deadly
        if not self.armed or operation != wanted or not path.name.endswith(ending):
            return False
        self._skip -= 1
        return self._skip < 0

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def step(self, operation: str, path: Path) -> None:
        if self.due(operation, path):
            self.die()

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> SystemFile:
        self.step("open", path)
        plain = super().open(path, create=create, write=write)
        file = DeadlyFile(path, os.dup(plain.fileno()))
        file.disk = self
        return file

    def rename(self, source: Path, target: Path) -> None:
        self.step("rename", target)
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        if path.exists():
            self.step("remove", path)
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        self.step("sync_folder", folder)
        super().sync_folder(folder)


def key_of(number: int) -> int:
    """All keys once, then fewer and fewer, so that the newest values lie all over the log."""
    if number < KEYS:
        return number
    return number * 7919 % (KEYS - number * (KEYS - 1) // RECORDS)


def write_log(folder: Path) -> None:
    log = Log(folder, SMALL)
    for first in range(0, RECORDS, BATCH):
        rows = [
            Record(n, NOW + first + n, b"key-%06d" % key_of(first + n), VALUE % (first + n))
            for n in range(BATCH)
        ]
        log.append(encode(rows))
    log.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compaction") / "log"
    write_log(folder)
    return folder


class Truth:
    """What was written, and where the newest value of each key is."""

    def __init__(self, written: Path) -> None:
        self.batches = {
            info.base_offset: bytes(chunk.data[at : at + info.size_bytes])
            for chunk in Log(written, CONFIG).chunks(0)
            for at, info in walk(chunk.data)
        }
        self.newest = {key_of(number): number for number in range(RECORDS)}

    def judge(self, log: Log) -> int:
        """Check every record that is left; returns how many there are."""
        log.check_invariants()
        assert log.end_offset == RECORDS
        offsets: list[int] = []
        for chunk in log.chunks(0, max_bytes=8 * 1024 * 1024):
            for at, info in walk(chunk.data):
                offsets += self._offsets(info, bytes(chunk.data[at : at + info.size_bytes]))
        assert offsets == sorted(set(offsets)), "out of order, or one twice"
        lost = set(self.newest.values()).difference(offsets)
        assert not lost, f"lost the newest value of {len(lost)} keys"
        return len(offsets)

    def _offsets(self, info: BatchInfo, data: bytes) -> Iterable[int]:
        if data == self.batches[info.base_offset]:
            return range(info.base_offset, info.next_offset)
        rows = decode_rows(data)
        for row in rows:
            assert (row.key, row.value) == (b"key-%06d" % key_of(row.offset), VALUE % row.offset)
        return [row.offset for row in rows]


@pytest.fixture(scope="module")
def truth(written: Path) -> Truth:
    return Truth(written)


def copy(written: Path, target: Path) -> Path:
    target.mkdir()
    logs = sorted(written.glob("*.log"))
    for path in written.iterdir():
        if path in logs[:-1]:
            os.link(path, target / path.name)
        else:
            (target / path.name).write_bytes(path.read_bytes())
    return target


def run_child(folder: Path, step: tuple[str, str, int]) -> int:
    operation, ending, skip = step
    program = [sys.executable, __file__, str(folder), operation, ending, str(skip)]
    search = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": search}
    return subprocess.run(program, check=False, timeout=280, env=environment).returncode


def test_the_log_is_as_large_as_it_says(written: Path, truth: Truth) -> None:
    log = Log(written, CONFIG)
    assert len(truth.newest) == KEYS
    assert truth.judge(log) == RECORDS
    assert len(log.segments) > 15
    spread = [log.segments.since(offset)[0].base_offset for offset in truth.newest.values()]
    assert len(set(spread)) == len(log.segments), "each segment has newest values"


@pytest.mark.parametrize("when", sampled(list(STEPS), 8))
def test_a_process_killed_on_the_way_loses_no_newest_value(
    written: Path, truth: Truth, tmp_path: Path, when: str
) -> None:
    folder = copy(written, tmp_path / "log")
    assert run_child(folder, STEPS[when]) == -signal.SIGKILL
    log = Log(folder, CONFIG)
    assert log.recovery.damage == []
    assert not [p.name for p in folder.iterdir() if p.suffix in {".cleaned", ".swap", ".tmp"}]
    truth.judge(log)


def test_a_process_that_lives_leaves_only_the_newest(
    written: Path, truth: Truth, tmp_path: Path
) -> None:
    folder = copy(written, tmp_path / "log")
    assert run_child(folder, ("never", "", 0)) == 0
    log = Log(folder, CONFIG)
    active = log.segments.active
    assert active is not None
    assert truth.judge(log) <= KEYS + RECORDS - active.base_offset


def main(folder: str, operation: str, ending: str, skip: str) -> None:
    """The child: compact, or die."""
    disk = DeadlyDisk(operation, ending, int(skip))
    log = Log(Path(folder), CONFIG, disk=disk)
    disk.armed = True
    compact(log, NOW)


if __name__ == "__main__":
    main(*sys.argv[1:])
