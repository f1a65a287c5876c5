"""One node of a cluster inside the test's own loop; the others are only written down."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from goqueue.broker.cluster_broker import ClusterBroker
from goqueue.broker.log_broker import LogBroker
from goqueue.cluster.metadata import Committed, Delete, Put
from goqueue.cluster.records import (
    CONTROLLER,
    ControllerRecord,
    Fence,
    NodeAddress,
    NodeRecord,
    NodeState,
    PartitionKey,
    PartitionRecord,
    encode,
    fence_key,
    node_key,
)
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.cluster.view_facts import ViewFacts
from goqueue.cluster.view_keeper import ViewKeeper
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.model.errors import CoordinatorLoadingError, NotCoordinatorError
from goqueue.model.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.replication.holding import Held, Holding
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.families import build_registry
from goqueue.protocols.kafka.settings import Address, ListenerSettings
from goqueue.runtime.disk import SystemDisk
from goqueue.topics.replica_assignments import Replication
from support.clocks import ManualClock
from support.kafka_wire import WireClient
from support.views import LISTENER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import msgspec

    from goqueue.topics.catalogue import Topic

ME = 1
OTHERS = (2, 3)


class OneOfThree:
    """Node 1 of three. What the other two would write, the test writes."""

    def __init__(self, store: SqliteMetadataStore, folder: Path, **settings: Any) -> None:
        self.store = store
        self.keeper = ViewKeeper(store)
        self.facts = ViewFacts(self.keeper.view, ME)
        told = BrokerSettings(folder, node_id=ME, offsets_partitions=4, **settings)
        logs = LogBroker(told, store, clock=ManualClock(), facts=self.facts, keeper=self.keeper)
        self.broker = ClusterBroker.over(logs)
        self.broker.partitions.holding = Holding(self._held)
        self.address = ""

    def _held(self, topic: Topic, number: int) -> Held | None:
        known = self.facts.partition(topic.topic_id, number)
        return Held(known.epoch) if ME in known.replicas else None

    async def put(self, key: str, record: msgspec.Struct | None) -> None:
        """Write a key, and wait until this node has seen it."""
        operation = Delete(key) if record is None else Put(key, encode(record))
        result = await self.store.transact([], [operation])
        assert isinstance(result, Committed)
        await self.keeper.reached(result.revision)

    async def register(self, node_id: int) -> None:
        address = NodeAddress(f"host{node_id}", 9090 + node_id)
        record = NodeRecord(
            f"node-{node_id}", f"f{node_id}", NodeState.ACTIVE, address, {LISTENER: address}
        )
        await self.put(node_key(node_id), record)

    async def fence(self, node_id: int) -> None:
        """The controller takes a node for dead."""
        incarnation = self.keeper.view.nodes[node_id].incarnation
        await self.put(fence_key(node_id), Fence(incarnation))

    async def topic(self, name: str, *replicas: tuple[int, ...], **overrides: str) -> Topic:
        """A topic whose partitions are on these nodes, each led by the first of them."""
        topic = await self.broker.create_topic(
            name, len(replicas), overrides, Replication(assignments=replicas)
        )
        await self.follow(topic)
        return topic

    async def follow(self, topic: Topic) -> None:
        """Be what the records of a topic say that this node is."""
        partitions = self.broker.partitions
        await partitions.open_topic(topic)
        for partition in partitions.of_topic(topic):
            known = self.facts.partition(topic.topic_id, partition.id.partition)
            if known.leader == ME:
                await partitions.lead(partition.id, known.epoch)
                replica = partitions.replica(partition.id)
                assert replica is not None
                replica.advance(replica.log_end)
            else:
                await partitions.follow(partition.id, known.leader, known.epoch)

    async def place(self, topic: Topic, number: int, record: PartitionRecord) -> None:
        """Another node changes the record of a partition."""
        await self.put(str(PartitionKey(topic.topic_id, number)), record)
        await self.follow(topic)

    async def offsets_topic(self, *leaders: int) -> Topic:
        """The topic of groups, with one partition led by each of these nodes."""
        return await self.internal_topic(CONSUMER_OFFSETS, *leaders)

    async def internal_topic(self, name: str, *leaders: int) -> Topic:
        """A topic of coordinators, with one partition led by each of these nodes."""
        topics = self.broker.topics
        replicas = [(each, *({1, 2, 3} - {each})) for each in leaders]
        topic = await topics.create(
            name,
            len(leaders),
            INTERNAL_TOPICS[name],
            internal=True,
            replication=Replication(assignments=replicas),
        )
        await self.follow(topic)
        return topic

    async def loaded(self, group_id: str) -> None:
        """Wait until this node answers for a group."""
        for _ in range(200):
            try:
                self.broker.groups.coordinator(group_id)
            except (NotCoordinatorError, CoordinatorLoadingError):
                await asyncio.sleep(0.01)
            else:
                return
        raise AssertionError("not loaded")

    @asynccontextmanager
    async def committing(self, *names: str) -> AsyncIterator[None]:
        """Meanwhile the followers fetch whatever is appended to these topics."""

        async def commit() -> None:
            while True:
                for name in names:
                    self.commit_all(name)
                await asyncio.sleep(0.005)

        task = asyncio.ensure_future(commit())
        try:
            yield
        finally:
            task.cancel()

    async def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        """A request of Kafka's protocol, and its answer."""

        def call() -> Any:
            with WireClient(self.address) as client:
                return client.call(key, version, **fields)

        return await asyncio.to_thread(call)

    def commit_all(self, name: str) -> None:
        """The followers have fetched everything of a topic."""
        for partition in self.broker.partitions.of_topic(self.broker.topics.catalogue.topic(name)):
            replica = self.broker.partitions.replica(partition.id)
            if replica is not None and replica.is_leading:
                replica.advance(replica.log_end)


def place_of(topic: Topic, number: int) -> TopicPartition:
    return TopicPartition(topic.name, number)


@asynccontextmanager
async def one_of_three(folder: Path, **settings: Any) -> AsyncIterator[OneOfThree]:
    """Node 1, which serves Kafka's clients, of a cluster whose nodes are all registered."""
    clock = ManualClock()
    store = await SqliteMetadataStore.open(folder / "metadata.db", disk=SystemDisk(), clock=clock)
    made = OneOfThree(store, folder / "data", **settings)
    broker = made.broker
    try:
        await made.keeper.start()
        for node_id in (ME, *OTHERS):
            await made.register(node_id)
        await made.put(CONTROLLER, ControllerRecord(2, 1, 1))
        await broker.open()
        await broker.start_services()
        registry = build_registry(broker, {LISTENER: Address("host1", 9091)})
        listener = Listener(registry, ListenerSettings(port=0))
        await listener.start()
        made.address = f"127.0.0.1:{listener.port}"
        try:
            yield made
        finally:
            await listener.stop(0.1)
            await broker.stop()
    finally:
        await made.keeper.stop()
        await store.close()
