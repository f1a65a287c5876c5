"""State in an internal partition: whatever ends it, replay brings back what a dictionary holds."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Partition
from goqueue.partitions.partition_log import open_partition_log
from goqueue.state.log import StateLog
from goqueue.state.logs import CoordinatedPartition
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.shared_files import SharedFiles
from goqueue.storage.snapshot import RECORDS_BETWEEN
from goqueue.storage.snapshot_kinds import SnapshotKind
from support.clocks import ManualClock
from support.disks import HastyDisk

KIND = SnapshotKind.GROUPS
_folders = count()


class Store:
    """A state log in a folder, opened and left in every way there is."""

    def __init__(self, folder):
        self.folder = folder / str(next(_folders))
        self.disk, self.clock = HastyDisk(), ManualClock()
        self.pool = ThreadPoolExecutor(1)
        self.open()

    def open(self):
        stored = open_partition_log(
            self.folder,
            LogConfig(fsync=Fsync.NEVER, segment_bytes=1024),
            shared=SharedFiles(self.disk),
            clock=self.clock,
        )
        self.partition = Partition(
            TopicPartition("__state", 0), stored, clock=self.clock, executor=self.pool
        )
        self.log = StateLog(CoordinatedPartition(self.partition), KIND, self.disk, self.clock)

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
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
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
