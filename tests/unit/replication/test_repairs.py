"""Bits that flip on the disk of one replica: the others have the records, and it fetches them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from goqueue.cluster.elections import led_by
from goqueue.model.errors import DamagedRangeError
from goqueue.partitions.partition import Isolation
from goqueue.partitions.replication import repairs
from support.replicating import ReplicaNode, replicating, until
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.cluster.records import PartitionKey
    from support.replicating import ReplicaCluster

COUNT = 60
"""Records of 2 kB: about eight segments of 16 kB."""


async def filled(cluster: ReplicaCluster) -> PartitionKey:
    """A topic of some segments that node 1 leads and all have."""
    key = await cluster.create(internal_segment_bytes=str(16 * 1024))
    await cluster.led(key, 1)
    for number in range(COUNT):
        cluster[1].publish(b"%d" % number, size=2000)
        if number % 5 == 4:  # what a follower gets at once goes into one segment
            await cluster.committed(number + 1)
    await cluster.isr(key, 1, 2, 3)
    return key


def flip(node: ReplicaNode, *, is_sealed: bool, segment: int = 1, at: int = 300) -> None:
    """Flip a bit of a record in the second segment, or another one, or in the last."""
    files = sorted(node.partition().folder.glob("*.log"))
    assert len(files) > 3
    path = files[segment] if is_sealed else files[-1]
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def meet(node: ReplicaNode) -> int:
    """Read everything, as somebody does some day; returns where the first damage is."""
    partition, met = node.partition(), []
    for _ in partition.chunks(partition.log_start, met.append):
        pass
    assert met, "nothing is damaged"
    for damage in met:
        partition.report_damage(damage)
    return min(each.first for each in met)


async def whole_again(cluster: ReplicaCluster, key: PartitionKey) -> None:
    """Wait until all are in sync and trust their logs, publish one more, and compare."""
    await until(lambda: all(each.partition().is_fetchable for each in cluster.nodes.values()))
    await cluster.isr(key, 1, 2, 3)
    record, _ = await cluster.record(key)
    assert record.leader is not None
    assert record.struck == ()
    await cluster.led(key, record.leader)
    placed = cluster[record.leader].publish(b"after")
    assert placed.first_offset == COUNT  # nothing committed was lost
    await cluster.committed(COUNT + 1)
    first = cluster[1].stored()
    assert first == cluster[2].stored() == cluster[3].stored()
    for number in range(COUNT):
        assert first.count(b"%d." % number) >= 1


@pytest.mark.parametrize("is_sealed", [True, False])
@scenario
async def test_a_leader_with_damaged_records_hands_over_and_fetches_them_again(
    folder: Path, is_sealed: bool
):
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        flip(cluster[1], is_sealed=is_sealed)
        first = meet(cluster[1])
        await until(lambda: not cluster[1].partition().is_leading)
        await whole_again(cluster, key)
        record, _ = await cluster.record(key)
        assert record.leader in {2, 3}
        assert not await cluster[1].partition().is_damaged_at(first)


@pytest.mark.parametrize("is_sealed", [True, False])
@scenario
async def test_a_follower_with_damaged_records_leaves_the_in_sync_set_and_fetches_them_again(
    folder: Path, is_sealed: bool
):
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        before, _ = await cluster.record(key)
        flip(cluster[2], is_sealed=is_sealed)
        first = meet(cluster[2])
        await until(lambda: cluster[2].partition().distrusted_in is not None)
        await whole_again(cluster, key)
        record, _ = await cluster.record(key)
        assert record.leader == 1
        assert record.epoch > before.epoch  # what was fetched before counts nowhere
        assert not await cluster[2].partition().is_damaged_at(first)


@scenario
async def test_damage_that_a_follower_meets_at_its_leader_is_repaired_from_the_third(folder: Path):
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        await cluster.fence(3)
        await cluster.isr(key, 1, 2)
        await cluster.stop(3)
        for path in (folder / "node-3").rglob("*.log"):
            path.unlink()
        flip(cluster[1], is_sealed=True)
        cluster[1].partition()._tail.clear()
        await cluster.add(3)
        await until(lambda: not cluster[1].partition().is_leading)
        await whole_again(cluster, key)


@scenario
async def test_the_only_replica_in_sync_serves_what_it_has_until_another_can_lead(folder: Path):
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        await cluster.fence(2)
        await cluster.fence(3)
        await cluster.isr(key, 1)
        await cluster.stop(2)
        await cluster.stop(3)
        flip(cluster[1], is_sealed=True)
        leader = cluster[1].partition()
        leader._tail.clear()
        first = meet(cluster[1])
        await until(lambda: leader.distrusted_in is not None)
        assert leader.is_leading
        assert leader.isolated is None
        region = leader.find(first, 1, Isolation.READ_UNCOMMITTED)
        assert region is not None
        with pytest.raises(DamagedRangeError) as damage:
            region.load()
        rest = leader.find(damage.value.resume_at, 1, Isolation.READ_UNCOMMITTED)
        assert rest is not None
        assert rest.load().record_count
        await cluster.add(2)
        await cluster.add(3)
        await whole_again(cluster, key)


@pytest.fixture
def patching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes give each other what is damaged."""
    monkeypatch.setattr(ReplicaNode, "patches", True)


