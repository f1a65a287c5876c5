"""Markers of a transaction coordinator that another has followed: they come too late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import FencedCoordinatorError
from goqueue.partitions.isolation import PartitionTransactions
from goqueue.partitions.log_state import LogState
from goqueue.partitions.markers import Marker
from goqueue.partitions.partition import Isolation
from goqueue.records.batch import TRANSACTIONAL
from unit.replication.shelves import MemoryShelf, append

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition

PRODUCER = 7


@pytest.fixture
def shelf(folder: Path) -> Iterator[MemoryShelf]:
    made = MemoryShelf(folder)
    yield made
    made.pool.shutdown()


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def _write(partition: ReplicatedPartition, sequence: int) -> None:
    append(
        partition,
        b"inside",
        attributes=TRANSACTIONAL,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=sequence,
    )


def test_a_late_marker_of_an_old_coordinator_does_not_end_the_next_transaction(
    shelf: MemoryShelf,
) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        _write(partition, 0)
        assert partition.append_marker(Marker.COMMIT, PRODUCER, 0, 6) is not None
        _write(partition, 1)
        with pytest.raises(FencedCoordinatorError, match="epoch 5, and epoch 6 has taken over"):
            partition.append_marker(Marker.COMMIT, PRODUCER, 0, 5)
        assert partition.transactions.first_of(PRODUCER) == 2

    _run(scenario)


def test_a_coordinator_that_finds_nothing_open_fences_the_one_before_all_the_same(
    shelf: MemoryShelf,
) -> None:
    """The earlier one may have sent its marker twice, and the second is still on its way."""

    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        _write(partition, 0)
        assert partition.append_marker(Marker.COMMIT, PRODUCER, 0, 5) is not None
        assert partition.append_marker(Marker.COMMIT, PRODUCER, 0, 5) is None, "it is there"
        assert partition.append_marker(Marker.COMMIT, PRODUCER, 0, 6) is not None
        assert partition.append_marker(Marker.COMMIT, PRODUCER, 0, 6) is None, "it is there"
        _write(partition, 1)
        with pytest.raises(FencedCoordinatorError):
            partition.append_marker(Marker.COMMIT, PRODUCER, 0, 5)

    _run(scenario)


def test_a_partition_that_a_transaction_never_wrote_to_fences_too(shelf: MemoryShelf) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        assert partition.append_marker(Marker.ABORT, PRODUCER, 0, 6) is not None
        _write(partition, 0)
        with pytest.raises(FencedCoordinatorError):
            partition.append_marker(Marker.ABORT, PRODUCER, 0, 5)

    _run(scenario)


def test_the_next_leader_of_a_partition_fences_the_old_coordinator_too(
    shelf: MemoryShelf, folder: Path
) -> None:
    async def scenario() -> None:
        leader = shelf.open()
        assert await leader.begin(1)
        _write(leader, 0)
        assert leader.append_marker(Marker.COMMIT, PRODUCER, 0, 6) is not None
        region = leader.read_replica(0, 1 << 20)
        assert region is not None
        other = MemoryShelf(folder, pool=shelf.pool)
        follower = other.open()
        follower.append_replica(bytes(region.load().data))
        assert await follower.begin(2)
        _write(follower, 1)
        with pytest.raises(FencedCoordinatorError):
            follower.append_marker(Marker.COMMIT, PRODUCER, 0, 5)

    _run(scenario)


def test_the_epoch_of_a_coordinator_is_in_the_snapshot_of_a_partition(shelf: MemoryShelf) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        _write(partition, 0)
        partition.append_marker(Marker.COMMIT, PRODUCER, 0, 6)
        loaded = LogState()
        loaded.load(partition._state.dump(), 0)
        assert loaded.sequences.coordinator_epoch_of(PRODUCER) == 6
        assert loaded.sequences.last_sequence(PRODUCER, 0) == 0

    _run(scenario)


def test_a_transaction_whose_marker_may_be_cut_off_stays_undecided_after_a_restart(
    shelf: MemoryShelf,
) -> None:
    """The snapshot knows the marker; readers may not go by it before it is committed."""

    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        _write(partition, 0)
        partition.append_marker(Marker.COMMIT, PRODUCER, 0, 6)
        partition.advance(1)
        assert partition.readable_to(Isolation.READ_COMMITTED) == 0
        loaded = LogState()
        loaded.load(partition._state.dump(), 0)
        assert loaded.transactions.last_stable(1) == 0, "the record, without its marker"
        assert loaded.transactions.last_stable(2) == 2
        assert loaded.transactions.dump_ended() == PartitionTransactions().dump_ended() == b""

    _run(scenario)
