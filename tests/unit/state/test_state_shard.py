"""The state of a coordinator: nothing is answered that is not stored, nothing is applied twice."""

from __future__ import annotations

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.errors import (
    CoordinatorUnavailableError,
    DiskError,
    LeadershipLostError,
    NotLeaderError,
    StorageError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.opening import open_on_disk
from goqueue.partitions.partition import Partition
from goqueue.partitions.replica import Leading
from goqueue.state import shard as state_shard
from goqueue.state.log import SLICE_ENTRIES, StateLog
from goqueue.state.shard import ShardStatus, StateShard
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.disk_log import LogHost
from goqueue.storage.open_files import SharedFiles
from goqueue.storage.snapshot_kinds import SnapshotKind
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.effort import examples
from support.logs import disk_log

_folders = count()


def unavailable():
    return CoordinatorUnavailableError("try again")


class Numbers:
    """A machine whose entries are changes: taken in twice, a number would be there twice."""

    def __init__(self):
        self.known: list[int] = []
        self._loading: list[int] = []

    def begin(self):
        self._loading = []

    def replay(self, entries, _lost_count):
        for key, value in entries:
            if key == b"all":
                self._loading = [int(each) for each in value.split()]
            else:
                self._loading.append(int(value))

    def loaded(self, _lost_count):
        self.known = self._loading

    def dump(self):
        return [(b"all", " ".join(map(str, self.known)).encode())]


class Stage:
    """A partition in a folder, on a disk that a test lets fail, and the shard in it."""

    def __init__(self, folder, fsync=Fsync.ALWAYS):
        self.folder = folder / str(next(_folders))
        self.folder.mkdir()
        self.disk, self.clock = FaultyDisk(self.folder), ManualClock()
        self.pool = ThreadPoolExecutor(1)
        self.fsync = fsync
        self.answered: list[int] = []
        self.epoch = -1
        self._next = count()

    async def lead(self):
        """Open the folder as the leader of the next epoch, whatever became of the last one."""
        self.epoch += 1
        opened = open_on_disk(
            self.folder,
            LogConfig(fsync=self.fsync),
            LogHost(self.pool),
            shared=SharedFiles(self.disk),
            clock=self.clock,
        )
        self.partition = Partition(
            TopicPartition("__state", 0),
            opened,
            clock=self.clock,
            role=Leading(self.epoch),
        )
        log = StateLog(self.partition, SnapshotKind.GROUPS, self.disk, self.clock)
        self.machine = Numbers()
        self.shard = StateShard(log, self.machine, self.pool, unavailable)
        await self.shard.open(self.epoch)

    async def change(self, *, applies=True):
        """Decide, append, apply, and note the answer; the process may end before it applies."""
        number = next(self._next)
        try:
            await self.shard.active()
            try:
                end = self.shard.append([(b"n", b"%d" % number)])
            except StorageError as error:
                raise self.shard.failed(error) from error
            if applies:
                self.machine.known.append(number)
            await self.shard.committed(end)
        except CoordinatorUnavailableError:
            return
        if applies:
            self.answered.append(number)

    async def replayed(self):
        """What another leader would build from the log."""
        other = Numbers()
        shard = StateShard(self.shard.log, other, self.pool, unavailable)
        await shard.open(self.epoch)
        return other.known

    async def end(self):
        await self.shard.close()
        await disk_log(self.partition).flusher.stop()
        self.pool.shutdown()


async def fail_write(stage):
    stage.disk.fail_next("write", errno.EIO, ending=".log")


async def fail_sync(stage):
    stage.disk.fail_next("sync", errno.EIO, ending=".log")


async def three_changes(stage):
    await asyncio.gather(*(stage.change() for _ in range(3)))


async def recover(stage):
    with suppress(DiskError):  # a fault was left for it
        await stage.partition.recover()


async def kill(stage):
    await disk_log(stage.partition).flusher.stop()
    with suppress(DiskError):  # a fault was left for the opening
        await stage.lead()


async def kill_before_applying(stage):
    await stage.change(applies=False)
    await kill(stage)


async def lead_in_another_epoch(stage):
    await stage.shard.close()
    stage.partition.leader_epoch = stage.epoch = stage.epoch + 1
    await stage.shard.open(stage.epoch)


STEPS = [
    Stage.change,
    three_changes,
    fail_write,
    fail_sync,
    recover,
    lambda stage: stage.shard.save(),
    kill,
    kill_before_applying,
    lead_in_another_epoch,
]


@settings(
    max_examples=examples(80),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=25))