@pytest.mark.usefixtures("patching")
@pytest.mark.parametrize("damaged", [1, 2])
@scenario
async def test_damaged_records_are_patched_where_they_are(folder: Path, damaged: int):
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        before, _ = await cluster.record(key)
        flip(cluster[damaged], is_sealed=True)
        first = meet(cluster[damaged])
        await _patched(cluster, damaged, first)
        await whole_again(cluster, key)
        record, _ = await cluster.record(key)
        assert (record.leader, record.epoch, record.isr) == (1, before.epoch, before.isr)


@pytest.mark.usefixtures("patching")
@scenario
async def test_of_two_replicas_with_different_damage_each_has_what_the_other_lacks(folder: Path):
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        await cluster.stop(3)
        await cluster.isr(key, 1, 2)
        flip(cluster[1], is_sealed=True, segment=1)
        flip(cluster[2], is_sealed=True, segment=3)
        firsts = meet(cluster[1]), meet(cluster[2])
        assert firsts[0] < firsts[1]
        await _patched(cluster, 1, firsts[0])
        await _patched(cluster, 2, firsts[1])
        await cluster.add(3)
        await whole_again(cluster, key)


async def damaged_at_a_start(cluster: ReplicaCluster, key: PartitionKey, **segments: int) -> None:
    """Stop nodes 1 and 2, damage a segment of each, and start them as after a power cut."""
    before, _ = await cluster.record(key)
    for node_id in (1, 2):
        folder = cluster[node_id].partition().folder
        flip(cluster[node_id], is_sealed=True, segment=segments[f"of_{node_id}"], at=5000)
        await cluster.stop(node_id)
        (folder / "log.checkpoint").unlink()  # so that everything is scanned
        for book in (cluster.folder / f"node-{node_id}").rglob("*checkpoints*"):
            book.unlink()
    struck = replace(before, leader=None, epoch=before.epoch + 1, isr=(1,), elr=(), struck=(1, 2))
    await cluster.write(key, struck)
    for node_id in (1, 2):
        node = await cluster.add(node_id)
        assert [each.topic for each in node.unclean] == ["t"]


async def recovered(cluster: ReplicaCluster, key: PartitionKey) -> None:
    """Let node 1 lead, as a controller does once both have said what they have."""
    await until(lambda: all(each.partition().is_fetchable for each in cluster.nodes.values()))
    record, _ = await cluster.record(key)
    after = replace(record, isr=(1,), elr=(), struck=())
    await cluster.write(key, led_by(after, 1, record, cluster[1].view))
    await cluster.led(key, 1)


@pytest.mark.usefixtures("patching")
@scenario
async def test_damage_that_a_start_finds_in_two_replicas_costs_nothing_that_one_of_them_has(
    folder: Path,
):
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        await cluster.stop(3)
        await cluster.isr(key, 1, 2)
        await damaged_at_a_start(cluster, key, of_1=1, of_2=3)
        await recovered(cluster, key)
        assert cluster[1].partition().log_end == COUNT
        await cluster.add(3)
        await whole_again(cluster, key)


@pytest.mark.usefixtures("patching")
@scenario
async def test_damage_in_the_same_place_of_all_replicas_is_cut_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(repairs, "AWAY_S", 0.5)
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        await cluster.stop(3)
        await cluster.isr(key, 1, 2)
        await damaged_at_a_start(cluster, key, of_1=0, of_2=0)
        await recovered(cluster, key)
        ends = {cluster[each].partition().log_end for each in (1, 2)}
        assert len(ends) == 1
        assert 0 < ends.pop() < COUNT


@pytest.mark.usefixtures("patching")
@scenario
async def test_damage_that_nobody_else_can_have_waits_for_a_replica_that_is_away(folder: Path):
    async with replicating(folder) as cluster:
        key = await filled(cluster)
        await cluster.stop(3)
        await cluster.isr(key, 1, 2)
        await damaged_at_a_start(cluster, key, of_1=0, of_2=0)
        await asyncio.sleep(0.5)
        assert not cluster[1].partition().is_fetchable
        await cluster.add(3)  # which has it
        await recovered(cluster, key)
        assert cluster[1].partition().log_end == COUNT
        await whole_again(cluster, key)


@scenario
async def test_the_only_replica_of_a_partition_keeps_what_lies_behind_the_damage(folder: Path):
    async with replicating(folder, count=1) as cluster:
        key = await cluster.create(internal_segment_bytes=str(16 * 1024))
        await cluster.led(key, 1)
        for number in range(COUNT):
            cluster[1].publish(b"%d" % number, size=2000)
        await cluster.committed(COUNT)
        before, _ = await cluster.record(key)
        log_folder = cluster[1].partition().folder
        flip(cluster[1], is_sealed=True, at=5000)
        await cluster.stop(1)
        (log_folder / "log.checkpoint").unlink()
        for book in (cluster.folder / "node-1").rglob("*checkpoints*"):
            book.unlink()
        await cluster.write(key, replace(before, leader=None, epoch=1, struck=(1,)))
        node = await cluster.add(1)
        assert [each.topic for each in node.unclean] == ["t"]
        await recovered(cluster, key)
        assert cluster[1].partition().log_end == COUNT
        assert meet(cluster[1]) > 0


async def _patched(cluster: ReplicaCluster, node: int, first: int) -> None:
    partition = cluster[node].partition()
    async with asyncio.timeout(15):
        while await partition.is_damaged_at(first):  # noqa: ASYNC110 - of a file
            await asyncio.sleep(0.02)
