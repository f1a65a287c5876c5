"""A compaction that stops at any operation of the disk leaves the old or the new, never neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue.storage.compaction.compaction import DAY_MS, compact
from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.disks import FaultyDisk, SimulatedCrash
from unit.storage.compaction_twin import Draft, Twin, stored_records

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=200, index_interval_bytes=1)
GROUPED = LogConfig(segment_bytes=500, index_interval_bytes=1)
LEFTOVERS = (".cleaned", ".swap", ".tmp")


class Scene:
    """A log with gaps from an earlier pass, tombstones that are due, and new records."""

    def __init__(self, root: Path, seed: int, *, flushed: bool) -> None:
        root.mkdir()
        self.disk = FaultyDisk(root, seed=seed)
        self.folder = root / "log"
        self.log = Log(self.folder, SMALL, disk=self.disk)
        self.twin = Twin()
        for number in range(8):
            self.put((b"k%d" % (number % 3), b"old %d" % number), (None, b"%d" % number))
        self.put((b"k0", None), (b"dead", None), producer=(5, 0, 0))
        self.put((b"k0", b"pad"))
        compact(self.log, NOW - 2 * DAY_MS)
        self.log.flush(checkpoint=True)
        self.promised = {record.offset: record for record in self.twin.records}
        for number in range(8):
            self.put((b"k%d" % (number % 4), b"new %d" % number), producer=(6, 0, number))
        self.put((b"tail", b"active"))
        if flushed:
            self.log.flush()
            self.promised = {record.offset: record for record in self.twin.records}
        self.end = self.log.end_offset
        self.log.configure(GROUPED)

    def put(self, *rows: tuple[bytes | None, bytes | None], **rest: object) -> None:
        stamped = tuple((key, value, 1000) for key, value in rows)
        self.twin.append(self.log, Draft(stamped, **rest))  # type: ignore[arg-type]  # of a Draft

    def crash_in(self, step: int) -> bool:
        """Compact until the operation of that number; false when there is none."""
        self.disk.crash_after(step)
        try:
            compact(self.log, NOW)
        except SimulatedCrash:
            return True
        return False

    def expired(self) -> set[int]:
        return {r.offset for r in self.promised.values() if r.key == b"dead"}

    def judge_again(self, *, everything: bool) -> None:
        """Open the log once more; nothing promised may be missing, nothing half done be left."""
        log = Log(self.folder, GROUPED, disk=self.disk)
        log.check_invariants()
        assert not [path.name for path in self.folder.iterdir() if path.suffix in LEFTOVERS]
        if everything:
            assert log.recovery.clean, log.recovery
            assert log.end_offset == self.end
            self.twin.judge(log, expired=frozenset(self.expired()))
        self.judge_promises(log)
        compact(log, NOW)
        self.judge_promises(log)
        if everything:
            self.twin.judge(log, expired=frozenset(self.expired()))
        self.put_one_more(log)

    def judge_promises(self, log: Log) -> None:
        """Every key has the newest value that was promised, or a newer one; all as written."""
        original = {record.offset: record for record in self.twin.records}
        found = stored_records(log)
        for record in found:
            assert record == original[record.offset]
        newest = {record.key: record.offset for record in found}
        present = {record.offset for record in found}
        for offset, record in self.promised.items():
            if offset in self.expired():
                continue
            if record.key is None:
                assert offset in present, f"lost {record}"
            else:
                assert newest.get(record.key, -1) >= offset or not self.is_newest(record.offset)

    def is_newest(self, offset: int) -> bool:
        record = self.promised[offset]
        return offset == max(o for o, r in self.promised.items() if r.key == record.key)

    def put_one_more(self, log: Log) -> None:
        appended = log.append(Draft(((b"after", b"crash", 1),)).encode())
        assert appended.first_offset >= max(self.promised) + 1, "an offset was given again"
        assert stored_records(log)[-1].key == b"after"


def test_a_process_killed_at_any_operation_loses_and_leaves_nothing(memory_path: Path) -> None:
    step = 0
    while True:
        scene = Scene(memory_path / str(step), step, flushed=step % 2 == 0)
        if not scene.crash_in(step):
            break
        scene.disk.kill()
        scene.judge_again(everything=True)
        step += 1
    assert step > 60
    assert {line.split()[0] for line in scene.disk.trace} >= {"rename", "remove", "sync", "write"}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
)
@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "in-the-cache"])
def test_a_power_cut_at_any_operation_loses_nothing_that_was_on_the_disk(
    memory_path: Path, seed: int, flushed: bool
) -> None:
    step = 0
    while True:
        scene = Scene(memory_path / str(step), seed * 1000 + step, flushed=flushed)
        if not scene.crash_in(step):
            break
        scene.disk.crash()
        scene.judge_again(everything=flushed)
        step += 1
    assert step > 60


def second_crashes(root: Path, step: int) -> int:
    """Crash at a step, then at each operation of the recovery; returns how many there were."""
    for again in range(100):
        scene = Scene(root / f"{step}-{again}", again, flushed=True)
        assert scene.crash_in(step)
        scene.disk.crash()
        scene.disk.crash_after(again)
        try:
            Log(scene.folder, GROUPED, disk=scene.disk)
        except SimulatedCrash:
            scene.disk.crash()
            scene.judge_again(everything=True)
        else:
            return again
    pytest.fail("recovery does not end")


def swapping_steps(root: Path) -> list[int]:
    """The numbers of the operations from the first swap on."""
    scene = Scene(root / "whole", 0, flushed=True)
    before = len(scene.disk.trace)
    compact(scene.log, NOW)
    trace = scene.disk.trace[before:]
    first = next(number for number, line in enumerate(trace) if line.endswith(".swap"))
    return list(range(first + 1, len(trace)))


def test_a_second_crash_while_the_first_is_mended_loses_nothing(memory_path: Path) -> None:
    steps = swapping_steps(memory_path)
    assert len(steps) > 30
    assert sum(second_crashes(memory_path, step) for step in steps[::10]) > 20


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_second_crash_at_any_operation_loses_nothing(memory_path: Path) -> None:
    for step in swapping_steps(memory_path):
        second_crashes(memory_path, step)
