"""Topics of a cluster: made, grown, configured and deleted by way of any node, seen on all."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from goqueue.cluster.metadata import Committed, Put, Unknown
from goqueue.cluster.records import (
    DeletedTopic,
    Member,
    NodeAddress,
    NodeRecord,
    NodeState,
    PartitionKey,
    decode,
    encode,
    member_key,
    node_key,
)
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.cluster.view_keeper import ViewKeeper
from goqueue.model.errors import (
    InvalidAssignmentError,
    InvalidReplicationError,
    InvalidTopicConfigError,
    MetadataUnavailableError,
    TopicExistsError,
    UnknownTopicError,
)
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from goqueue.topics.catalogue import Topic
from goqueue.topics.cluster_catalogue import ClusterTopics
from goqueue.topics.replica_assignments import Replication
from support.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from goqueue.cluster.metadata import Condition, Entry, Operation, TransactionResult

NODES = (1, 2, 3)


class _Lossy(SqliteMetadataStore):
    """A store that loses answers: of transactions that happened, or that did not."""

    lost: list[bool]

    async def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> TransactionResult:
        if not self.lost:
            return await super().transact(conditions, operations)
        if self.lost.pop(0):
            assert isinstance(await super().transact(conditions, operations), Committed)
        return Unknown("the answer was lost")


class _Node:
    def __init__(self, store: SqliteMetadataStore) -> None:
        self.keeper = ViewKeeper(store)
        self.topics = ClusterTopics(store, {}, self.keeper, SystemClock())
        self.removed: list[str] = []
        self.configured: list[str] = []
        self.topics.on_removed = lambda topic: self.removed.append(topic.name)
        self.topics.on_configured = lambda topic: self.configured.append(topic.name)

    async def start(self) -> None:
        await self.keeper.start()
        await self.topics.load()

    def records(self, topic: Topic) -> list[tuple[tuple[int, ...], tuple[int, ...], int | None]]:
        found = self.topics.records_of(topic).values()
        return [(each.value.replicas, each.value.isr, each.value.leader) for each in found]


async def register(
    store: SqliteMetadataStore, *nodes: int, state: NodeState = NodeState.ACTIVE
) -> None:
    puts = []
    for node in nodes:
        record = NodeRecord(f"n{node}", f"f{node}", state, NodeAddress("h", node), {})
        puts.append(Put(node_key(node), encode(record)))
        puts.append(Put(member_key(node), encode(Member(f"f{node}"))))
    await store.transact([], puts)


@asynccontextmanager
async def nodes(folder: Path, count: int = 2) -> AsyncIterator[tuple[_Lossy, list[_Node]]]:
    store = await _Lossy.open(folder / "metadata.db", disk=SystemDisk(), clock=SystemClock())
    assert isinstance(store, _Lossy)
    store.lost = []
    await register(store, *NODES)
    made = [_Node(store) for _ in range(count)]
    try:
        for node in made:
            await node.start()
        yield store, made
    finally:
        for node in made:
            await node.keeper.stop()
        await store.close()


async def stored(store: SqliteMetadataStore, key: str) -> Entry:
    entry = await store.get(key)
    assert entry is not None
    return entry


@scenario
async def test_a_topic_that_is_not_understood_hides_no_other(memory_folder: Path) -> None:
    async with nodes(memory_folder, 1) as (store, (one,)):
        await one.topics.create("orders", 1)
        await store.transact([], [Put("topics/a-strange-one", b"\xc1")])
        late = _Node(store)
        await late.start()
        assert list(late.topics.catalogue.by_name) == ["orders"]
        assert late.topics.unreadable == {"a-strange-one"}
        await late.keeper.stop()


@scenario
async def test_a_topic_made_on_one_node_is_there_and_soon_on_the_others(
    memory_folder: Path,
) -> None:
    async with nodes(memory_folder) as (_, (one, two)):
        topic = await one.topics.create("orders", 6)
        assert one.topics.catalogue.topic("orders") == topic
        await two.topics.refresh()
        assert two.topics.catalogue.topic("orders") == topic
        assert two.topics.catalogue.topic_with_id(topic.topic_id) == topic
        for replicas, isr, leader in two.records(topic):
            assert sorted(replicas) == [1, 2, 3]
            assert isr == replicas
            assert leader == replicas[0]
        assert sorted(leader or 0 for *_, leader in one.records(topic)) == [1, 1, 2, 2, 3, 3]


@scenario
async def test_three_replicas_need_two_in_sync_unless_the_topic_says_otherwise(
    memory_folder: Path,
) -> None:
    async with nodes(memory_folder, 1) as (_, (one,)):
        three = await one.topics.create("three", 1)
        two = await one.topics.create("two", 1, replication=Replication(2))
        told = await one.topics.create("told", 1, {"min.insync.replicas": "3"})
        minima = [
            (topic.settings.text("min.insync.replicas"), each.value.min_isr)
            for topic in (three, two, told)
            for each in one.topics.records_of(topic).values()
        ]
        assert minima == [("2", 2), ("1", 1), ("3", 3)]
        assert (three.replication_factor, two.replication_factor) == (3, 2)


@scenario
async def test_only_nodes_that_run_are_in_sync_at_first(memory_folder: Path) -> None:
    async with nodes(memory_folder, 1) as (store, (one,)):
        await register(store, 1, state=NodeState.STOPPING)
        await one.topics.refresh()
        topic = await one.topics.create(
            "orders", 2, replication=Replication(assignments=((1, 2), (3, 1)))
        )
        assert one.records(topic) == [((1, 2), (2,), 2), ((3, 1), (3,), 3)]
        with pytest.raises(MetadataUnavailableError, match="none of the nodes"):
            await one.topics.create("away", 1, replication=Replication(assignments=((1,),)))


@scenario
async def test_replicas_that_cannot_be_are_refused_and_nothing_is_stored(
    memory_folder: Path,
) -> None:
    async with nodes(memory_folder, 1) as (store, (one,)):
        before = (await store.status()).revision
        with pytest.raises(InvalidReplicationError, match="3 nodes"):
            await one.topics.create("t", 1, replication=Replication(4))
        with pytest.raises(InvalidAssignmentError, match="no node 9"):
            await one.topics.create("t", 1, replication=Replication(assignments=((1, 9),)))
        with pytest.raises(InvalidTopicConfigError, match="has 2 replicas"):
            await one.topics.create(
                "t", 1, {"min.insync.replicas": "3"}, replication=Replication(2)
            )
        assert (await store.status()).revision == before
        await one.topics.create("t", 1)
        with pytest.raises(InvalidTopicConfigError, match="has 3 replicas"):
            await one.topics.configure("t", {"min.insync.replicas": "4"})


@scenario
async def test_two_nodes_that_make_the_same_topic_make_one(memory_folder: Path) -> None:
    async with nodes(memory_folder) as (_, (one, two)):
        answers = await asyncio.gather(
            one.topics.create("orders", 2),
            two.topics.create("orders", 3),
            return_exceptions=True,
        )
        assert sorted(type(each).__name__ for each in answers) == ["Topic", "TopicExistsError"]
        made = next(each for each in answers if isinstance(each, Topic))
        await one.topics.refresh()
        await two.topics.refresh()
        assert one.topics.catalogue.topic("orders") == two.topics.catalogue.topic("orders") == made
        assert len(one.keeper.view.partitions) == made.partition_count


@scenario
async def test_many_partitions_come_before_their_topic(memory_folder: Path) -> None:
    async with nodes(memory_folder) as (_, (one, two)):
        topic = await one.topics.create("wide", 150)
        assert len(one.records(topic)) == 150
        topic = await one.topics.grow("wide", 300)
        await two.topics.refresh()
        assert len(two.records(topic)) == 300
        assert two.topics.catalogue.topic("wide").partition_count == 300


@scenario
async def test_an_answer_that_was_lost_is_found_out(memory_folder: Path) -> None:
    async with nodes(memory_folder, 1) as (store, (one,)):
        store.lost = [True]
        topic = await one.topics.create("small", 2)
        assert one.topics.catalogue.topic("small") == topic
        store.lost = [True, True, True]
        await one.topics.create("wide", 100)
        store.lost = [True]
        await one.topics.configure("small", {"retention.ms": "5"})
        assert one.topics.catalogue.topic("small").settings.retention_ms == 5
        store.lost = [True]
        await one.topics.delete("small")
        assert "small" not in one.topics.catalogue.by_name


@scenario
async def test_a_change_that_did_not_happen_is_not_told_as_done(
    memory_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.topics.topic_writer._READING_S", 0.0)
    async with nodes(memory_folder, 1) as (store, (one,)):
        store.lost = [False]
        with pytest.raises(MetadataUnavailableError, match="not known"):
            await one.topics.create("small", 2)
        assert not one.topics.catalogue.by_name
        await one.topics.create("small", 2)


@scenario
async def test_another_minimum_clears_the_eligible_leaders(memory_folder: Path) -> None:
    async with nodes(memory_folder) as (store, (one, two)):
        topic = await one.topics.create("orders", 2)
        key = PartitionKey(topic.topic_id, 0)
        record = replace(one.keeper.view.partitions[key].value, isr=(1,), elr=(2,))
        await store.transact([], [Put(str(key), encode(record))])
        await two.topics.refresh()
        await two.topics.configure("orders", {"retention.ms": "1"})
        assert two.keeper.view.partitions[key].value.elr == (2,)
        await two.topics.configure("orders", {"min.insync.replicas": "1"})
        assert two.keeper.view.partitions[key].value.elr == ()
        assert {each.value.min_isr for each in two.keeper.view.partitions.values()} == {1}
        await one.topics.refresh()
        assert one.configured == ["orders", "orders"]


@scenario
async def test_a_deleted_topic_is_gone_everywhere_and_its_files_are_marked(
    memory_folder: Path,
) -> None:
    async with nodes(memory_folder) as (store, (one, two)):
        topic = await one.topics.create("orders", 2)
        await two.topics.refresh()
        await two.topics.delete("orders")
        await one.topics.refresh()
        assert one.removed == two.removed == ["orders"]
        with pytest.raises(UnknownTopicError):
            one.topics.catalogue.topic("orders")
        assert not one.keeper.view.partitions
        mark = f"deleted-topics/{topic.topic_id.hex}"
        assert decode((await stored(store, mark)).value, DeletedTopic, mark).nodes == NODES
        assert await one.topics.deleted() == [("orders", topic.topic_id)]
        for node in NODES:
            await one.topics.mark_files_removed(topic.topic_id, node)
        assert await store.get(mark) is None
        again = await one.topics.create("orders", 2)
        assert again.topic_id != topic.topic_id


@scenario
async def test_a_topic_deleted_and_made_again_is_another_to_whoever_missed_it(
    memory_folder: Path,
) -> None:
    async with nodes(memory_folder) as (_, (one, two)):
        await one.topics.create("orders", 1)
        await two.topics.refresh()
        await two.keeper.stop()
        await one.topics.delete("orders")
        again = await one.topics.create("orders", 1)
        await two.keeper.reconcile()
        assert two.removed == ["orders"]
        assert two.topics.catalogue.topic("orders").topic_id == again.topic_id


@scenario
async def test_a_topic_that_was_just_made_elsewhere_is_a_conflict(memory_folder: Path) -> None:
    async with nodes(memory_folder) as (_, (one, two)):
        await two.keeper.stop()
        await one.topics.create("orders", 1)
        with pytest.raises(TopicExistsError):
            await two.topics.create("orders", 1)