def test_nothing_is_answered_that_is_not_stored_and_nothing_is_applied_twice(memory_path, steps):
    async def scenario():
        stage = Stage(memory_path)
        await stage.lead()
        for step in steps:
            await step(stage)
            await stage.shard.rebuilt()
            known = stage.machine.known
            assert len(known) == len(set(known))
            assert set(stage.answered) <= set(known)
            if stage.shard.is_active:
                assert known == await stage.replayed()
        stage.disk.faults.clear()
        await kill(stage)
        assert set(stage.answered) <= set(stage.machine.known)
        assert len(stage.machine.known) == len(set(stage.machine.known))
        await stage.end()

    asyncio.run(scenario())


def test_a_long_replay_lets_the_event_loop_turn_after_each_slice(tmp_path):
    async def scenario():
        stage = Stage(tmp_path, Fsync.NEVER)
        await stage.lead()
        entries = [(b"n", b"%d" % number) for number in range(5 * SLICE_ENTRIES)]
        stage.shard.append(entries)
        turns = 0

        async def turn():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        turning = asyncio.create_task(turn())
        await stage.lead()
        turning.cancel()
        assert len(stage.machine.known) == len(entries)
        assert stage.shard.replayed_slices == 5
        assert turns >= 5
        await stage.end()

    asyncio.run(scenario())


class Slow(Numbers):
    """A machine that takes in each entry in steps, the last of which counts."""

    def replay(self, entries, lost_count):
        for entry in entries:
            yield from (None, None, None)
            super().replay([entry], lost_count)


def test_the_event_loop_turns_between_the_steps_of_a_large_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(state_shard, "_APPLY_S", 0.0)  # each step takes longer than that

    async def scenario():
        stage = Stage(tmp_path)
        await stage.lead()
        await three_changes(stage)
        other, turns = Slow(), 0
        shard = StateShard(stage.shard.log, other, stage.pool, unavailable)
        opening = asyncio.ensure_future(shard.open(stage.epoch))
        while not opening.done():
            await asyncio.sleep(0)
            turns += not opening.done()
        assert other.known == stage.machine.known
        assert turns >= 3 * len(other.known)
        await stage.end()

    asyncio.run(scenario())


def test_a_shard_takes_appends_only_in_the_epoch_in_which_it_was_opened(tmp_path):
    async def scenario():
        stage = Stage(tmp_path)
        await stage.lead()
        stage.partition.leader_epoch += 1
        with pytest.raises(CoordinatorUnavailableError):
            stage.shard.append([(b"n", b"1")])
        await stage.shard.open(stage.partition.leader_epoch)
        stage.shard.append([(b"n", b"1")])
        await stage.end()

    asyncio.run(scenario())


def test_a_closed_shard_refuses_and_an_opened_one_has_what_is_stored(tmp_path):
    async def scenario():
        stage = Stage(tmp_path)
        await stage.lead()
        await stage.change()
        await stage.shard.close()
        assert stage.shard.status is ShardStatus.CLOSED
        with pytest.raises(CoordinatorUnavailableError):
            await stage.shard.active()
        with pytest.raises(CoordinatorUnavailableError):
            stage.shard.append([(b"n", b"1")])
        await stage.shard.open(stage.epoch)
        assert stage.machine.known == stage.answered == [0]
        await stage.end()

    asyncio.run(scenario())


