"""Two or three nodes over real sockets: what followers have, what is committed, who leads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from goqueue.cluster.peers import Lane
from goqueue.model.errors import (
    DiskError,
    LeadershipLostError,
    MetadataUnavailableError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
    StorageError,
)
from goqueue.partitions.replication.replicas import ReplicaSettings
from goqueue.server.cluster.cluster_node import ClusterNode
from goqueue.server.cluster.peers import PeerLink
from support.disks import FaultyDisk
from support.replicating import TOPIC, replicating, until
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition


async def committed(partition: ReplicatedPartition, end: int) -> None:
    async with asyncio.timeout(10):
        await partition.acknowledged(end)


@scenario
async def test_what_a_leader_appends_is_on_every_replica_byte_for_byte(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        for number in range(20):
            placed = cluster[1].publish(b"%d" % number, b"b")
            await committed(leader, placed.end_offset)
        await cluster.committed(40)
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()


@scenario
async def test_followers_know_the_high_watermark_soon_after_the_last_batch(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        assert [cluster[each].partition().high_watermark for each in (1, 2, 3)] == [1, 1, 1]


@scenario
async def test_a_leader_that_was_cut_off_is_cut_back_to_what_is_committed(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        cluster[1].publish(b"kept")
        await cluster.committed(1)
        await cluster[1].deafen()
        lost = cluster[1].publish(b"lost", b"too")
        waiting = asyncio.ensure_future(cluster[1].partition().acknowledged(lost.end_offset))
        await cluster.elect(key, 2, (2, 3))
        await cluster.led(key, 2)
        with pytest.raises(LeadershipLostError):
            await waiting
        cluster[2].publish(b"new")
        await cluster.committed(2, 2, 3)
        await cluster[1].listen()
        await cluster[1].register_again()
        await cluster.committed(2)
        await cluster.isr(key, 1, 2, 3)
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()
        assert cluster[1].replicas.followed.cut_below_hw_count == 0
        with pytest.raises(NotLeaderError):
            cluster[1].publish(b"x")


@scenario
async def test_epochs_that_change_fast_leave_one_history(folder: Path):
    """Each leader appends something that the next one has or has not."""
    async with replicating(folder) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        for turn in range(6):
            leader, after = turn % 3 + 1, (turn + 1) % 3 + 1
            cluster[leader].publish(b"%d" % turn)
            await cluster.elect(key, after)
            await cluster.led(key, after)
        end = cluster[1].publish(b"last").end_offset
        await cluster.committed(end)
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()


@scenario
async def test_a_lost_connection_costs_a_moment_and_no_record(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        for number in range(30):
            end = cluster[1].publish(b"%d" % number, size=1000).end_offset
            if number % 10 == 5:
                cluster[1].hang_up(2)
                cluster[1].hang_up(3)
            await committed(leader, end)
        await cluster.committed(30)
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()


@scenario
async def test_a_request_that_fails_in_the_follower_ends_a_session_and_not_the_fetching(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        fetch, failures = PeerLink.fetch, [RuntimeError("a mistake of the fetching")] * 2

        def failing(*told):
            if failures:
                raise failures.pop()
            fetch(*told)

        monkeypatch.setattr(PeerLink, "fetch", failing)
        placed = cluster[1].publish(b"a")
        await committed(leader, placed.end_offset)
        assert not failures
        await cluster.committed(1)


@scenario
async def test_a_follower_that_is_late_leaves_the_in_sync_set_and_comes_back(folder: Path):
    async with replicating(folder, settings=ReplicaSettings(lag_s=0.5)) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        cluster.cut(3)
        end = cluster[1].publish(b"b").end_offset
        assert leader.high_watermark == 1
        await committed(leader, end)
        await cluster.isr(key, 1, 2)
        assert leader.not_enough is None
        cluster.heal(3)
        await cluster.isr(key, 1, 2, 3)
        await cluster.committed(end)
        assert cluster[1].stored() == cluster[3].stored()


@scenario
async def test_a_follower_of_an_idle_partition_stays_in_sync(folder: Path):
    async with replicating(folder, settings=ReplicaSettings(lag_s=0.8)) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        _, revision = await cluster.record(key)
        await asyncio.sleep(1.5)
        end = cluster[1].publish(b"b").end_offset
        await cluster.committed(end)
        assert (await cluster.record(key))[1] == revision


@scenario
async def test_a_fenced_follower_leaves_at_once(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        cluster.cut(3)
        end = cluster[1].publish(b"b").end_offset
        await cluster.fence(3)
        await committed(leader, end)
        assert set((await cluster.record(key))[0].isr) == {1, 2}


@scenario
async def test_publishers_are_told_when_too_few_replicas_are_in_sync(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create(min_insync_replicas="2")
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        cluster.cut(2)
        cluster.cut(3)
        end = cluster[1].publish(b"b").end_offset
        waiting = asyncio.ensure_future(leader.acknowledged(end))
        await cluster.fence(2)
        await cluster.fence(3)
        with pytest.raises(NotEnoughReplicasAfterAppendError, match="2 are required"):
            await waiting
        assert isinstance(leader.not_enough, NotEnoughReplicasError)
        assert leader.high_watermark == 1
        cluster.heal(2)
        await cluster[2].register_again()
        await cluster.committed(end, 1, 2)
        assert leader.not_enough is None


@scenario
async def test_a_follower_under_fsync_always_acknowledges_what_is_on_its_disk(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create(goqueue_fsync="always")
        leader = await cluster.led(key, 1)
        for number in range(5):
            end = cluster[1].publish(b"%d" % number).end_offset
            await committed(leader, end)
            assert all(cluster[each].partition().synced_to >= end for each in (1, 2, 3))
        lanes = {lane for _, lane in cluster[2].replicas.followed.fetchers}
        assert lanes == {Lane.SYNCED}


@scenario
async def test_a_follower_that_missed_much_catches_up_in_a_lane_of_its_own(folder: Path):
    async with replicating(folder, settings=ReplicaSettings(lag_s=0.8)) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        cluster.cut(3)
        for number in range(60):
            cluster[1].publish(b"%d" % number, size=200_000)
        await committed(leader, 61)
        lanes = set()
        followed = cluster[3].replicas.followed
        cluster.heal(3)

        def is_there() -> bool:
            lanes.update(lane for _, lane in followed.fetchers)
            return cluster[3].partition().high_watermark == 61

        await until(is_there)
        await cluster.isr(key, 1, 2, 3)
        assert Lane.CATCH_UP in lanes
        await until(lambda: {lane for _, lane in followed.fetchers} == {Lane.LIVE})
        assert cluster[1].stored() == cluster[3].stored()


@scenario
async def test_a_follower_below_the_leaders_start_begins_anew_there(folder: Path):
    async with replicating(folder, settings=ReplicaSettings(lag_s=0.8)) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        cluster.cut(3)
        for number in range(10):
            end = cluster[1].publish(b"%d" % number).end_offset
        await committed(leader, end)
        await leader.delete_before(8)
        await until(lambda: cluster[2].partition().log_start == 8)
        cluster.heal(3)
        await cluster.committed(end)
        assert cluster[3].partition().log_start == 8
        led = cluster[1].replicas.led.by_key[key]
        await until(lambda: led.log_starts == {2: 8, 3: 8})
        assert cluster[1].stored() == cluster[3].stored()


@scenario
async def test_a_leader_that_was_started_again_leads_in_the_next_epoch(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        before, _ = await cluster.record(key)
        port = cluster[1].port
        await cluster.stop(1)
        node = await cluster.add(1)
        leader = await cluster.led(key, 1)
        assert node.port != 0
        assert port
        assert leader.leader_epoch == before.epoch + 1
        assert leader.high_watermark == 1  # from the file
        cluster[1].publish(b"b")
        await cluster.committed(2)
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()


@scenario
async def test_leadership_is_handed_over_with_everything_committed(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create(3)
        keys = [key._replace(partition=number) for number in range(3)]
        for each in keys:
            await cluster.led(each, 1)
            cluster[1].publish(b"a", number=each.partition)
        assert await cluster[1].replicas.hand_over(5.0) == 0
        for each in keys:
            record, _ = await cluster.record(each)
            assert record.leader in {2, 3}
            assert 1 not in record.isr
            assert record.leader is not None
            await cluster.led(each, record.leader)
            assert cluster[record.leader].partition(each.partition).log_end == 1
        await until(lambda: not cluster[1].replicas.led.by_key)
        await cluster.isr(key, 1, 2, 3)


@scenario
async def test_without_anybody_to_hand_over_to_a_leader_goes_on(folder: Path):
    async with replicating(folder, 1) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        assert await cluster[1].replicas.hand_over(0.2) == 1
        assert cluster[1].publish(b"a").end_offset == 1


@scenario
async def test_a_leader_that_hears_nobody_refuses_appends(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        heard_s = cluster[1].clock.monotonic_s()
        cluster[1].store_heard_s = lambda: heard_s
        cluster.cut(2)
        cluster.cut(3)
        await until(lambda: leader.isolated is not None)
        with pytest.raises(NotEnoughReplicasError, match="hears neither"):
            cluster[1].publish(b"b")
        cluster.heal(2)
        await until(lambda: leader.isolated is None)
        cluster[1].publish(b"b")


@scenario
async def test_the_leader_of_a_failed_log_hands_over_and_fetches_it_again(folder: Path):
    async with replicating(folder) as cluster:
        await cluster.stop(1)
        disk = FaultyDisk(folder / "node-1")
        await cluster.add(1, disk)
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        await cluster.isr(key, 1, 2, 3)
        disk.fail_next("write", ending=".log")
        with pytest.raises(Exception, match=r"EIO|rror|refuse"):
            cluster[1].publish(b"b")
        assert leader.failure is not None
        await leader.recover()
        record, _ = await cluster.record(key)
        assert record.leader in {2, 3}
        assert record.leader is not None
        await cluster.led(key, record.leader)
        end = cluster[record.leader].publish(b"c").end_offset
        await cluster.committed(end)
        await cluster.isr(key, 1, 2, 3)
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()


@scenario
async def test_a_leader_whose_disk_dropped_what_only_absent_replicas_have_waits_for_them(
    folder: Path,
):
    async with replicating(folder) as cluster:
        await cluster.stop(1)
        disk = FaultyDisk(folder / "node-1")
        await cluster.add(1, disk)
        key = await cluster.create(goqueue_fsync="never")
        leader = await cluster.led(key, 1)
        for number in range(5):
            cluster[1].publish(b"%d" % number)
        await cluster.committed(5)
        await cluster.isr(key, 1, 2, 3)
        for other in (2, 3):
            await cluster.fence(other)
        await until(lambda: not any(map(cluster[1].view.is_active, (2, 3))))
        disk.fail_next("sync", ending=".log", drop=True)
        with pytest.raises(StorageError):
            await leader.synced(5)
        with pytest.raises(StorageError, match="until one of them can lead"):
            await leader.recover()
        assert leader.failure is not None
        await cluster[2].register_again()
        await until(lambda: cluster[1].view.is_active(2))
        await leader.recover()
        await cluster.led(key, 2)
        await cluster[3].register_again()
        await cluster.isr(key, 1, 2, 3)
        assert b"4" in cluster[1].stored()
        assert cluster[1].stored() == cluster[2].stored()


@scenario
async def test_a_leader_of_which_nothing_was_dropped_goes_on_without_the_others(folder: Path):
    async with replicating(folder) as cluster:
        await cluster.stop(1)
        disk = FaultyDisk(folder / "node-1")
        await cluster.add(1, disk)
        key = await cluster.create(goqueue_fsync="never")
        leader = await cluster.led(key, 1)
        for number in range(5):
            cluster[1].publish(b"%d" % number)
        await cluster.committed(5)
        for other in (2, 3):
            await cluster.fence(other)
        await until(lambda: not any(map(cluster[1].view.is_active, (2, 3))))
        disk.fail_next("sync", ending=".log")
        with pytest.raises(StorageError):
            await leader.synced(5)
        await leader.recover()
        assert leader.failure is None
        assert leader.is_leading
        assert cluster[1].publish(b"more").end_offset == 6


@scenario
async def test_a_follower_that_is_gone_leaves_the_in_sync_set_of_an_idle_partition(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        await cluster.isr(key, 1, 2, 3)
        await until(lambda: cluster[1].replicas.led.by_key[key].is_settled)
        await cluster.stop(3)  # its registration goes
        await cluster.isr(key, 1, 2)


@scenario
async def test_a_topic_that_is_deleted_is_neither_led_nor_followed(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        await cluster[2].topics.delete(TOPIC)
        await until(lambda: key not in cluster[1].replicas.led.by_key)
        await until(lambda: not cluster[3].replicas.followed.by_key)
        await until(lambda: not cluster[1].replicas.led.has_led(key, 0))  # nor remembered


@scenario
async def test_a_replica_that_its_record_names_no_longer_is_closed_and_its_files_stay(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        end = cluster[1].publish(b"a").end_offset
        await cluster.committed(end)
        stray = cluster[3].partition()
        await cluster.assign(key, 1, 2)
        await until(lambda: cluster[3].partitions.replica(stray.id) is None)
        assert list(stray.folder.glob("*.log"))
        end = cluster[1].publish(b"b").end_offset
        await committed(leader, end)
        await cluster.assign(key, 1, 2, 3)
        await until(lambda: cluster[3].partitions.replica(stray.id) is not None)
        await cluster.committed(end)
        assert cluster[1].stored() == cluster[3].stored()


@scenario
async def test_idle_partitions_cost_neither_requests_nor_looks(folder: Path):
    async with replicating(folder, 2) as cluster:
        key = await cluster.create(300)
        for number in range(300):
            await cluster.led(key._replace(partition=number), 1)
        leader = cluster[1].replicas
        for number in range(300):
            await cluster.isr(key._replace(partition=number), 1, 2)
        (fetcher,) = cluster[2].replicas.followed.fetchers.values()
        await until(lambda: len(fetcher.followed) == 300)
        await until(lambda: not leader.led._unsettled)
        (session,) = cluster[1].api._sessions.values()
        named, reads, looks = fetcher.named_count, session.read_count, leader.led.look_count
        requests = fetcher.request_count
        for turn in range(20):
            end = cluster[1].publish(b"%d" % turn, number=7).end_offset
            await cluster.committed(end, number=7)
        assert fetcher.named_count - named <= 20 + 1
        assert session.read_count - reads <= 20 + 1
        assert leader.led.look_count - looks <= 40
        assert fetcher.request_count - requests <= 60


@scenario
async def test_a_replica_whose_log_failed_does_not_lead_with_what_is_left_of_it(folder: Path):
    """It is elected after the disk has refused, before its log is cut to what was synced."""
    async with replicating(folder) as cluster:
        await cluster.stop(2)
        disk = FaultyDisk(folder / "node-2")
        await cluster.add(2, disk)
        key = await cluster.create(goqueue_fsync="never")
        await cluster.led(key, 1)
        for number in range(5):
            cluster[1].publish(b"%d" % number)
        await cluster.committed(5)
        failed = cluster[2].partition()
        assert failed.synced_to < 5
        disk.fail_next("write", ending=".log")
        cluster[1].publish(b"refused")
        await until(lambda: failed.failure is not None)
        await cluster.elect(key, 2, (1, 2, 3))
        await until(lambda: cluster[2].view.partitions[key].value.leader == 2)
        await failed.recover()
        record, _ = await cluster.record(key)
        assert record.leader is None
        assert record.isr == (1, 3)
        assert not failed.is_leading
        await cluster.elect(key, 3)
        await cluster.led(key, 3)
        end = cluster[3].publish(b"new").end_offset
        await cluster.committed(end)
        await cluster.isr(key, 1, 2, 3)
        assert b"4" in cluster[2].stored()
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()
        assert cluster[1].replicas.followed.cut_below_hw_count == 0
        assert cluster[3].replicas.followed.cut_below_hw_count == 0


@scenario
async def test_a_follower_whose_log_failed_is_counted_on_no_more_before_it_is_cut(folder: Path):
    async with replicating(folder) as cluster:
        await cluster.stop(2)
        disk = FaultyDisk(folder / "node-2")
        await cluster.add(2, disk)
        key = await cluster.create(goqueue_fsync="never")
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        failed = cluster[2].partition()
        disk.fail_next("write", ending=".log")
        end = cluster[1].publish(b"b").end_offset
        await until(lambda: failed.failure is not None)
        seen: list[tuple[int, ...]] = []
        discard = failed._replica.discard_unsynced

        async def watched(*args: object) -> object:
            seen.append((await cluster.record(key))[0].isr)
            return await discard(*args)  # type: ignore[arg-type]

        failed._replica.discard_unsynced = watched  # type: ignore[method-assign,assignment]
        await failed.recover()
        assert seen == [(1, 3)]
        await cluster.committed(end)
        await cluster.isr(key, 1, 2, 3)
        assert cluster[1].stored() == cluster[2].stored()


@scenario
async def test_a_failed_log_out_of_sync_is_cut_in_the_next_epoch_too(folder: Path):
    """In this one its leader may be about to let it in, by what it has fetched."""
    async with replicating(folder) as cluster:
        await cluster.stop(2)
        disk = FaultyDisk(folder / "node-2")
        await cluster.add(2, disk)
        key = await cluster.create(goqueue_fsync="never")
        await cluster.led(key, 1)
        await cluster.fence(2)
        await cluster.isr(key, 1, 3)
        failed, epoch = cluster[2].partition(), (await cluster.record(key))[0].epoch
        disk.fail_next("write", ending=".log")
        cluster[1].publish(b"a")
        await until(lambda: failed.failure is not None)
        seen: list[int] = []
        discard = failed._replica.discard_unsynced

        async def watched(*args: object) -> object:
            seen.append((await cluster.record(key))[0].epoch)
            return await discard(*args)  # type: ignore[arg-type]

        failed._replica.discard_unsynced = watched  # type: ignore[method-assign,assignment]
        await failed.recover()
        assert seen == [epoch + 1]


@scenario
async def test_a_failed_log_is_not_cut_in_an_epoch_whose_leader_is_about_to_go(folder: Path):
    """That one would bring the replica back in, by what it has fetched, and hand over to it."""
    async with replicating(folder) as cluster:
        await cluster.stop(2)
        disk = FaultyDisk(folder / "node-2")
        await cluster.add(2, disk)
        key = await cluster.create(goqueue_fsync="never")
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        failed = cluster[2].partition()
        disk.fail_next("write", ending=".log")
        end = cluster[1].publish(b"b").end_offset
        await until(lambda: failed.failure is not None)
        await cluster.fence(1)
        await until(lambda: not cluster[2].view.is_active(1))
        before, _ = await cluster.record(key)
        with pytest.raises(MetadataUnavailableError, match="cannot be left at the moment"):
            await failed.recover()
        assert (await cluster.record(key))[0] == before
        await cluster.elect(key, 3)
        await until(lambda: cluster[2].view.partitions[key].value.leader == 3)
        await failed.recover()
        await cluster[1].register_again()
        await cluster.committed(end)
        await cluster.isr(key, 1, 2, 3)
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()


@scenario
async def test_an_epoch_that_was_given_up_is_not_led_again_by_an_old_view(folder: Path):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        node = cluster[1]
        await node.keeper.stop()  # from now on this node's view is old
        roles, epoch = node.replicas._roles, leader.leader_epoch
        assert await node.replicas.led.resign(key, 5.0, lost=True)
        await node.partitions.follow(leader.id, None, epoch)
        node.replicas.led.end(key)
        assert node.view.partitions[key].value.leader == 1
        await roles.take(key)
        assert not leader.is_leading
        assert key not in node.replicas.led.by_key
        assert (await cluster.record(key))[0].epoch > epoch
        with pytest.raises(NotLeaderError):
            node.publish(b"b")


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_stop_is_in_order_only_when_every_log_was_closed(folder: Path, *, has_failed: bool):
    @scenario
    async def stopped() -> None:
        async with replicating(folder, 1) as cluster:
            key = await cluster.create()
            await cluster.led(key, 1)
            cluster[1].publish(b"a")
            if has_failed:
                cluster[1].partition()._log.flush_failed(DiskError("it refuses"))  # type: ignore[attr-defined]
            partitions = cluster[1].partitions
        assert partitions.has_unclosed is has_failed
        marked: list[bool] = []
        node = SimpleNamespace(
            is_closed_cleanly=True,
            _opened=partitions,
            _folder=SimpleNamespace(mark_clean=lambda: marked.append(True)),
        )
        await ClusterNode._mark_stop(node)  # type: ignore[arg-type]
        assert marked == ([] if has_failed else [True])

    stopped()
