"""State in an internal partition: whatever ends it, replay brings back what a dictionary holds."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.opening import open_on_disk
from goqueue.partitions.partition import Partition
from goqueue.records import walk
from goqueue.state.change_log import ChangeLog
from goqueue.state.log import BEGIN, END, StateLog
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.disk_log import LogHost
from goqueue.storage.open_files import SharedFiles
from goqueue.storage.snapshot import RECORDS_BETWEEN
from goqueue.storage.snapshot_kinds import SnapshotKind
from support.bad_bits import CHECKSUM_AT, flip
from support.clocks import ManualClock
from support.disks import HastyDisk
from support.effort import examples

KIND = SnapshotKind.GROUPS
_folders = count()


class Store:
    """A state log in a folder, opened and left in every way there is."""

    def __init__(self, folder, log_type=StateLog):
        self.log_type = log_type
        self.folder = folder / str(next(_folders))
        self.disk, self.clock = HastyDisk(), ManualClock()
        self.pool = ThreadPoolExecutor(1)
        self.open()

    def open(self):
        opened = open_on_disk(
            self.folder,
            LogConfig(fsync=Fsync.NEVER, segment_bytes=1024),
            LogHost(self.pool),
            shared=SharedFiles(self.disk),
            clock=self.clock,
        )
        self.partition = Partition(TopicPartition("__state", 0), opened, clock=self.clock)
        self.log = self.log_type(self.partition, KIND, self.disk, self.clock)

    def replayed(self):
        return [entry for entries in self.log.slices() for entry in entries]

    async def save(self, entries):
        await self.log.save_snapshot(entries, self.pool)

    def state(self):
        """What a replay builds."""
        found = {}
        for key, value in self.replayed():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found


KEYS = st.sampled_from([b"a", b"b", b"c", b""])
VALUES = st.none() | st.sampled_from([b"1", b"2", b"", b"x" * 300])
CHANGES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3)


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(steps=st.lists(st.one_of(CHANGES, st.sampled_from(["snapshot", "kill", "close"]))))
def test_replay_brings_back_what_was_put_in(memory_path, steps):
    async def scenario():
        store, twin = Store(memory_path), {}
        for step in steps:
            if step == "snapshot":
                await store.save(twin.items())
            elif step == "kill":
                store.open()
            elif step == "close":
                await store.partition.close()
                store.open()
            else:
                store.log.append(step)
                for key, value in step:
                    twin.pop(key, None)
                    if value is not None:
                        twin[key] = value
            assert store.log.is_empty == (store.partition.log_end == 0)
        store.open()
        assert store.state() == twin
        store.pool.shutdown()

    asyncio.run(scenario())


def test_a_damaged_snapshot_costs_a_longer_replay_and_nothing_else(tmp_path):
    async def scenario():
        store = Store(tmp_path)
        store.log.append([(b"a", b"1"), (b"b", b"2")])
        await store.save({b"a": b"1", b"b": b"2"}.items())
        store.log.append([(b"a", None)])
        for path in store.folder.glob(f"snapshot-{KIND}-*"):
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        store.open()
        assert store.state() == {b"b": b"2"}
        store.pool.shutdown()

    asyncio.run(scenario())


def test_only_what_came_after_the_snapshot_is_replayed(tmp_path):
    async def scenario():
        store = Store(tmp_path)
        for number in range(10):
            store.log.append([(b"k", b"%d" % number)])
        await store.save([(b"k", b"9")])
        store.log.append([(b"k", b"10")])
        store.open()
        assert store.replayed() == [(b"k", b"9"), (b"k", b"10")]
        store.pool.shutdown()

    asyncio.run(scenario())


def test_a_snapshot_is_due_after_enough_changes_or_enough_time_with_some(tmp_path):
    async def scenario():
        store = Store(tmp_path)
        assert not store.log.snapshot_is_due
        store.clock.advance(3_600_000)
        assert not store.log.snapshot_is_due
        store.log.append([(b"a", b"1")])
        assert store.log.snapshot_is_due
        await store.save([(b"a", b"1")])
        assert not store.log.snapshot_is_due
        store.log.append([(b"%d" % n, b"v") for n in range(RECORDS_BETWEEN)])
        assert store.log.snapshot_is_due
        store.pool.shutdown()

    asyncio.run(scenario())


# --- Logs of changes -----------------------------------------------------------------------------


async def write_changes(store, batches):
    """Numbers, a batch each; a snapshot of all so far behind some. Returns the offsets of those."""
    begins = []
    for number in range(batches):
        store.log.append([(b"n", b"%d" % number)])
        if number % 3 == 2:
            begins.append(store.partition.log_end)
            known = range(number + 1)
            await store.save([(b"all", b" ".join(b"%d" % each for each in known))])
    return begins


def numbers(entries):
    """What the entries of `write_changes` say."""
    found = []
    for key, value in entries:
        if key == b"all":
            found = [int(each) for each in value.split()]
        elif key == b"n":
            found.append(int(value))
    return found


def test_a_snapshot_of_changes_is_in_the_log_and_spares_what_lies_before(tmp_path):
    async def scenario():
        store = Store(tmp_path, ChangeLog)
        await write_changes(store, 10)
        store.open()
        replayed = store.replayed()
        assert [key for key, _ in replayed] == [BEGIN, b"all", END, b"n"]
        assert numbers(replayed) == list(range(10))
        store.pool.shutdown()

    asyncio.run(scenario())


@pytest.mark.parametrize("harmed", range(3), ids=["begin", "entries", "end"])
def test_a_damaged_snapshot_of_changes_is_passed_over_for_the_one_before(tmp_path, harmed):
    async def scenario():
        store = Store(tmp_path, ChangeLog)
        *_, newest = await write_changes(store, 9)
        await store.partition.close()
        for path in store.folder.glob("*.log"):
            for position, info in walk(path.read_bytes()):
                if info.base_offset == newest + harmed:
                    flip(path, position + CHECKSUM_AT)
        store.open()
        assert numbers(store.replayed()) == list(range(9))
        assert store.log.lost_count == 1
        store.pool.shutdown()

    asyncio.run(scenario())


def test_an_unfinished_snapshot_of_changes_does_not_count(tmp_path):
    async def scenario():
        store = Store(tmp_path, ChangeLog)
        await write_changes(store, 4)
        store.log.append([(BEGIN, b"")])
        store.open()
        assert numbers(store.replayed()) == list(range(4))
        store.pool.shutdown()

    asyncio.run(scenario())
