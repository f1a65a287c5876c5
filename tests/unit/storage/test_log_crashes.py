"""The plug is pulled, or the process killed, at every single operation on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue.storage.config import LogConfig
from goqueue.storage.log import Log
from support.batches import batch
from support.clocks import ManualClock
from support.disks import FaultyDisk, SimulatedCrash
from support.effort import sampled
from support.oracle import Oracle, readable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


class Scene:
    """A log on a disk that dies, and the oracle that knows what was promised."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.disk = FaultyDisk(folder, seed=seed)
        self.folder = folder / "log"
        self.oracle = Oracle()
        self.log = self.open()

    def open(self) -> Log:
        return Log(self.folder, CONFIG, disk=self.disk, clock=ManualClock())

    def append(self, count: int = 3, epoch: int = 1) -> None:
        data = batch(count, value=b"%d" % self.log.end_offset * 20)
        try:
            self.log.append(data, epoch)
        except SimulatedCrash:
            self.oracle.attempted(data)
            raise
        self.oracle.appended(data)

    def flush(self, *, checkpoint: bool = False) -> None:
        self.log.flush(checkpoint=checkpoint)
        self.oracle.flushed = self.log.end_offset

    def prepare(self) -> None:
        """A few segments, of which the last part is not flushed."""
        for number in range(8):
            self.append()
            if number in {2, 5}:
                self.flush(checkpoint=number == 2)


