"""Summaries of many logs in one file: they spare a start its scan, and never say too much."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from goqueue.storage.checkpoints.book import CheckpointBook
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from goqueue.storage.open_files import SharedFiles
from support.batches import batch
from support.clocks import ManualClock
from support.disks import FaultyDisk, HastyDisk, SimulatedCrash
from support.oracle import Oracle, readable

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.runtime.disk import Disk

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=20)


class Shelf:
    """A few logs that share a disk and a book, and an oracle for each."""

    def __init__(self, root: Path, disk: Disk, count: int = 3) -> None:
        self.root, self.disk = root, disk
        self.oracles = [Oracle() for _ in range(count)]
        self.open()

    def open(self) -> None:
        shared = SharedFiles(self.disk, root=self.root)
        self.book = CheckpointBook(self.disk, self.root / "book", self.root)
        known = self.book.load()
        self.logs = [
            Log(
                self.root / "logs" / str(number),
                CONFIG,
                clock=ManualClock(),
                shared=shared,
                summary=known.get(f"logs/{number}"),
            )
            for number in range(len(self.oracles))
        ]

    def append(self, number: int, *, epoch: int = 0) -> None:
        log, oracle = self.logs[number], self.oracles[number]
        data = batch(2, value=b"%d" % log.end_offset * 9)
        try:
            log.append(data, max(epoch, log.epochs.latest))
        except SimulatedCrash:
            oracle.attempted(data)
            raise
        oracle.appended(data)

    def flush(self, number: int, *, checkpoint: bool = False) -> None:
        self.logs[number].flush(checkpoint=checkpoint)
        self.oracles[number].flushed = self.logs[number].end_offset

    def summarise(self) -> int:
        """Enter what can be entered, and save the book."""
        count = 0
        for number, log in enumerate(self.logs):
            if log.end_offset and log.is_summarisable:
                summary = log.summary(b"%d" % log.end_offset)
                self.flush(number)
                if log.summarised(summary):
                    self.book.put(log.folder, summary)
                    count += 1
        self.book.save()
        return count

    def delete(self, number: int, offset: int) -> None:
        self.oracles[number].deleted_before(offset)
        self.logs[number].delete_before(offset)

    def truncate(self, number: int, offset: int) -> None:
        self.oracles[number].truncated_to(offset)
        self.logs[number].truncate_to(offset)

    def judge(self) -> None:
        for log, oracle in zip(self.logs, self.oracles, strict=True):
            oracle.judge(log, promised_end=oracle.flushed)


def test_a_log_opened_from_its_summary_scans_nothing_and_goes_on(memory_path: Path) -> None:
    shelf = Shelf(memory_path, HastyDisk())
    for number in (0, 0, 1):
        shelf.append(number)
    assert shelf.summarise() == 2
    stored = [list(readable(log)) for log in shelf.logs]
    assert not list(memory_path.rglob("log.checkpoint"))
    shelf.open()
    assert [log.recovery.scanned_bytes for log in shelf.logs] == [0, 0, 0]
    opened_from = shelf.logs[0].opened_from
    assert opened_from is not None
    assert opened_from.state == b"4"
    assert [list(readable(log)) for log in shelf.logs] == stored
    assert shelf.logs[0].find_latest_time() == (0, 1000)
    shelf.append(0)
    assert shelf.logs[0].end_offset == 6
    shelf.open()
    assert shelf.logs[0].recovery.scanned_bytes == len(shelf.oracles[0].batches[-1].data)
    assert not shelf.logs[0].recovery.checkpoint_missing


def test_a_summary_of_an_older_checkpoint_does_not_count(memory_path: Path) -> None:
    shelf = Shelf(memory_path, HastyDisk(), 1)
    for _ in range(4):
        shelf.append(0)
    shelf.summarise()
    shelf.truncate(0, 2)
    shelf.append(0)
    shelf.open()
    assert shelf.logs[0].opened_from is None
    shelf.judge()
    assert list(readable(shelf.logs[0])) == shelf.oracles[0].batches


def test_a_log_with_a_damaged_checkpoint_is_not_believed_its_summary(memory_path: Path) -> None:
    shelf = Shelf(memory_path, HastyDisk(), 1)
    shelf.append(0)
    shelf.summarise()
    (shelf.logs[0].folder / "log.checkpoint").write_bytes(b"?")
    shelf.open()
    assert shelf.logs[0].opened_from is None
    assert shelf.logs[0].recovery.checkpoint_damaged
    shelf.judge()


@pytest.mark.parametrize("ruin", ["flip", "cut", "empty", "other version", "lost"])
def test_what_a_ruined_book_does_not_say_is_scanned(memory_path: Path, ruin: str) -> None:
    shelf = Shelf(memory_path, HastyDisk())
    for number in range(3):
        shelf.append(number)
    shelf.summarise()
    path = memory_path / "book"
    data = bytearray(path.read_bytes())
    if ruin == "flip":
        data[len(data) // 2] ^= 1
    ruins: dict[str, bytes | bytearray] = {
        "cut": data[:-3],
        "empty": bytearray(),
        "other version": b"GQCB\0\7" + data[6:],
    }
    path.write_bytes(ruins.get(ruin, data))
    if ruin == "lost":
        path.unlink()
    shelf.open()
    scanned = [log.recovery.scanned_bytes > 0 for log in shelf.logs]
    assert scanned[2]
    assert scanned[0] == (ruin not in {"flip", "cut"})
    shelf.judge()
    assert [log.end_offset for log in shelf.logs] == [2, 2, 2]


@pytest.mark.parametrize("seed", range(150))
def test_a_power_cut_at_any_step_takes_only_what_was_not_flushed(
    memory_path: Path, seed: int
) -> None:
    """First appends, new folders, rolls, summaries and what makes them out of date."""
    disk = FaultyDisk(memory_path, seed=seed)
    shelf, rng = Shelf(memory_path, disk), disk.rng
    for _ in range(4):
        disk.crash_after(rng.randint(0, 60))
        with suppress(SimulatedCrash):
            shelf.open()
            for _ in range(25):
                number = rng.randrange(3)
                step = rng.choice(("append",) * 6 + ("flush", "summarise", "cut", "delete", "new"))
                if step == "append":
                    shelf.append(number)
                elif step == "flush":
                    shelf.flush(number, checkpoint=rng.random() < 0.3)
                elif step == "summarise":
                    shelf.summarise()
                elif step == "cut" and shelf.oracles[number].end > 4:
                    shelf.truncate(number, shelf.oracles[number].end - 3)
                elif step == "delete" and shelf.oracles[number].flushed > 4:
                    shelf.delete(number, shelf.oracles[number].flushed - 3)
                elif step == "new":
                    shelf.append(number, epoch=shelf.logs[number].epochs.latest + 1)
        disk.crash()
        shelf.open()
        shelf.judge()
        for log, oracle in zip(shelf.logs, shelf.oracles, strict=True):
            oracle.adopt(log)


def test_the_judge_of_power_cuts_notices_folders_that_nobody_syncs(memory_path: Path) -> None:
    caught = 0
    for seed in range(30):
        disk = FaultyDisk(memory_path / str(seed), seed=seed)
        disk.make_folder(disk.root)
        shelf = Shelf(disk.root, disk)
        for log in shelf.logs:
            log.store.shared.folders.sync = lambda _: None  # type: ignore[method-assign, assignment]  # the plant
        for number in range(3):
            shelf.append(number)
            shelf.flush(number)
        disk.crash()
        shelf.open()
        try:
            shelf.judge()
        except AssertionError:
            caught += 1
    assert caught > 5
