"""Nodes that register, ping each other and elect, in one process over one store."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from goqueue.cluster.elections import LogEnd
from goqueue.cluster.metadata import Conflict, Delete, Put, Revision
from goqueue.cluster.records import (
    CONTROLLER,
    PARTITIONS,
    Fence,
    NodeAddress,
    NodeRecord,
    NodeState,
    PartitionKey,
    PartitionRecord,
    encode,
    fence_key,
)
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.cluster.view import ClusterView, NodeView, Stored
from goqueue.cluster.view_keeper import ViewKeeper
from goqueue.metrics import cluster_names
from goqueue.metrics.registry import Metrics, Samples
from goqueue.model.errors import ClusterMismatchError
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from goqueue.server.cluster import membership as membership_module
from goqueue.server.cluster.controlling import Controlling
from goqueue.server.cluster.membership import Membership
from goqueue.server.cluster.node_metrics import put_pings, watch_latencies
from goqueue.server.cluster.pings import Pings
from goqueue.topics.cluster_catalogue import ClusterTopics
from support.scenarios import scenario
from support.server import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from goqueue.cluster.metadata import Condition, Operation, TransactionResult
    from goqueue.server.cluster.recovering import LogEnds

INTERNAL = {"__consumer_offsets": 3}


async def _no_ends(node_id: int, keys: Sequence[PartitionKey]) -> dict[PartitionKey, LogEnd]:
    return {}


class _Node:
    """What decides in a node, without the partitions."""

    def __init__(self, store: SqliteMetadataStore, node_id: int, folder: str = "") -> None:
        clock = SystemClock()
        self.store = store
        self.node_id = node_id
        self.address = NodeAddress("127.0.0.1", free_port())
        record = NodeRecord(
            f"node-{node_id}", folder or f"f{node_id}", NodeState.STARTING, self.address, {}
        )
        self.keeper = ViewKeeper(store)
        self.topics = ClusterTopics(store, {}, self.keeper, clock)
        self.membership = Membership(node_id, record, store, self.keeper, clock=clock)
        self.pings = Pings(node_id, b"secret", self.address_parts(), clock=clock)
        self.elected_s: list[float] = []
        self.controlling = Controlling(
            store,
            self.keeper,
            self.pings,
            self.membership,
            self.topics,
            clock=clock,
            size=3,
            internal_topics=INTERNAL,
            ask=self._ends,
            on_elected=self.elected_s.append,
        )
        self.ends: LogEnds = _no_ends

    async def _ends(
        self, node_id: int, keys: Sequence[PartitionKey]
    ) -> Mapping[PartitionKey, LogEnd]:
        return await self.ends(node_id, keys)

    def address_parts(self) -> tuple[str, int]:
        return self.address.host, self.address.port

    async def start(self) -> None:
        await self.keeper.start()
        await self.topics.load()
        await self.membership.bind()
        self.keeper.on_change(lambda _: self._watch())
        self.membership.on_registered(self._registered)
        self.pings.start(self.controlling.wake)
        await self.membership.register()
        self.membership.start()
        await self.membership.change_state(NodeState.ACTIVE)
        self.controlling.start()

    def _registered(self, incarnation: int) -> None:
        self.pings.incarnation = incarnation

    def _watch(self) -> None:
        self.pings.watch(self.keeper.view)

    async def vanish(self) -> None:
        """Be gone as a killed process is: nothing is said to anybody."""
        await self.controlling.stop()
        self.membership._is_ending = True
        for task in self.membership._tasks:
            task.cancel()
        await self.keeper.stop()
        await self.pings.stop()

    async def stop(self) -> None:
        await self.vanish()
        await self.membership.stop()


@asynccontextmanager
async def cluster(folder: Path, count: int = 3) -> AsyncIterator[list[_Node]]:
    store = await SqliteMetadataStore.open(
        folder / "metadata.db", disk=SystemDisk(), clock=SystemClock()
    )
    nodes = [_Node(store, number + 1) for number in range(count)]
    try:
        await asyncio.gather(*(node.start() for node in nodes))
        yield nodes
    finally:
        for node in nodes:
            await node.stop()
        await store.close()


async def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - of several shells at once
            await asyncio.sleep(0.01)


def controllers(nodes: list[_Node]) -> list[int]:
    return [node.node_id for node in nodes if node.controlling.is_controller]


@scenario
async def test_one_of_three_nodes_becomes_the_controller_and_makes_the_internal_topics(
    memory_folder: Path,
) -> None:
    async with cluster(memory_folder) as nodes:
        await until(lambda: len(controllers(nodes)) == 1)
        await until(lambda: "__consumer_offsets" in nodes[2].topics.catalogue.by_name)
        topic = nodes[2].topics.catalogue.topic("__consumer_offsets")
        assert topic.replication_factor == 3
        assert len(nodes[2].topics.records_of(topic)) == 3
        assert not any(node.pings.suspects() for node in nodes)
        assert await nodes[0].store.get("cluster/proof") is not None


@scenario
async def test_what_a_dead_node_led_is_led_by_others_within_a_second_or_two(
    memory_folder: Path,
) -> None:
    async with cluster(memory_folder) as nodes:
        await until(lambda: bool(controllers(nodes)))
        topic = await nodes[0].topics.create("orders", 9)
        dead = nodes[controllers(nodes)[0] - 1]
        left = [node for node in nodes if node is not dead]
        await dead.vanish()

        def is_led() -> bool:
            records = left[0].topics.records_of(topic).values()
            return all(each.value.leader not in {None, dead.node_id} for each in records)

        await until(is_led)
        await until(lambda: controllers(left) == [left[0].node_id])
        assert left[0].keeper.view.is_fenced(dead.node_id)
        for each in left[0].topics.records_of(topic).values():
            assert each.value.epoch <= 1
            if each.value.preferred == dead.node_id:
                assert dead.node_id not in each.value.isr
        assert left[0].elected_s
        assert all(each >= 0 for each in left[0].elected_s)
        assert not left[1].elected_s, "only the controller elects"


@scenario
async def test_an_election_that_fails_unexpectedly_is_sent_again(
    memory_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(memory_folder) as nodes:
        await until(lambda: bool(controllers(nodes)))
        topic = await nodes[0].topics.create("orders", 9)
        store, failed = nodes[0].store, list[str]()
        transact = store.transact

        async def failing(
            conditions: Sequence[Condition], operations: Sequence[Operation]
        ) -> TransactionResult:
            records = [each.key for each in operations if each.key.startswith(PARTITIONS)]
            if records and not failed and any(each.key == CONTROLLER for each in conditions):
                failed.extend(records)
                raise OSError("as of a socket")
            return await transact(conditions, operations)

        monkeypatch.setattr(store, "transact", failing)
        await nodes[2].vanish()

        def is_led() -> bool:
            records = nodes[0].topics.records_of(topic).values()
            return all(each.value.leader not in {None, 3} for each in records)

        await until(is_led)
        assert failed


@scenario
async def test_a_fenced_node_that_runs_registers_anew(memory_folder: Path) -> None:
    async with cluster(memory_folder) as nodes:
        two = nodes[1]
        before = two.membership.incarnation
        await two.store.transact([], [Put(fence_key(2), encode(Fence(before, "a test")))])
        await until(lambda: two.membership.incarnation > before)
        await until(lambda: nodes[0].keeper.view.is_active(2))
        node = nodes[0].keeper.view.nodes[2]
        assert node.incarnation == two.membership.incarnation


@scenario
async def test_a_fence_that_comes_while_a_registration_ends_is_not_overlooked(
    memory_folder: Path,
) -> None:
    async with cluster(memory_folder) as nodes:
        two = nodes[1]
        before = two.membership.incarnation
        ending = asyncio.Event()
        task: asyncio.Task[None] = asyncio.create_task(_waited(ending), name="registration")
        two.membership._tasks.add(task)
        task.add_done_callback(two.membership._tasks.discard)
        await two.store.transact([], [Put(fence_key(2), encode(Fence(before, "a test")))])
        await until(lambda: two.keeper.view.is_fenced(2))
        ending.set()
        await until(lambda: two.membership.incarnation > before)
        await until(lambda: nodes[0].keeper.view.is_active(2))


async def _waited(event: asyncio.Event) -> None:
    await event.wait()


@scenario
async def test_no_record_is_swept_while_a_topic_is_not_understood(memory_folder: Path) -> None:
    async with cluster(memory_folder) as nodes:
        topic = await nodes[0].topics.create("orders", 3)
        assert nodes[0].controlling._partition_counts() is not None
        await nodes[0].store.transact([], [Put("topics/strange", b"\xc1")])
        await until(lambda: "strange" in nodes[0].topics.unreadable)
        assert nodes[0].controlling._partition_counts() is None
        assert nodes[0].topics.catalogue.topic("orders") == topic
        await nodes[0].store.transact([], [Delete("topics/strange")])
        await until(lambda: not nodes[0].topics.unreadable)
        assert nodes[0].controlling._partition_counts() is not None


@scenario
async def test_a_lapsed_session_is_followed_by_another_in_the_same_incarnation(
    memory_folder: Path,
) -> None:
    async with cluster(memory_folder, 1) as (one,):
        before = one.membership.incarnation
        session = one.membership._session
        assert session is not None
        await one.store.end_session(session)
        await until(lambda: one.membership._session != session)
        await until(lambda: one.keeper.view.is_active(1))
        assert one.membership.incarnation == one.keeper.view.nodes[1].incarnation == before


@scenario
async def test_a_store_that_was_away_for_longer_than_a_session_moves_no_leader(
    memory_folder: Path,
) -> None:
    async with cluster(memory_folder) as nodes:
        await until(lambda: len(controllers(nodes)) == 1)
        await nodes[0].topics.refresh()
        topic = await nodes[0].topics.create("orders", 6)

        def leaders() -> list[tuple[int | None, int]]:
            found = nodes[0].topics.records_of(topic)
            return [(each.value.leader, each.value.epoch) for _, each in sorted(found.items())]

        before = leaders()
        assert {each for each, _ in before} == {1, 2, 3}
        sessions = [node.membership._session for node in nodes]
        for session in sessions:
            assert session is not None
            await nodes[0].store.end_session(session)  # as a store does that comes back late
        await until(
            lambda: all(
                node.membership._session not in sessions and node.keeper.view.is_active(node_id)
                for node in nodes
                for node_id in (1, 2, 3)
            )
        )
        await asyncio.sleep(1.0)  # the controller would elect in less
        assert leaders() == before


@scenario
async def test_a_node_whose_session_lapsed_and_that_does_not_return_is_replaced(
    memory_folder: Path,
) -> None:
    async with cluster(memory_folder) as nodes:
        await until(lambda: len(controllers(nodes)) == 1)
        await nodes[0].topics.refresh()
        topic = await nodes[0].topics.create("orders", 3)
        gone = nodes[2]
        assert gone.membership._session is not None
        for task in gone.membership._tasks:
            task.cancel()
        gone.membership._is_ending = True
        await gone.store.end_session(gone.membership._session)
        await until(
            lambda: all(
                each.value.leader != 3 for each in nodes[0].topics.records_of(topic).values()
            )
        )
        assert 3 in nodes[0].pings.lapsed() | nodes[1].pings.lapsed(), "it is heard"


@scenario
async def test_a_state_changes_within_an_incarnation(memory_folder: Path) -> None:
    async with cluster(memory_folder, 1) as (one,):
        before = one.membership.incarnation
        await one.membership.change_state(NodeState.STOPPING)
        node = one.keeper.view.nodes[1]
        assert node.record.state is NodeState.STOPPING
        assert node.incarnation == before


@scenario
async def test_a_second_node_of_the_same_id_is_refused_with_both_names(
    memory_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership_module, "_ANOTHER_S", 0.1)
    async with cluster(memory_folder, 1) as (one,):
        other = _Node(one.store, 1, "another")
        other.membership.record = replace(other.membership.record, name="impostor")
        with pytest.raises(ClusterMismatchError, match=r"'node-1' .*this is 'impostor'"):
            await other.membership.bind()


@scenario
async def test_a_node_whose_folder_was_lost_is_bound_to_the_new_one(memory_folder: Path) -> None:
    async with cluster(memory_folder, 1) as (one,):
        await one.stop()
        again = _Node(one.store, 1, "another")
        await again.keeper.start()
        await again.membership.bind()
        await again.keeper.reconcile()
        assert again.keeper.view.members[1].value.folder_id == "another"
        await again.keeper.stop()


@scenario
async def test_an_unclean_node_is_in_no_set_any_more(memory_folder: Path) -> None:
    async with cluster(memory_folder) as nodes:
        topic = await nodes[0].topics.create("orders", 130)
        await nodes[2].topics.refresh()
        await nodes[2].membership.strike()
        for each in nodes[2].topics.records_of(topic).values():
            assert 3 not in each.value.isr
            assert each.value.leader != 3


@scenario
async def test_a_partition_that_lost_something_is_struck_alone(memory_folder: Path) -> None:
    async with cluster(memory_folder) as nodes:
        topic = await nodes[0].topics.create("orders", 2)
        await nodes[2].topics.refresh()
        await nodes[2].membership.strike([PartitionKey(topic.topic_id, 1)])
        isrs = [each.value.isr for each in nodes[2].topics.records_of(topic).values()]
        assert [3 in isr for isr in isrs] == [True, False]


@scenario
async def test_records_follow_the_minimum_of_their_topic(memory_folder: Path) -> None:
    async with cluster(memory_folder) as nodes:
        topic = await nodes[0].topics.create("orders", 130)
        await nodes[0].topics.configure("orders", {"min.insync.replicas": "1"})
        await until(
            lambda: all(
                each.value.min_isr == 1 for each in nodes[0].topics.records_of(topic).values()
            )
        )


@scenario
async def test_pings_of_strangers_are_not_heard() -> None:
    clock = SystemClock()
    addresses = [NodeAddress("127.0.0.1", free_port()) for _ in range(2)]
    one, two = (
        Pings(number, secret, (where.host, where.port), clock=clock)
        for number, (secret, where) in enumerate(
            zip((b"a secret", b"another"), addresses, strict=True), start=1
        )
    )
    view = ClusterView()
    for number, where in enumerate(addresses, start=1):
        record = NodeRecord("n", "f", NodeState.ACTIVE, where, {})
        view.nodes[number] = NodeView(number, record, Revision(number))
    for each in (one, two):
        each.start(lambda: None)
        each.watch(view)
    try:
        await until(lambda: one.suspects() == {2} and two.suspects() == {1})
    finally:
        await one.stop()
        await two.stop()


@scenario
async def test_pings_measure_the_way_to_another_node_and_count_what_is_missed() -> None:
    clock, metrics = SystemClock(), Metrics("1")
    view = ClusterView()
    pings = []
    for number in (1, 2):
        where = NodeAddress("127.0.0.1", free_port())
        record = NodeRecord("n", "f", NodeState.ACTIVE, where, {})
        view.nodes[number] = NodeView(number, record, Revision(number))
        pings.append(Pings(number, b"a secret", (where.host, where.port), clock=clock))
        pings[-1].incarnation = number
    one, two = pings
    watch_latencies(one, view, metrics)
    for each in pings:
        each.start(lambda: None)
        each.watch(view)
    try:
        latency = metrics.histogram(cluster_names.NODES_LATENCY, "2")
        await until(lambda: sum(latency.counts) > 2 and two.received_count > 2)
        assert latency.total < sum(latency.counts), "each took less than a second"
        await two.stop()
        await until(lambda: one.missed_count > 0 and one.detection_count > 0)
        samples = Samples(100, partition_label=False)
        put_pings(samples, one)
        assert samples.values[cluster_names.HEARTBEATS_RECEIVED][()] == one.received_count
        assert abs(samples.values[cluster_names.CLOCK_SKEW]["2",]) < 1
    finally:
        await one.stop()
        await two.stop()


@scenario
async def test_when_every_replica_lost_data_the_longest_log_leads_once_all_are_back(
    memory_folder: Path,
) -> None:
    async with cluster(memory_folder) as nodes:
        topic = await nodes[0].topics.create("orders", 3)
        silent = {3}

        async def ends(node_id: int, keys: Sequence[PartitionKey]) -> dict[PartitionKey, LogEnd]:
            if node_id in silent:
                return {}
            incarnation = nodes[0].keeper.view.nodes[node_id].incarnation
            return {key: LogEnd(0, 10 * node_id, 0, incarnation) for key in keys}

        def records() -> list[Stored[PartitionRecord]]:
            return list(nodes[0].topics.records_of(topic).values())

        for node in nodes:
            node.ends = ends
            await node.topics.refresh()
            await node.membership.strike()
        await until(lambda: all(each.value.leader is None for each in records()))
        silent.clear()
        await until(lambda: all(each.value.leader == 3 for each in records()))
        assert all(each.value.isr == (3,) for each in records())
        assert all(set(each.value.struck) == {1, 2} for each in records())  # until it acts


class _Gate:
    """A store that a transaction reaches only when it is let through."""

    def __init__(self, store: SqliteMetadataStore) -> None:
        self._store = store
        self.is_open = asyncio.Event()
        self.held: list[TransactionResult] = []
        """What became of those that had to wait."""
        self.waiting = 0

    async def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> TransactionResult:
        is_held = not self.is_open.is_set() and any(each.key == CONTROLLER for each in conditions)
        self.waiting += is_held
        await self.is_open.wait()
        result = await self._store.transact(conditions, operations)
        if is_held:
            self.held.append(result)
        return result


@scenario
async def test_a_controller_that_stands_still_before_it_writes_changes_nothing_afterwards(
    memory_folder: Path,
) -> None:
    """It has read who is gone and decided who leads; another controller decides meanwhile."""
    async with cluster(memory_folder) as nodes:
        await until(lambda: len(controllers(nodes)) == 1)
        await nodes[0].topics.refresh()
        topic = await nodes[0].topics.create("orders", 6)
        (paused,) = (node for node in nodes if node.controlling.is_controller)
        alive = next(node for node in nodes if node is not paused)
        gone = next(node for node in nodes if node not in {paused, alive})
        gate = paused.controlling._store = _Gate(paused.store)  # type: ignore[assignment]
        await gone.vanish()
        await until(lambda: gate.waiting > 0)  # the fence of whoever is gone, or its elections
        await paused.pings.stop()
        await until(lambda: alive.controlling.is_controller)

        def records() -> list[Stored[PartitionRecord]]:
            return list(alive.topics.records_of(topic).values())

        await until(lambda: all(each.value.leader == alive.node_id for each in records()))
        before = [each.revision for each in records()]
        gate.is_open.set()
        await until(lambda: len(gate.held) == gate.waiting)
        assert all(isinstance(each, Conflict) for each in gate.held)
        assert [each.revision for each in records()] == before
