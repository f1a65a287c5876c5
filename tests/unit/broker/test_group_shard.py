"""Groups on a disk: what is told is stored, what could not be stored has not happened."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from goqueue.broker.log_broker import TOPICS_FOLDER
from goqueue.groups.messages import CommitRequest, JoinRequest, OffsetToCommit, Protocol
from goqueue.groups.settings import GroupSettings
from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.metrics.names import OFFSET_COMMIT_ERRORS, OFFSET_COMMITS
from goqueue.model.errors import CoordinatorUnavailableError, GroupError, MemberIdRequiredError
from goqueue.model.topic_partition import TopicPartition
from goqueue.state import log as state_log
from goqueue.storage.snapshot import RECORDS_BETWEEN
from support.brokers import running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.groups.shard import GroupShard

NO_DELAY = GroupSettings(initial_rebalance_delay_ms=0)


def commit_of(group: str, offset: int, *, partitions: int = 1) -> CommitRequest:
    return CommitRequest(
        group_id=group,
        member_id="",
        generation_or_epoch=-1,
        offsets=tuple(
            OffsetToCommit(topic="t", partition=number, offset=offset)
            for number in range(partitions)
        ),
    )


def join_of(group: str, member_id: str = "") -> JoinRequest:
    return JoinRequest(
        group_id=group,
        member_id=member_id,
        client_id="c",
        client_host="h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(Protocol("range", b""),),
        require_known_member_id=True,
    )


def committed(broker: Broker, group: str) -> dict[int, int]:
    found = broker.groups.coordinator(group).fetch_offsets(group)
    return {part[1]: each.offset for part, each in found.items() if each is not None}  # type: ignore[union-attr]  # no transactions here


def shard_of(broker: Broker, group: str) -> GroupShard:
    return broker.groups._shard_of(group)


def snapshots_in(folder: Path) -> list[Path]:
    return list(folder.rglob("snapshot-*.bin"))


async def saved(broker: Broker, group: str) -> None:
    """A snapshot that is due is kept beside other work; wait for it."""
    saving = shard_of(broker, group).state.save_if_due()
    if saving is not None:
        await saving


async def join(broker: Broker, group: str) -> asyncio.Task[Any]:
    """A member that knows its id and waits for the generation to begin."""
    with pytest.raises(MemberIdRequiredError) as told:
        await broker.groups.join(join_of(group))
    task = asyncio.ensure_future(broker.groups.join(join_of(group, told.value.member_id)))
    await asyncio.sleep(0)
    return task


# --- A disk that refuses -------------------------------------------------------------------------


def test_a_commit_that_was_not_stored_is_refused_and_has_not_happened(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk, groups=NO_DELAY, clean=False) as broker:
            await broker.groups.commit(commit_of("g", 1))
            disk.fail_next("write", errno.EIO, ending=".log")
            with pytest.raises(CoordinatorUnavailableError):
                await broker.groups.commit(commit_of("g", 2))
            assert committed(broker, "g") == {0: 1}
            assert shard_of(broker, "g")._waiting == {}

    asyncio.run(scenario())


def test_everyone_who_waits_is_told_when_the_log_refuses(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk, clean=False) as broker:
            waiting = await join(broker, "g")
            assert not waiting.done(), "the group waits for more members"
            disk.fail_next("write", errno.EIO, ending=".log")
            with pytest.raises(CoordinatorUnavailableError):
                await broker.groups.commit(commit_of("other", 1))
            with pytest.raises(CoordinatorUnavailableError):
                await waiting
            assert shard_of(broker, "g")._waiting == {}

    asyncio.run(scenario())


def test_while_the_log_refuses_requests_are_refused_without_reading_it_again(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk, clean=False) as broker:
            await broker.groups.commit(commit_of("g", 1))
            disk.fail_next("write", errno.EIO, ending=".log")
            with pytest.raises(CoordinatorUnavailableError):
                await broker.groups.commit(commit_of("g", 2))
            reads = disk.counts["read"]
            for _ in range(10):
                with pytest.raises(CoordinatorUnavailableError):
                    await broker.groups.commit(commit_of("g", 3))
                shard_of(broker, "g")._on_timer()
            assert disk.counts["read"] == reads
            partition = broker.partitions.partition(TopicPartition(OFFSETS_TOPIC, 0))
            await partition.recover()
            shard_of(broker, "g")._on_timer()
            await broker.groups.commit(commit_of("g", 4))
            assert committed(broker, "g") == {0: 4}

    asyncio.run(scenario())


def test_a_snapshot_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        clock = ManualClock()
        async with running_broker(tmp_path, disk=disk, clock=clock, clean=False) as broker:
            await broker.groups.commit(commit_of("g", 1))
            clock.advance(10 * 60 * 1000)
            fault = disk.fail_next("write", errno.ENOSPC, ending=".tmp", times=100)
            assert shard_of(broker, "g").state.log.snapshot_is_due
            await broker.groups.commit(commit_of("g", 2))
            await saved(broker, "g")
            assert fault.times < 100, "it was tried"
            tried = fault.times
            await broker.groups.commit(commit_of("g", 3))
            await saved(broker, "g")
            assert fault.times == tried, "and is not tried again at once"
            assert committed(broker, "g") == {0: 3}
        async with running_broker(tmp_path) as broker:
            assert committed(broker, "g") == {0: 3}

    asyncio.run(scenario())


def test_an_acknowledged_commit_survives_a_power_cut_where_the_disk_is_waited_for(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        defaults = {"goqueue.fsync": "always"}
        # The catalogue of topics has a disk of its own, and tests of its own.
        disk = FaultyDisk(tmp_path / TOPICS_FOLDER, seed=3)
        options: dict[str, Any] = {"disk": disk, "topic_defaults": defaults, "clean": False}
        async with running_broker(tmp_path, **options) as broker:
            commits = (broker.groups.commit(commit_of("g", number)) for number in range(1, 20))
            await asyncio.gather(*commits)
        disk.crash()
        async with running_broker(tmp_path, disk=disk) as broker:
            assert committed(broker, "g") == {0: 19}

    asyncio.run(scenario())


# --- Replay --------------------------------------------------------------------------------------


@pytest.mark.parametrize("forget_snapshots", [False, True])
def test_a_start_replays_little_after_a_snapshot_and_everything_without(
    tmp_path: Path, forget_snapshots: bool
) -> None:
    async def scenario() -> None:
        options: dict[str, Any] = {"clean": False, "groups": NO_DELAY}
        async with running_broker(tmp_path, **options) as broker:
            for offset in range(11):
                await broker.groups.commit(commit_of("g", offset, partitions=1000))
            await saved(broker, "g")
            await broker.groups.delete("g")
            await broker.groups.commit(commit_of("h", 7, partitions=3))
        snapshots = snapshots_in(tmp_path)
        assert len(snapshots) == 1, f"one for every {RECORDS_BETWEEN} records"
        if forget_snapshots:
            snapshots[0].unlink()
        async with running_broker(tmp_path, **options) as broker:
            assert committed(broker, "g") == {}
            assert committed(broker, "h") == {0: 7, 1: 7, 2: 7}
            replayed = shard_of(broker, "h").state.log.records_since_snapshot
            assert (replayed > RECORDS_BETWEEN) == forget_snapshots

    asyncio.run(scenario())


def test_refused_commits_are_counted_by_groups_that_there_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clean=False) as broker:
            await broker.groups.commit(commit_of("g", 1))
            for group in ("g", "made-up", "made-up-too"):
                request = replace(commit_of(group, 2), member_id="x", generation_or_epoch=7)
                with pytest.raises(GroupError):
                    await broker.groups.commit(request)
            found = broker.metrics.values(OFFSET_COMMIT_ERRORS)
            assert {group: count for (group, _), count in found.items()} == {"g": 1, "": 2}

    asyncio.run(scenario())


# --- Time and going away -------------------------------------------------------------------------


def test_offsets_that_nobody_uses_expire_and_stay_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        settings = GroupSettings(offsets_retention_ms=60_000, offsets_check_interval_ms=1_000)
        options: dict[str, Any] = {"clock": clock, "groups": settings, "clean": False}
        async with running_broker(tmp_path, **options) as broker:
            await broker.groups.commit(commit_of("g", 1))
            clock.advance(59_000)
            shard_of(broker, "g")._on_timer()
            assert committed(broker, "g") == {0: 1}
            assert broker.metrics.values(OFFSET_COMMITS) == {("t", "g"): 1}
            clock.advance(2_000)
            shard_of(broker, "g")._on_timer()
            assert committed(broker, "g") == {}
            assert broker.metrics.values(OFFSET_COMMITS) == {}, "and takes its series along"
        async with running_broker(tmp_path, **options) as broker:
            assert committed(broker, "g") == {}

    asyncio.run(scenario())


def test_a_deleted_topic_is_forgotten_for_good(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clean=False) as broker:
            await broker.create_topic("t", 1)
            await broker.groups.commit(commit_of("g", 1))
            await broker.delete_topic("t")
            assert committed(broker, "g") == {}
        async with running_broker(tmp_path) as broker:
            assert committed(broker, "g") == {}

    asyncio.run(scenario())


def test_a_topic_whose_deletion_was_interrupted_is_forgotten_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clean=False) as broker:
            await broker.create_topic("t", 1)
            await broker.groups.commit(commit_of("g", 1))
            await broker.topics.delete("t")  # and no further
        async with running_broker(tmp_path) as broker:
            assert committed(broker, "g") == {}

    asyncio.run(scenario())


def test_a_join_that_nobody_waits_for_any_more_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, clean=False) as broker:
            waiting = await join(broker, "g")
            waiting.cancel()
            await asyncio.wait([waiting])
            shard = shard_of(broker, "g")
            for _ in range(4):
                clock.advance(20_000)  # the group begins, then its member's session ends
                shard._on_timer()
            assert shard._waiting == {}
            assert broker.groups.coordinator("g").describe_classic("g").state == "Empty"

    asyncio.run(scenario())


def test_the_offsets_topic_is_compacted_and_the_brokers_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, offsets_partitions=4) as broker:
            topic = broker.topics.catalogue.topic(OFFSETS_TOPIC)
            assert (topic.partition_count, topic.is_internal) == (4, True)
            assert topic.settings.text("cleanup.policy") == "compact"
            for number in range(20):
                await broker.groups.commit(commit_of(f"g-{number}", number))
            ends = [
                broker.partitions.partition(TopicPartition(OFFSETS_TOPIC, number)).log_end
                for number in range(4)
            ]
            assert sum(ends) == 20
            assert min(ends) > 0, "the groups are spread"

    asyncio.run(scenario())


def test_a_snapshot_that_is_made_while_groups_change_is_as_good_as_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_log, "SLICE_ENTRIES", 1)

    async def scenario() -> None:
        groups = [f"g-{number}" for number in range(30)]
        async with running_broker(tmp_path, clean=False) as broker:
            for group in groups:
                await broker.groups.commit(commit_of(group, 1, partitions=3))
            saving = asyncio.ensure_future(shard_of(broker, "g").state.save())
            turns = 0
            while not saving.done():
                await broker.groups.commit(commit_of(groups[turns % 30], 2 + turns))
                if turns % 7 == 3:
                    await broker.groups.delete(groups[turns % 30])
                await asyncio.sleep(0)
                turns += 1
            assert turns > 30, "others had their turns"
            expected = {group: committed(broker, group) for group in groups}
        assert len(snapshots_in(tmp_path)) == 1
        async with running_broker(tmp_path) as broker:
            assert {group: committed(broker, group) for group in groups} == expected

    asyncio.run(scenario())
