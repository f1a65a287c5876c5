"""A node whose disk is full: others lead, and with no room at all it is out of sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.cluster import elections
from goqueue.cluster.records import NodeState
from goqueue.partitions.replication.replicas import ReplicaSettings
from goqueue.partitions.upkeep import DiskState
from goqueue.server.cluster.full_disk import FullDisk
from support.replicating import replicating, until
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from support.replicating import ReplicaNode


def monitored(node: ReplicaNode) -> FullDisk:
    """What the disk monitor of a node tells."""

    async def tell(is_full: bool) -> None:
        await node.keeper.reached(await node.register(NodeState.ACTIVE, is_full=is_full))

    return FullDisk(node.replicas, tell)


@scenario
async def test_a_leader_with_a_full_disk_hands_over_and_is_a_candidate_again_with_room(
    folder: Path,
):
    async with replicating(folder) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        disk = monitored(cluster[1])
        disk.looked(91.0, DiskState.FULL)
        await until(lambda: not cluster[1].partition().is_leading)
        view = cluster[1].view
        await until(lambda: {*view.partitions[key].value.isr} == {1, 2, 3})  # it follows on
        stored = view.partitions[key]
        assert elections.preferred(stored, view) is None
        assert list(elections.candidates(stored.value, view))[-1] == 1
        leader = stored.value.leader
        assert leader is not None
        await cluster.led(key, leader)
        end = cluster[leader].publish(b"b").end_offset
        await cluster.committed(end)
        disk.looked(80.0, DiskState.ROOMY)
        await until(lambda: not view.is_full(1))
        stored = view.partitions[key]
        assert elections.preferred(stored, view) is not None
        assert cluster[1].stored() == cluster[2].stored() == cluster[3].stored()
        await disk.stop()


@scenario
async def test_a_leader_stays_where_no_other_disk_has_room(folder: Path):
    async with replicating(folder, 2) as cluster:
        key = await cluster.create()
        leader = await cluster.led(key, 1)
        await cluster.isr(key, 1, 2)
        disks = [monitored(cluster[each]) for each in (2, 1)]
        for node_id, disk in zip((2, 1), disks, strict=True):
            disk.looked(92.0, DiskState.FULL)
            await until(lambda node_id=node_id: cluster[1].view.is_full(node_id))  # type: ignore[misc]
        assert leader.is_leading
        assert leader.isolated is None
        for disk in disks:
            await disk.stop()


@scenario
async def test_a_follower_without_room_leaves_the_in_sync_set_and_comes_back(folder: Path):
    settings = ReplicaSettings(lag_s=0.6, failure_wait_s=0.05)
    async with replicating(folder, settings=settings) as cluster:
        key = await cluster.create()
        await cluster.led(key, 1)
        disk = monitored(cluster[3])
        disk.looked(94.0, DiskState.FULL)
        end = cluster[1].publish(b"a").end_offset
        await cluster.committed(end)  # followed up to 97 %
        disk.looked(97.0, DiskState.FULL)
        cluster[1].publish(b"b")
        end = cluster[1].publish(b"c").end_offset
        await cluster.isr(key, 1, 2)
        await cluster.committed(end, 1, 2)
        disk.looked(85.0, DiskState.TIGHT)
        await cluster.isr(key, 1, 2, 3)
        await cluster.committed(end)
        assert cluster[1].stored() == cluster[3].stored()
        await disk.stop()