def append_and_roll(scene: Scene) -> None:
    for number in range(6):
        scene.append(epoch=1 + number // 3)
        if number % 2:
            scene.flush(checkpoint=number == 3)


def delete(scene: Scene) -> None:
    for offset in (4, 11, 20):
        scene.oracle.deleted_before(offset)  # from the moment that it was asked for
        scene.log.delete_before(offset)


def truncate(scene: Scene) -> None:
    for offset in (17, 10, 4):
        scene.oracle.truncated_to(offset)
        scene.log.truncate_to(offset)
        scene.append(2, epoch=offset)


def close(scene: Scene) -> None:
    scene.log.close()
    scene.oracle.flushed = scene.oracle.end


def reopen(scene: Scene) -> None:
    scene.disk.kill()
    scene.log = scene.open()
    scene.flush(checkpoint=True)


WORK = [append_and_roll, delete, truncate, close, reopen]


def steps(folder: Path, work: Callable[[Scene], None]) -> int:
    """How many operations of the disk some work takes."""
    scene = Scene(folder, 0)
    scene.prepare()
    before = len(scene.disk.trace)
    work(scene)
    return len(scene.disk.trace) - before


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("end", ["power cut", "kill"])
def test_nothing_promised_is_lost_wherever_it_stops(
    memory_path: Path, work: Callable[[Scene], None], end: str
) -> None:
    total = steps(memory_path / "count", work)
    assert total > 2
    for step in range(total):
        for seed in sampled(range(6), 2) if end == "power cut" else [0]:
            scene = Scene(memory_path / f"{step}-{seed}", seed)
            scene.prepare()
            if work is reopen:
                scene.disk.kill()
            scene.disk.crash_after(step)
            with pytest.raises(SimulatedCrash):
                work_again(scene, work)
            if end == "power cut":
                scene.disk.crash()
                promised = scene.oracle.flushed
            else:
                scene.disk.kill()
                promised = scene.oracle.end
            log = scene.open()
            scene.oracle.judge(log, promised_end=promised)
            assert_usable(scene, log)


def work_again(scene: Scene, work: Callable[[Scene], None]) -> None:
    if work is reopen:
        scene.log = scene.open()
        scene.flush(checkpoint=True)
    else:
        work(scene)


def assert_usable(scene: Scene, log: Log) -> None:
    """The log goes on: what is appended and flushed now survives the next power cut."""
    scene.log = log
    scene.oracle.adopt(log)
    scene.append(epoch=max(log.epochs.latest, 0) + 1)
    scene.flush()
    scene.disk.crash()
    scene.oracle.judge(scene.open(), promised_end=scene.oracle.flushed)


def test_an_interrupted_truncation_leaves_a_prefix_and_no_hole(memory_path: Path) -> None:
    total = 0
    for step in range(100):
        for seed in range(10):
            scene = Scene(memory_path / f"{step}-{seed}", seed)
            scene.prepare()
            scene.flush(checkpoint=True)
            assert len(scene.log.segments) > 3
            scene.disk.crash_after(step)
            try:
                scene.log.truncate_to(4)
            except SimulatedCrash:
                total += 1
            else:
                assert total > 60
                return
            scene.disk.crash()
            log = scene.open()
            found = list(readable(log))
            assert found == scene.oracle.batches[: len(found)]
            assert log.end_offset == found[-1].end
            assert log.truncate_to(4) == 3
            assert list(readable(log)) == scene.oracle.batches[:1]


@pytest.mark.parametrize("seed", range(30))
def test_one_power_cut_after_the_other_takes_only_what_was_not_flushed(
    memory_path: Path, seed: int
) -> None:
    """Also in the middle of the recovery from the last one."""
    scene = Scene(memory_path, seed)
    rng = scene.disk.rng
    for _ in range(8):
        try:
            scene.disk.crash_after(rng.randint(0, 40))
            scene.log = scene.open()
            scene.oracle.judge(scene.log, promised_end=scene.oracle.flushed)
            scene.oracle.adopt(scene.log)
            for _ in range(20):
                scene.append(rng.randint(1, 4), epoch=max(scene.log.epochs.latest, 0))
                if rng.random() < 0.4:
                    scene.flush(checkpoint=rng.random() < 0.3)
        except SimulatedCrash:
            pass
        scene.disk.crash()
    log = scene.open()
    scene.oracle.judge(log, promised_end=scene.oracle.flushed)


def test_the_oracle_notices_a_disk_that_lies(memory_path: Path) -> None:
    """A check that cannot fail proves nothing: syncs that do not happen are found out."""
    caught = 0
    for seed in range(10):
        scene = Scene(memory_path / str(seed), seed)
        scene.disk.pretend_to_sync = True
        for _ in range(5):
            scene.append()
        scene.flush()
        scene.disk.crash()
        try:
            scene.oracle.judge(scene.open(), promised_end=scene.oracle.flushed)
        except AssertionError:
            caught += 1
    assert caught > 5


def test_what_a_killed_process_left_unsynced_is_synced_by_the_next_one(memory_path: Path) -> None:
    """Also the name of the file that it made."""
    for seed in range(20):
        scene = Scene(memory_path / str(seed), seed)
        scene.append()
        scene.disk.kill()
        scene.log = scene.open()
        scene.append()
        scene.flush()
        scene.disk.crash()
        scene.oracle.judge(scene.open(), promised_end=6)


def test_a_segment_made_while_a_flush_runs_is_durable_after_the_next_flush(
    memory_path: Path,
) -> None:
    """The flush in the thread has synced the folder before the new name was in it."""
    for seed in range(20):
        scene = Scene(memory_path / str(seed), seed)
        scene.append()
        plan = scene.log.plan_flush()
        plan.run()
        for _ in range(4):
            scene.append()
        assert len(scene.log.segments) > 1
        scene.log.flushed(plan)
        scene.flush()
        scene.disk.crash()
        scene.oracle.judge(scene.open(), promised_end=15)


def test_a_checkpoint_written_by_a_flush_keeps_what_the_writer_noted_meanwhile(
    memory_path: Path,
) -> None:
    scene = Scene(memory_path, 1)
    scene.prepare()
    plan = scene.log.plan_flush(checkpoint=True)
    scene.append(epoch=9)
    scene.log.delete_before(5)
    plan.run()
    scene.log.flushed(plan)
    scene.flush()
    scene.disk.crash()
    log = scene.open()
    assert log.start_offset == 5
    assert log.epochs.latest == 9
    assert list(readable(log))[-1].end == 27
