"""Nodes that replicate: real partitions and real sockets in one loop, one store for the metadata.

There is no controller: a test elects by writing records, as a controller does.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from goqueue.cluster.elections import led_by, with_isr
from goqueue.cluster.hello import NodeIdentity
from goqueue.cluster.metadata import Committed, Condition, Delete, Put
from goqueue.cluster.records import (
    Fence,
    NodeAddress,
    NodeRecord,
    NodeState,
    PartitionKey,
    PartitionRecord,
    decode,
    encode,
    fence_key,
    new_token,
    node_key,
)
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.cluster.view_keeper import ViewKeeper
from goqueue.metrics.registry import Metrics
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.damage import DamageReports
from goqueue.partitions.due_marks import MaintenanceMarks
from goqueue.partitions.measures import Measures
from goqueue.partitions.partitions import Partitions
from goqueue.partitions.replication.replicas import ReplicaHost, Replicas, ReplicaSettings
from goqueue.partitions.replication.traffic import ReplicationTraffic
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.internal.batches import BatchesApi
from goqueue.protocols.kafka.internal.families import internal_registry, internal_settings
from goqueue.protocols.kafka.internal.replica_fetch import ReplicaFetchApi
from goqueue.records import Record, encode as encode_batch
from goqueue.records.batch import peek
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from goqueue.server.cluster.peers import PeerConnections
from goqueue.storage.open_files import OpenFiles, SharedFiles
from goqueue.topics.cluster_catalogue import ClusterTopics
from goqueue.topics.replica_assignments import Replication

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from goqueue.partitions.partition import Placed
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.runtime.disk import Disk
    from goqueue.server.security.peer_tls import PeerTls

SECRET = b"of the tests"
TOPIC = "t"


class ReplicaNode:
    """One node: its view, its partitions, its listener."""

    patches = False
    """Whether others get batches of it for theirs that are damaged."""

    def __init__(
        self,
        node_id: int,
        folder: Path,
        store: SqliteMetadataStore,
        settings: ReplicaSettings,
        disk: Disk | None = None,
        *,
        tls: PeerTls | None = None,
    ) -> None:
        self.node_id = node_id
        self._tls = tls
        self.is_cut = False
        """Whether it reaches nobody."""
        self.identity = NodeIdentity("c", node_id, SECRET)
        self.store = store
        self.folder = folder
        self.disk = disk or SystemDisk()
        self.clock = SystemClock()
        self.executor = ThreadPoolExecutor(4)
        self.keeper = ViewKeeper(store)
        self.view = self.keeper.view
        self.topics = ClusterTopics(store, {}, self.keeper, self.clock)
        shared = SharedFiles(self.disk, OpenFiles(4000), folder)
        self.marks = MaintenanceMarks()
        self.partitions = Partitions(
            folder / "topics",
            self.topics,
            shared,
            self.clock,
            executor=self.executor,
            measures=Measures(Metrics("")),
            marks=self.marks,
            damage=DamageReports(Metrics("")),
        )
        calling = None if tls is None else tls.calling
        self.metrics = Metrics(str(node_id))
        traffic = ReplicationTraffic(self.metrics)
        self.peers = PeerConnections(self.identity, self._address_of, calling, traffic)
        self.store_heard_s = self.clock.monotonic_s
        host = ReplicaHost(
            self.identity,
            self.keeper,
            store,
            self.peers,
            self.clock,
            self.executor,
            self.disk,
            folder,
            lambda: self.store_heard_s(),  # noqa: PLW0108 - tests replace it
            traffic,
        )
        self.replicas = Replicas(host, self.partitions, self.topics, settings)
        self.api = ReplicaFetchApi(self.replicas.feed)
        self.listener: Listener | None = None
        self.port = 0

    def _address_of(self, node_id: int) -> NodeAddress | None:
        node = self.view.nodes.get(node_id)
        return None if node is None or self.is_cut else node.record.internal

    def _registered(self, node_id: int) -> int | None:
        node = self.view.nodes.get(node_id)
        return None if node is None else node.incarnation

    async def listen(self) -> None:
        nothing = SimpleNamespace(catalogue=SimpleNamespace(by_id={}))
        batches = BatchesApi(self.topics if self.patches else cast("Any", nothing), self.partitions)
        registry = internal_registry(self.identity, self._registered, self.api, batches)
        tls = None if self._tls is None else self._tls.listening
        self.listener = Listener(registry, internal_settings("127.0.0.1", self.port, tls))
        await self.listener.start()
        self.port = self.listener.port

    async def deafen(self) -> None:
        """Take the listener and its connections away, as a cut network does."""
        assert self.listener is not None
        for connection in list(self.listener._connections):
            connection.abort()
        await self.listener.stop(deadline_s=1.0)
        for session in list(self.api._sessions):
            self.api._lost(session)
        self.listener = None

    def hang_up(self, node_id: int) -> None:
        """Abort every connection of another node to this one."""
        if self.listener is not None:
            for connection in list(self.listener._connections):
                node = connection.session.node
                if node is not None and node.node_id == node_id:
                    connection.abort()

    async def start(self) -> None:
        await self.listen()
        await self.keeper.start()
        await self.topics.load()
        revision = await self.register(NodeState.ACTIVE)
        self.identity.incarnation = revision
        await self.keeper.reached(revision)
        self.unclean = await self.replicas.open()
        self.replicas.start()

    async def register(self, state: NodeState, *, is_full: bool = False) -> Any:
        record = NodeRecord(
            f"n{self.node_id}",
            "f",
            state,
            NodeAddress("127.0.0.1", self.port),
            {},
            incarnation=self.identity.incarnation,
            is_full=is_full,
        )
        operations: list[Put | Delete] = [Put(node_key(self.node_id), encode(record))]
        operations.append(Delete(fence_key(self.node_id)))
        result = await self.store.transact([], operations)
        assert isinstance(result, Committed)
        return result.revision

    async def register_again(self) -> None:
        """Be a run of the node that was never fenced."""
        self.identity.incarnation = 0
        revision = await self.register(NodeState.ACTIVE)
        self.identity.incarnation = revision
        await self.keeper.reached(revision)
        for fetcher in self.replicas.followed.fetchers.values():
            if fetcher._link is not None:
                fetcher._link.close()

    async def stop(self) -> None:
        """End this run; the logs are closed, the registration goes."""
        await self.replicas.stop()
        if self.listener is not None:
            await self.deafen()
        self.peers.close()
        await self.keeper.stop()
        await self.partitions.close()
        await self.store.transact([], [Delete(node_key(self.node_id))])
        self.executor.shutdown()

    def partition(self, number: int = 0, topic: str = TOPIC) -> ReplicatedPartition:
        found = self.partitions.replica(TopicPartition(topic, number))
        assert found is not None
        return found

    def publish(self, *values: bytes, number: int = 0, size: int = 0) -> Placed:
        """One batch of these values into a partition that this node leads."""
        now_ms = self.clock.now_ms()
        records = [
            Record(at, now_ms, None, value.ljust(size, b"."), ()) for at, value in enumerate(values)
        ]
        batch = bytearray(encode_batch(records))
        return self.partition(number).append(batch, peek(batch))

    def stored(self, number: int = 0) -> bytes:
        """Every byte of a partition."""
        partition = self.partition(number)
        return b"".join(bytes(chunk.data) for chunk in partition.chunks(partition.log_start))


class ReplicaCluster:
    """Some nodes, and what a controller would write."""

    def __init__(self, folder: Path, store: SqliteMetadataStore, settings: ReplicaSettings) -> None:
        self.folder = folder
        self.store = store
        self.settings = settings
        self.nodes: dict[int, ReplicaNode] = {}
        self.tls: dict[int, PeerTls] = {}
        """The certificates of nodes that have some."""

    async def add(self, node_id: int, disk: Disk | None = None) -> ReplicaNode:
        folder = self.folder / f"node-{node_id}"
        folder.mkdir(exist_ok=True)
        node = ReplicaNode(
            node_id, folder, self.store, self.settings, disk, tls=self.tls.get(node_id)
        )
        if node_id in self.nodes:
            node.port = self.nodes[node_id].port
        self.nodes[node_id] = node
        await node.start()
        return node

    async def stop(self, node_id: int) -> None:
        await self.nodes.pop(node_id).stop()

    def __getitem__(self, node_id: int) -> ReplicaNode:
        return self.nodes[node_id]

    async def create(self, count: int = 1, **overrides: str) -> PartitionKey:
        """A topic whose partitions node 1 leads and all hold."""
        overrides = {name.replace("_", "."): value for name, value in overrides.items()}
        everywhere = tuple(sorted(self.nodes))
        first = next(iter(self.nodes.values()))
        topics = first.topics
        await until(lambda: first.view.nodes.keys() >= set(everywhere))
        wanted = Replication(assignments=[everywhere] * count)
        topic = await topics.create(TOPIC, count, overrides, replication=wanted)
        return PartitionKey(topic.topic_id, 0)

    async def record(self, key: PartitionKey) -> tuple[PartitionRecord, Any]:
        entry = await self.store.get(str(key))
        assert entry is not None
        return decode(entry.value, PartitionRecord, entry.key), entry.revision

    async def elect(self, key: PartitionKey, leader: int | None, isr: tuple[int, ...] = ()) -> int:
        """Let another node lead, from the next epoch on; returns that."""
        record, revision = await self.record(key)
        view = next(iter(self.nodes.values())).view
        after = led_by(with_isr(record, isr or record.isr), leader, record, view)
        await self.write(key, after, revision)
        return after.epoch

    async def write(self, key: PartitionKey, record: PartitionRecord, revision: Any = None) -> None:
        """Change the record of a partition, which is the one of that revision, or any."""
        conditions = [] if revision is None else [Condition(str(key), revision)]
        operation = Put(str(key), encode(replace(record, token=new_token())))
        result = await self.store.transact(conditions, [operation])
        assert isinstance(result, Committed), result

    async def assign(self, key: PartitionKey, *replicas: int) -> None:
        """Let these nodes hold a partition, and no other."""
        record, revision = await self.record(key)
        isr = tuple(each for each in record.isr if each in replicas)
        await self.write(key, replace(record, replicas=replicas, isr=isr), revision)

    async def fence(self, node_id: int) -> None:
        incarnation = self.nodes[node_id].identity.incarnation
        await self.store.transact([], [Put(fence_key(node_id), encode(Fence(incarnation)))])

    def cut(self, node_id: int) -> None:
        """Let a node reach nobody; others still reach it, and it the store."""
        self[node_id].is_cut = True
        for node in self.nodes.values():
            node.hang_up(node_id)

    def heal(self, node_id: int) -> None:
        self[node_id].is_cut = False

    async def led(self, key: PartitionKey, node_id: int) -> ReplicatedPartition:
        """Wait until a node leads a partition."""
        await until(lambda: key in self[node_id].replicas.led.by_key)
        partition = self[node_id].partition(key.partition)
        await until(lambda: partition.is_leading)
        return partition

    async def isr(self, key: PartitionKey, *nodes: int) -> None:
        """Wait until these nodes are in sync, by the store."""
        async with asyncio.timeout(20):
            while set((await self.record(key))[0].isr) != set(nodes):  # noqa: ASYNC110 - of the store
                await asyncio.sleep(0.02)

    async def committed(self, end: int, *nodes: int, number: int = 0) -> None:
        """Wait until nodes know that everything up to an offset is committed."""
        for each in nodes or tuple(self.nodes):
            find = partial(self[each].partitions.replica, TopicPartition(TOPIC, number))
            await until(
                lambda find=find: (found := find()) is not None and found.high_watermark >= end  # type: ignore[misc]
            )


@asynccontextmanager
async def replicating(
    folder: Path, count: int = 3, settings: ReplicaSettings | None = None
) -> AsyncIterator[ReplicaCluster]:
    """Nodes 1 to `count`, started."""
    store = await SqliteMetadataStore.open(
        folder / "metadata.db", disk=SystemDisk(), clock=SystemClock()
    )
    cluster = ReplicaCluster(folder, store, settings or ReplicaSettings())
    try:
        for node_id in range(1, count + 1):
            await cluster.add(node_id)
        yield cluster
        for node in cluster.nodes.values():
            for partition in node.partitions:
                partition.check_invariants()
    finally:
        for node_id in list(cluster.nodes):
            await cluster.stop(node_id)
        await store.close()


async def until(condition: Callable[[], bool], wait_s: float = 20.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(wait_s):
        while not condition():  # noqa: ASYNC110 - of whatever the nodes do
            await asyncio.sleep(0.005)
