"""Snapshots of coordinators in replicated logs: whoever leads next has them, or what they hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import StorageError
from goqueue.state.change_log import ChangeLog
from goqueue.storage.snapshot_kinds import SnapshotKind
from unit.replication.shelves import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition

CHANGES = 60
KIND = SnapshotKind.QUEUES


@pytest.fixture
def shelf(folder: Path) -> Iterator[Shelf]:
    made = Shelf(folder)
    yield made
    made.pool.shutdown()


def log_of(shelf: Shelf, partition: ReplicatedPartition) -> ChangeLog:
    return ChangeLog(partition, KIND, shelf.disk, shelf.clock)


def numbers(log: ChangeLog) -> list[int]:
    """What a replay knows: changes add a number each, a snapshot has all of them."""
    found: list[int] = []
    for key, value in (entry for entries in log.slices() for entry in entries):
        if key == b"all":
            found = [int(each) for each in (value or b"").split()]
        elif key == b"n":
            found.append(int(value or b""))
    return found


def everything() -> list[tuple[bytes, bytes]]:
    return [(b"all", b" ".join(b"%d" % each for each in range(CHANGES)))]


def fill(partition: ReplicatedPartition, log: ChangeLog) -> None:
    for number in range(CHANGES):
        log.append([(b"n", b"%d" % number)])
    partition.advance(partition.log_end)


async def turn() -> None:
    """Let everything happen that waits for nobody."""
    for _ in range(20):
        await asyncio.sleep(0.005)


async def cut_and_lead(partition: ReplicatedPartition, to: int) -> None:
    """Another node was elected that has the log up to an offset; then this one leads again."""
    partition.follow(2, 2)
    await partition.truncate(to)
    assert await partition.begin(3)


def test_the_log_is_not_trimmed_behind_a_snapshot_that_the_other_replicas_lack(
    shelf: Shelf,
) -> None:
    """The trap: the snapshot is cut off, and the changes that it stood for are gone, too."""

    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        log = log_of(shelf, partition)
        fill(partition, log)
        committed = partition.log_end
        saving = asyncio.ensure_future(log.save_snapshot(everything(), shelf.pool))
        await turn()
        # Half of the snapshot is on the other replicas: where it begins, and not where it ends.
        partition.advance(committed + 1)
        await turn()
        assert not saving.done()
        assert partition.log_start == 0
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        await cut_and_lead(partition, committed + 1)
        assert numbers(log_of(shelf, partition)) == list(range(CHANGES))
        await shelf.leave(partition)

    asyncio.run(scenario())


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_snapshot_that_is_cut_off_is_given_up_whatever_is_written_in_its_place(
    shelf: Shelf, *, is_synced: bool
) -> None:
    """The trap: it waits for offsets that another leader fills, and then counts as complete.

    Until they were filled, it was waited for: its shard did not close, and never opened again.
    """

    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        log = log_of(shelf, partition)
        fill(partition, log)
        committed = partition.log_end
        synced = asyncio.get_running_loop().create_future()
        if not is_synced:
            log.others_synced = lambda: synced
        saving = asyncio.ensure_future(log.save_snapshot(everything(), shelf.pool))
        await turn()
        partition.follow(2, 2)
        await partition.truncate(committed)
        assert await partition.begin(3)
        synced.set_result(None)
        other = log_of(shelf, partition)
        for number in range(10):
            other.append([(b"n", b"%d" % (CHANGES + number))])
        partition.advance(partition.log_end)
        async with asyncio.timeout(30):
            with pytest.raises(StorageError):
                await saving
        assert numbers(log_of(shelf, partition)) == list(range(CHANGES + 10))
        await shelf.leave(partition)

    asyncio.run(scenario())


def test_whoever_waits_for_the_disk_is_told_when_the_log_is_cut(shelf: Shelf) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        fill(partition, log_of(shelf, partition))
        partition.follow(2, 2)
        synced = asyncio.ensure_future(partition.synced(partition.log_end + 5))
        await turn()
        await partition.truncate(3)
        async with asyncio.timeout(30):
            with pytest.raises(StorageError):
                await synced
        await shelf.leave(partition)

    asyncio.run(scenario())


def test_a_replica_without_the_files_of_the_leader_has_everything_behind_a_trimmed_log(
    shelf: Shelf,
) -> None:
    """The trap: a snapshot in a file of the leader, behind a log that is trimmed for all."""

    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        log = log_of(shelf, partition)
        fill(partition, log)
        saving = asyncio.ensure_future(log.save_snapshot(everything(), shelf.pool))
        while not saving.done():
            partition.advance(partition.log_end)
            await asyncio.sleep(0.005)
        assert await saving
        assert partition.log_start > 0
        for path in shelf.folder.glob(f"snapshot-{KIND}-*"):
            path.unlink()  # followers get the log, and nothing beside it
        assert numbers(log_of(shelf, partition)) == list(range(CHANGES))
        await shelf.leave(partition)

    asyncio.run(scenario())


def test_a_snapshot_whose_leader_is_replaced_while_it_is_synced_is_given_up(shelf: Shelf) -> None:
    """Nobody tells a node that follows what becomes of its last appends: waiting has no end."""

    async def scenario() -> None:
        partition = shelf.open()
        assert await partition.begin(1)
        log = log_of(shelf, partition)
        fill(partition, log)

        def replace_leader() -> None:
            asyncio.get_running_loop().call_soon(partition.follow, 2, 2)

        partition.on_appended = replace_leader
        with pytest.raises(StorageError):
            async with asyncio.timeout(30):
                await log.save_snapshot(everything(), shelf.pool)
        await shelf.leave(partition)

    asyncio.run(scenario())
