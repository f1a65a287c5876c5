"""Two replicas through appends, copies, changes of leader, cuts, checkpoints and restarts.

What they hold in the end is compared byte for byte, and what they know of it with what a replay of
the whole log says.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.errors import OffsetOutOfRangeError
from goqueue.partitions.log_state import LogState
from goqueue.records.batch import walk
from support.effort import examples
from unit.replication.shelves import MemoryShelf, Shelf, append, stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("produce"), st.integers(0, 2)),
        st.tuples(st.just("copy"), st.integers(1, 600)),
        st.tuples(st.just("swap"), st.integers(0, 1)),
        st.tuples(st.just("restart"), st.integers(0, 1)),
        st.tuples(st.just("checkpoint"), st.integers(0, 1)),
        st.tuples(st.just("trim"), st.integers(0, 40)),
    ),
    max_size=40,
)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


class Pair:
    """A leader and a follower."""

    def __init__(self, kind: type[Shelf], folder: Path, pool: ThreadPoolExecutor) -> None:
        self.shelves = [kind(folder, pool=pool), kind(folder, pool=pool)]
        self.nodes: list[ReplicatedPartition] = []
        self.leading = 0
        self.epoch = 0

    @property
    def leader(self) -> ReplicatedPartition:
        return self.nodes[self.leading]

    @property
    def follower(self) -> ReplicatedPartition:
        return self.nodes[1 - self.leading]

    async def start(self) -> None:
        self.nodes = [shelf.open() for shelf in self.shelves]
        await self.elect()

    async def elect(self) -> None:
        self.epoch += 1
        self.follower.follow(self.leading, self.epoch)
        await self.follower.end()
        assert await self.leader.begin(self.epoch)

    async def append(self, count: int) -> None:
        append(self.leader, *(b"%d" % number for number in range(count)))

    async def produce(self, producer: int) -> None:
        known = dict(self.leader.sequences).get(producer)
        sequence = 0 if known is None else known.last_sequence + 1
        append(self.leader, b"p", producer_id=producer, producer_epoch=0, base_sequence=sequence)

    async def swap(self, _: int) -> None:
        """The other leads, whatever it lacks; what it does not have is cut here."""
        self.leading = 1 - self.leading
        await self.elect()

    async def restart(self, number: int) -> None:
        await self.shelves[number].leave(self.nodes[number])
        self.nodes[number] = self.shelves[number].open(self.epoch)
        self.nodes[number].check_invariants()
        assert not self.nodes[number].is_unclean
        await self.elect()

    async def checkpoint(self, number: int) -> None:
        await self.nodes[number].checkpoint()

    async def trim(self, share: int) -> None:
        leader = self.leader
        leader.advance(leader.log_end)
        await leader.delete_before(
            leader.log_start + (leader.log_end - leader.log_start) * share // 100
        )

    async def copy(self, max_bytes: int) -> bool:
        """One fetch as a follower makes it; false when there is nothing more."""
        leader, follower = self.leader, self.follower
        last_epoch = follower.epochs.epoch_at(follower.log_end - 1)
        if follower.log_start < follower.log_end and last_epoch >= 0:
            theirs = leader.epochs.end_of(last_epoch, leader.log_end)
            if theirs is None:
                await follower.truncate(follower.log_start)
                return True
            if theirs.epoch < last_epoch or theirs.start_offset < follower.log_end:
                mine = follower.epochs.end_of(theirs.epoch, follower.log_end)
                to = follower.log_start if mine is None else min(mine[1], theirs.start_offset)
                if to < leader.log_start:
                    await follower.restart_at(leader.log_start)
                else:
                    await follower.truncate(to)
                follower.check_invariants()
                return True
        try:
            region = leader.read_replica(follower.log_end, max_bytes)
        except OffsetOutOfRangeError:
            if follower.log_end > leader.log_end:
                await follower.truncate(leader.log_end)
            else:
                await follower.restart_at(leader.log_start)
            return True
        if region is None:
            return False
        await follower.copy(bytes(region.load().data))
        follower.check_invariants()
        return True

    async def heal(self) -> None:
        for _ in range(1000):
            if not await self.copy(1 << 20):
                break
        follower, leader = self.follower, self.leader
        start = max(leader.log_start, follower.log_start)
        assert follower.log_end == leader.log_end
        assert _from(follower, start) == _from(leader, start)
        for each in self.nodes:
            each.check_invariants()
            if each.log_start == 0:  # otherwise it may know more than what is left
                for snapshot in (each._log.kept(), None):
                    assert _known(LogState.rebuilt(each._log, snapshot, 0)) == _known(each._state)
        if leader.log_start == follower.log_start == 0:
            assert _known(follower._state) == _known(leader._state)
            assert follower.epochs.ending_at(leader.log_end) == leader.epochs.ending_at(
                leader.log_end
            )

    async def close(self) -> None:
        for shelf, node in zip(self.shelves, self.nodes, strict=True):
            await shelf.leave(node)


def _from(partition: ReplicatedPartition, start: int) -> bytes:
    data = stored(partition)
    return b"".join(
        data[at : at + info.size_bytes] for at, info in walk(data) if info.next_offset > start
    )


def _known(state: LogState) -> object:
    """What is known of producers, whenever it was heard."""
    return {producer: (each.epoch, *each.batches) for producer, each in state.sequences}


@pytest.mark.parametrize("kind", [Shelf, MemoryShelf], ids=["disk", "memory"])
@given(steps=STEPS)
@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_replicas_hold_the_same_bytes_whatever_has_happened(
    kind: type[Shelf],
    memory_path: Path,
    pool: ThreadPoolExecutor,
    steps: list[tuple[str, int]],
) -> None:
    async def scenario() -> None:
        pair = Pair(kind, memory_path, pool)
        await pair.start()
        for what, value in steps:
            await getattr(pair, what)(value)
        await pair.heal()
        await pair.close()

    asyncio.run(scenario())
