"""The clock of a shard goes on with every leader, whatever the clocks of their machines say."""

from __future__ import annotations

import asyncio

from hypothesis import given, strategies as st

from goqueue.model.internal_topics import QUEUE_STATE
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.opening import opened
from goqueue.partitions.replica import Following
from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
from goqueue.state.clock import ShardClock, StateClock
from goqueue.state.log import StateLog
from goqueue.storage.config import LogConfig
from goqueue.storage.snapshot_kinds import SnapshotKind
from support.clocks import ManualClock
from support.disks import HastyDisk
from support.memory_replica import MemoryReplica

TEN_MINUTES_MS = 600_000


class Node:
    """A replica of a shard on a machine with a clock of its own."""

    def __init__(self, skew_ms: int) -> None:
        self.clock = ManualClock()
        self.clock.jump(skew_ms)
        log = MemoryReplica(LogConfig())
        self.partition = ReplicatedPartition(
            TopicPartition(QUEUE_STATE, 0),
            opened(log, self.clock),
            clock=self.clock,
            role=Following(None, 0),
        )
        self.time = ShardClock(StateClock(self.clock).now_ms)
        self.log = StateLog(
            self.partition, SnapshotKind.GROUPS, HastyDisk(), self.clock, time=self.time
        )

    async def lead(self, epoch: int) -> None:
        assert await self.partition.begin(epoch)
        for _ in self.log.slices():
            pass
        self.log.go_on(epoch)

    def copy_from(self, leader: Node, *, is_current: bool = True) -> None:
        self.partition.follow(1, leader.partition.leader_epoch)
        self.partition.is_current = is_current
        while (found := leader.partition.read_replica(self.partition.log_end, 1 << 20)) is not None:
            self.partition.append_replica(bytes(found.load().data))


def _pass(ms: int, *nodes: Node) -> None:
    for node in nodes:
        node.clock.advance(ms)


def test_a_lease_keeps_its_length_on_a_node_whose_clock_is_ten_minutes_off() -> None:
    for skew_ms in (-TEN_MINUTES_MS, TEN_MINUTES_MS):
        first, second = Node(0), Node(skew_ms)

        async def scenario(first: Node = first, second: Node = second) -> None:
            await first.lead(1)
            lease_until_ms = first.log.now_ms() + 30_000
            first.log.append([(b"lease", b"%d" % lease_until_ms)])
            second.copy_from(first)
            _pass(20_000, first, second)
            await second.lead(2)
            assert lease_until_ms - second.log.now_ms() == 10_000

        asyncio.run(scenario())


def test_the_clock_goes_on_when_it_comes_back_to_its_first_node() -> None:
    async def scenario() -> None:
        first, second = Node(0), Node(TEN_MINUTES_MS)
        await first.lead(1)
        began_ms = first.log.now_ms()
        first.log.append([(b"k", b"1")])
        second.copy_from(first)
        _pass(1000, first, second)
        await second.lead(2)
        second.log.append([(b"k", b"2")])
        first.copy_from(second)
        _pass(1000, first, second)
        await first.lead(3)
        assert first.log.now_ms() == began_ms + 2000

    asyncio.run(scenario())


def test_what_is_copied_late_says_nothing_of_the_time() -> None:
    """A node that was away does not take the newest stamp for the time when it comes back."""

    async def scenario() -> None:
        first, second = Node(0), Node(0)
        await first.lead(1)
        first.log.append([(b"k", b"1")])
        _pass(3_600_000, first, second)
        second.copy_from(first, is_current=False)
        await second.lead(2)
        assert second.log.now_ms() == first.log.now_ms()

    asyncio.run(scenario())


def test_a_node_that_has_heard_nothing_never_goes_back_behind_the_log() -> None:
    async def scenario() -> None:
        first, second = Node(TEN_MINUTES_MS), Node(0)
        await first.lead(1)
        first.log.append([(b"k", b"1")])
        second.copy_from(first, is_current=False)
        await second.lead(2)
        assert second.log.now_ms() == first.log.now_ms()

    asyncio.run(scenario())


@given(
    st.lists(st.integers(-TEN_MINUTES_MS, TEN_MINUTES_MS), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60_000)), max_size=12),
)
def test_the_clock_of_a_shard_is_one_clock(skews: list[int], moves: list[tuple[int, int]]) -> None:
    """Against the simplest twin: a clock on the wall of the first leader."""

    async def scenario() -> None:
        nodes = [Node(each) for each in skews]
        leader, epoch, passed = nodes[0], 1, 0
        await leader.lead(epoch)
        began_ms = leader.log.now_ms()
        for who, ms in moves:
            leader.log.append([(b"k", b"v")])
            for other in nodes:
                if other is not leader:
                    other.copy_from(leader)
            _pass(ms, *nodes)
            passed += ms
            leader, epoch = nodes[who % len(nodes)], epoch + 1
            await leader.lead(epoch)
            assert abs(leader.log.now_ms() - began_ms - passed) <= len(moves)

    asyncio.run(scenario())