def test_replies_go_in_order_once_what_they_stand_on_is_stored(tmp_path):
    async def scenario():
        stage = Stage(tmp_path)
        await stage.lead()
        told = []
        stage.shard.reply(stage.shard.append([(b"n", b"1")]), lambda e: told.append((1, e)))
        stage.shard.reply(None, lambda error: told.append((2, error)))
        assert told == [], "the disk is waited for"
        await stage.shard.close()
        assert told == [(1, None), (2, None)]
        await stage.end()

    asyncio.run(scenario())


def test_replies_whose_changes_are_lost_are_refusals(tmp_path):
    async def scenario():
        stage = Stage(tmp_path)
        await stage.lead()
        await stage.change()
        told = []
        stage.disk.fail_next("sync", errno.EIO, ending=".log")
        end = stage.shard.append([(b"n", b"7")])
        stage.machine.known.append(7)
        stage.shard.reply(end, told.append)
        stage.shard.reply(None, told.append)
        await stage.shard._sending
        assert [type(each) for each in told] == [CoordinatorUnavailableError] * 2
        with pytest.raises(CoordinatorUnavailableError):
            stage.shard.check()
        await stage.partition.recover()
        await stage.shard.active()
        assert stage.machine.known == await stage.replayed()
        await stage.end()

    asyncio.run(scenario())


def test_the_kinds_of_snapshots_have_numbers_of_their_own():
    assert len(set(SnapshotKind)) == len(SnapshotKind.__members__)
    assert {kind.label for kind in SnapshotKind} >= {"groups", "producers", "schemas"}


# --- Leadership that goes to another node ---------------------------------------------------------


class OfOthers:
    """Makes a partition one whose appends are committed by other nodes, or not."""

    def __init__(self, partition, monkeypatch):
        self.partition = partition
        self.waiting = []
        self.high_watermark = partition.log_end
        monkeypatch.setattr(partition, "is_committed", self._is_committed)
        monkeypatch.setattr(partition, "committed", self._committed)

    def _is_committed(self, end):
        return end <= self.high_watermark

    def _committed(self, end):
        self.waiting.append((end, asyncio.get_running_loop().create_future()))
        return self.waiting[-1][1]

    def lose(self):
        """Another node leads now; those who wait are told."""
        self.partition.leader_epoch += 1
        for _, future in self.waiting:
            future.set_exception(LeadershipLostError("lost"))
        self.waiting.clear()


def test_a_shard_closes_when_its_node_loses_the_leadership_with_replies_waiting(
    tmp_path, monkeypatch
):
    async def main():
        stage = Stage(tmp_path)
        await stage.lead()
        others = OfOthers(stage.partition, monkeypatch)
        told = []
        stage.shard.reply(stage.shard.append([(b"n", b"1")]), told.append)
        await asyncio.sleep(0)
        others.lose()
        async with asyncio.timeout(30):
            await stage.shard.save()
            await stage.shard.close()
        assert [type(each) for each in told] == [CoordinatorUnavailableError]
        await stage.end()

    asyncio.run(main())


def test_a_watermark_that_another_leader_has_moved_commits_nothing_of_this_one(
    tmp_path, monkeypatch
):
    async def main():
        stage = Stage(tmp_path)
        await stage.lead()
        others = OfOthers(stage.partition, monkeypatch)
        end = stage.shard.append([(b"n", b"1")])
        others.lose()
        others.high_watermark = end + 10
        with pytest.raises(CoordinatorUnavailableError):
            await stage.shard.committed(end)
        await stage.end()

    asyncio.run(main())


def test_a_shard_whose_partition_is_handed_over_refuses_before_it_decides(tmp_path):
    async def main():
        stage = Stage(tmp_path)
        await stage.lead()
        await stage.change()
        stage.partition.isolated = NotLeaderError("__state-0")
        assert not stage.shard.is_active
        with pytest.raises(CoordinatorUnavailableError):
            await stage.shard.active()
        with pytest.raises(StorageError):
            stage.shard.append([(b"n", b"7")])
        stage.partition.isolated = None  # nobody could take it over
        await stage.change()
        assert stage.answered == stage.machine.known == await stage.replayed()
        assert len(stage.answered) == 2
        await stage.end()

    asyncio.run(main())
