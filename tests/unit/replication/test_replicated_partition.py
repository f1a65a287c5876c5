"""A partition in either role: what its leader commits, and what its follower copies and cuts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import (
    DiskError,
    InvariantError,
    LeadershipLostError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderError,
    OffsetGapError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    StorageError,
)
from goqueue.partitions.partition import Isolation
from goqueue.partitions.replica import Leading
from goqueue.partitions.replication.replicated_partition import Standing
from goqueue.partitions.replication.tail import TailRegion
from goqueue.partitions.waiting import Waiter
from goqueue.records import peek
from goqueue.records.batch import walk
from goqueue.storage.config import Fsync
from unit.replication.shelves import MemoryShelf, Shelf, append, stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition

UNCOMMITTED = Isolation.READ_UNCOMMITTED


@pytest.fixture(params=[Shelf, MemoryShelf], ids=["disk", "memory"])
def make(request: pytest.FixtureRequest, memory_path: Path) -> Iterator[Callable[..., Shelf]]:
    made: list[Shelf] = []

    def one(fsync: Fsync = Fsync.NEVER) -> Shelf:
        made.append(request.param(memory_path, fsync))
        return made[-1]

    yield one
    for each in made:
        each.pool.shutdown()


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


async def _led(shelf: Shelf, epoch: int = 1) -> ReplicatedPartition:
    partition = shelf.open()
    assert await partition.begin(epoch)
    return partition


def _copied(leader: ReplicatedPartition, follower: ReplicatedPartition) -> None:
    while (region := leader.read_replica(follower.log_end, 1 << 20)) is not None:
        follower.append_replica(bytes(region.load().data))


def test_what_is_appended_is_committed_when_the_watermark_reaches_it(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        leader = await _led(make())
        waiter = Waiter(1)
        leader.waiters.add(waiter)
        placed = append(leader, b"a", b"b")
        published, written = leader.acknowledged(2), leader.committed(placed.end_offset)
        assert (leader.high_watermark, leader.log_end, leader.position) == (0, 2, 2)
        assert leader.find(0, 100, UNCOMMITTED) is None
        leader.advance(1)
        await asyncio.sleep(0)
        assert waiter._future.done()
        leader.advance(2)
        await asyncio.gather(published, written)
        found = leader.find(0, 100, UNCOMMITTED)
        assert found is not None
        assert found.load().next_offset == 2
        leader.check_invariants()

    _run(scenario)


def test_a_leader_that_is_replaced_tells_everybody_who_waits(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader = await _led(make())
        append(leader, b"a")
        waits = [leader.acknowledged(1), leader.committed(1)]
        leader.follow(2, 2)
        for each in waits:
            with pytest.raises(LeadershipLostError, match="node 2 leads"):
                await each
        assert issubclass(LeadershipLostError, StorageError)
        with pytest.raises(NotLeaderError):
            append(leader, b"b")
        with pytest.raises(NotLeaderError):
            leader.read_replica(0, 10)

    _run(scenario)


def test_too_few_replicas_are_told_to_publishers_and_not_to_the_broker(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        leader = await _led(make())
        append(leader, b"a")
        published, written = leader.acknowledged(1), leader.committed(1)
        leader.fail_waiting(NotEnoughReplicasAfterAppendError("1 of 2 replicas is in sync"))
        with pytest.raises(NotEnoughReplicasAfterAppendError):
            await published
        assert not written.done()  # type: ignore[attr-defined]  # a future
        leader.advance(1)
        await written

    _run(scenario)


def test_an_isolated_leader_takes_nothing(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader = await _led(make())
        leader.isolated = NotEnoughReplicasAfterAppendError("no other node was heard for 3 s")
        with pytest.raises(NotEnoughReplicasAfterAppendError):
            append(leader, b"a")
        assert leader.log_end == 0
        leader.isolated = None
        append(leader, b"a")
        assert leader.log_end == 1

    _run(scenario)


@pytest.mark.parametrize("fsync", [Fsync.ALWAYS, Fsync.NEVER])
def test_a_replica_says_of_itself_what_its_fsync_promises(
    make: Callable[..., Shelf], fsync: Fsync
) -> None:
    async def scenario() -> None:
        leader = await _led(make(fsync))
        told: list[int] = []
        leader.on_persisted = lambda: told.append(leader.position)
        append(leader, b"a")
        assert leader.position == (0 if fsync is Fsync.ALWAYS else 1)
        await leader.persisted(1)
        assert leader.position == 1
        assert told == ([1] if fsync is Fsync.ALWAYS else [])
        assert leader.high_watermark == 0  # which is not for this node to say

    _run(scenario)


def test_a_follower_has_the_leaders_bytes_and_its_producers(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader, shelf = await _led(make()), make()
        follower = shelf.open()
        follower.follow(1, 1)
        told: list[int] = []
        leader.on_appended = lambda: told.append(leader.log_end)
        append(leader, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        append(leader, b"b", b"c", producer_id=7, producer_epoch=0, base_sequence=1)
        assert told == [1, 3]
        _copied(leader, follower)
        assert stored(follower) == stored(leader)
        assert follower.epochs == leader.epochs
        follower.advance(99)
        assert follower.high_watermark == 3
        assert await follower.begin(2)
        again = append(follower, b"b", b"c", producer_id=7, producer_epoch=0, base_sequence=1)
        assert again == (1, 3, True)
        assert append(follower, b"d").first_offset == 3
        assert follower.epochs.starts == ((1, 0), (2, 3))
        follower.check_invariants()

    _run(scenario)


def test_a_follower_forgets_of_a_producer_what_its_leader_never_knew(
    make: Callable[..., Shelf],
) -> None:
    """A leader that starts later lets a producer begin anew; the old numbers are not its own."""

    async def scenario() -> None:
        first, second = await _led(make()), make().open()
        append(first, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        await second.restart_at(1)
        assert await second.begin(2)
        append(second, b"b", producer_id=7, producer_epoch=0, base_sequence=0)
        first.follow(2, 2)
        await first.copy(stored(second))
        first.check_invariants()
        assert await first.begin(3)
        again = append(first, b"b", producer_id=7, producer_epoch=0, base_sequence=0)
        assert again == (1, 2, True)

    _run(scenario)


def test_a_duplicate_is_acknowledged_when_the_first_time_is_committed(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        leader = await _led(make())
        append(leader, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        append(leader, b"later")
        later = leader.acknowledged(2)
        again = append(leader, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        assert again.duplicate
        assert not leader.is_committed(again.end_offset)
        first = leader.acknowledged(again.end_offset)
        leader.advance(1)
        await first
        assert not later.done()  # type: ignore[attr-defined]  # a future

    _run(scenario)


def test_a_gap_after_a_batch_that_a_new_leader_refused_is_no_mistake_of_the_producer(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        shelf = make()
        leader = await _led(shelf)
        append(leader, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        with pytest.raises(NotLeaderError):
            append(leader, b"c", producer_id=7, producer_epoch=0, base_sequence=2)
        append(leader, b"b", producer_id=7, producer_epoch=0, base_sequence=1)
        shelf.clock.advance(60_000)
        with pytest.raises(OutOfOrderSequenceError):
            append(leader, b"d", producer_id=7, producer_epoch=0, base_sequence=4)
        leader.admitted()
        with pytest.raises(NotLeaderError):
            append(leader, b"d", producer_id=7, producer_epoch=0, base_sequence=4)
        leader.follow(2, 9)
        with pytest.raises(NotLeaderError):
            append(leader, b"d", producer_id=7, producer_epoch=0, base_sequence=4)

    _run(scenario)


def test_a_gap_after_a_batch_that_a_failed_log_refused_is_no_mistake_of_the_producer(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        shelf = make()
        leader = await _led(shelf)
        append(leader, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        shelf.clock.advance(60_000)
        shelf.fail(leader)
        with pytest.raises(NotLeaderError):
            append(leader, b"c", producer_id=7, producer_epoch=0, base_sequence=2)
        await leader.recover()
        with pytest.raises(NotLeaderError):
            append(leader, b"c", producer_id=7, producer_epoch=0, base_sequence=2)
        leader.isolated = NotEnoughReplicasAfterAppendError("alone")
        with pytest.raises(NotEnoughReplicasAfterAppendError):
            append(leader, b"c", producer_id=7, producer_epoch=0, base_sequence=2)

    _run(scenario)


def test_the_second_batch_of_a_new_producer_waits_for_the_first_that_was_refused(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        shelf = make()
        leader = await _led(shelf)
        with pytest.raises(NotLeaderError):
            append(leader, b"b", producer_id=7, producer_epoch=0, base_sequence=1)
        append(leader, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        assert append(leader, b"b", producer_id=7, producer_epoch=0, base_sequence=1) == (
            1,
            2,
            False,
        )
        shelf.clock.advance(60_000)
        append(leader, b"x", producer_id=8, producer_epoch=0, base_sequence=5)

    _run(scenario)


def test_a_cut_follower_knows_what_is_left_and_nothing_more(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        shelf = make()
        follower = await _led(shelf)
        cuts: list[int] = []
        follower.on_cut = lambda partition: cuts.append(partition.log_end)
        append(follower, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        await follower.checkpoint()
        append(follower, b"b", producer_id=7, producer_epoch=0, base_sequence=1)
        append(follower, b"c", producer_id=8, producer_epoch=0, base_sequence=0)
        await follower.checkpoint()
        with pytest.raises(InvariantError):
            await follower.truncate(1)
        follower.follow(2, 2)
        follower.advance(1)
        assert await follower.truncate(1) == 1
        assert cuts == [1]
        assert follower.sequences.epoch_of(8) == -1
        follower.check_invariants()
        assert await follower.begin(3)
        assert not append(follower, b"b2", producer_id=7, producer_epoch=0, base_sequence=1)[2]
        await shelf.leave(follower)
        assert stored(shelf.open()) == stored(follower)

    _run(scenario)


def test_a_follower_that_is_too_far_behind_starts_where_the_leader_does(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        leader, shelf = await _led(make()), make()
        follower = shelf.open()
        for number in range(20):
            append(leader, b"%d" % number, producer_id=9, producer_epoch=0, base_sequence=number)
        follower.append_replica(bytes(leader.read_replica(0, 1).load().data))
        leader.advance(20)
        await leader.delete_before(15)
        assert leader.log_start == 15
        await follower.restart_at(15)
        assert (follower.log_start, follower.high_watermark, follower.log_end) == (15, 15, 15)
        assert follower.epochs.starts == ()
        _copied(leader, follower)
        follower.check_invariants()
        await shelf.leave(follower)
        again = shelf.open(high_watermark=20)
        assert (again.log_start, again.log_end, again.high_watermark) == (15, 20, 20)
        assert not again.is_unclean

    _run(scenario)


def test_a_leader_that_starts_within_a_batch_is_followed(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader, shelf = await _led(make()), make()
        append(leader, b"a", b"b", b"c")
        append(leader, b"d")
        leader.advance(4)
        assert await leader.delete_before(2) == 2
        follower = shelf.open()
        await follower.restart_at(2)
        await follower.copy(bytes(leader.read_replica(2, 1 << 20).load().data))
        follower.follow_start(2)
        assert follower._moving_start is not None
        await follower._moving_start
        assert (follower.log_start, follower.log_end) == (2, 4)
        assert stored(follower) == stored(leader)
        assert follower.epochs == leader.epochs
        follower.check_invariants()
        await shelf.leave(follower)
        assert stored(shelf.open()) == stored(leader)

    _run(scenario)


def test_a_follower_follows_the_leaders_start(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader, follower = await _led(make()), make().open()
        for number in range(20):
            append(leader, b"%d" % number)
        _copied(leader, follower)
        follower.follow_start(7)
        follower.follow_start(12)
        assert follower._moving_start is not None
        await follower._moving_start
        assert (follower.log_start, follower.high_watermark) == (12, 12)
        follower.follow_start(3)
        assert follower._moving_start is None
        follower.check_invariants()

    _run(scenario)


def test_nothing_past_the_watermark_is_removed(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader = await _led(make())
        for number in range(20):
            append(leader, b"%d" % number)
        leader.advance(5)
        assert await leader.delete_before(20) == 5
        await leader.expire(retention_ms=0, retention_bytes=0)
        assert leader.log_start <= 5
        leader.follow(2, 2)
        assert await leader.expire(retention_ms=0, retention_bytes=0) == 0
        with pytest.raises(NotLeaderError):
            await leader.delete_before(1)

    _run(scenario)


def test_batches_that_do_not_continue_the_log_are_refused(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader, follower = await _led(make()), make().open()
        append(leader, b"a", b"b")
        _copied(leader, follower)
        follower.append_replica(stored(leader))  # known already
        assert follower.log_end == 2
        other = await _led(make())
        append(other, b"a")
        append(other, b"b", b"c")
        with pytest.raises(OffsetGapError):
            follower.append_replica(bytes(other.read_replica(1, 1).load().data))
        with pytest.raises(InvariantError):
            leader.append_replica(stored(other))
        assert stored(follower) == stored(leader)

    _run(scenario)


def test_a_leader_that_wrote_nothing_leaves_no_epoch(make: Callable[..., Shelf]) -> None:
    """The next leader has batches of an earlier epoch that this one lacks."""

    async def scenario() -> None:
        shelf, other = make(), await _led(make())
        append(other, b"a")
        partition = shelf.open()
        partition.append_replica(stored(other))
        append(other, b"b")
        assert await partition.begin(5)
        assert partition.epochs.latest == 5
        partition.follow(1, 6)
        await partition.end()
        assert partition.epochs.starts == ((1, 0),)
        await partition.copy(stored(other))
        assert stored(partition) == stored(other)
        await shelf.leave(partition)
        assert shelf.open().epochs.starts == ((1, 0),)

    _run(scenario)


def test_a_role_that_comes_while_the_epoch_is_noted_wins(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        partition = make().open()
        append(await _led(make()), b"a")
        first = asyncio.create_task(partition.begin(3))
        await asyncio.sleep(0)
        partition.follow(2, 4)
        assert not await first
        assert not partition.is_leading
        assert await partition.begin(5)
        assert partition.role == Leading(5)

    _run(scenario)


def test_a_failed_log_is_cut_to_what_is_on_the_disk_when_others_have_the_rest(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        shelf = make()
        leader = await _led(shelf)
        append(leader, b"a")
        await leader.synced(1)
        append(leader, b"b")
        leader.advance(2)
        shelf.fail(leader)

        async def give_up() -> Standing:
            leader.follow(None, 2)
            return Standing.GIVEN_UP

        leader.on_failed = give_up
        await leader.recover()
        assert leader.failure is None
        assert (leader.log_end, leader.high_watermark) == (1, 1)
        leader.check_invariants()
        again = shelf.open(high_watermark=2)
        assert again.is_unclean

    _run(scenario)


def test_a_log_that_was_given_up_is_cut_however_many_times_that_is_tried(
    make: Callable[..., Shelf],
) -> None:
    async def scenario() -> None:
        shelf = make()
        leader = await _led(shelf)
        append(leader, b"a")
        await leader.synced(1)
        append(leader, b"b")
        leader.advance(2)
        shelf.fail(leader)
        asked = []

        async def give_up() -> Standing:
            asked.append(leader.is_leading)
            if leader.is_leading:
                leader.follow(None, 2)
                return Standing.GIVEN_UP
            return Standing.ALONE

        discard, leader.on_failed = leader._replica.discard_unsynced, give_up

        async def refuse(rebuild: object) -> None:
            raise DiskError("not yet")

        leader._replica.discard_unsynced = refuse  # type: ignore[method-assign]
        with pytest.raises(DiskError):
            await leader.recover()
        leader._replica.discard_unsynced = discard  # type: ignore[method-assign]
        await leader.recover()
        assert asked == [True]
        assert (leader.log_end, leader.high_watermark) == (1, 1)
        leader.check_invariants()

    _run(scenario)


def test_the_only_replica_keeps_what_it_has(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        shelf = make()
        leader = await _led(shelf)
        append(leader, b"a")
        shelf.fail(leader)

        async def is_alone() -> Standing:
            return Standing.ALONE

        leader.on_failed = is_alone
        await leader.recover()
        assert leader.failure is None
        assert leader.log_end == 1
        assert leader.is_leading

    _run(scenario)


def test_deleted_records_are_not_read_from_memory(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader = await _led(make())
        for number in range(5):
            append(leader, b"%d" % number, b"x")
        leader.advance(10)
        assert await leader.delete_before(6) == 6
        with pytest.raises(OffsetOutOfRangeError):
            leader.find(4, 1 << 20, UNCOMMITTED)
        assert leader.find(6, 1 << 20, UNCOMMITTED) is not None

    _run(scenario)


def test_the_newest_batches_come_from_memory(make: Callable[..., Shelf]) -> None:
    async def scenario() -> None:
        leader = await _led(make())
        for number in range(5):
            append(leader, b"%d" % number, b"x")
        leader.advance(8)
        for offset in range(10):
            found = leader.read_replica(offset, 1 << 20)
            assert isinstance(found, TailRegion)
            expected = leader._log.read(offset, 1 << 20)
            assert expected is not None
            assert found.load() == expected.load()
            assert b"".join(found.parts) == found.load().data
            assert found.first_offset == offset // 2 * 2
        seen = leader.find(2, 1 << 20, UNCOMMITTED)
        assert isinstance(seen, TailRegion)
        assert seen.load().next_offset == 8
        assert [peek(seen.load().data, at).base_offset for at, _ in walk(seen.load().data)] == [
            2,
            4,
            6,
        ]
        assert leader.read_replica(10, 100) is None
        for offset in (-1, 11):
            with pytest.raises(OffsetOutOfRangeError):
                leader.read_replica(offset, 100)
        with pytest.raises(OffsetOutOfRangeError):
            leader.find(11, 100, UNCOMMITTED)
        leader.follow(2, 2)
        assert leader._tail.size_bytes == 0

    _run(scenario)
