"""Whole nodes inside the test's own loop, for tests that look into the broker: one, or three.

With GOQUEUE_TEST_CLUSTER=3 these are the nodes of a cluster, over an etcd of their own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Final

# What a node imports in a thread is imported here: pytest rewrites modules as they are imported,
# and the parser of Python 3.11 cannot be used by two threads at once.
import goqueue.broker.cluster_broker
import goqueue.protocols.grpc.listener
import goqueue.protocols.http.node_api
import goqueue.protocols.http.server.listener
import goqueue.protocols.kafka.families
import goqueue.server.cluster.cluster_node
import goqueue.server.wiring  # noqa: F401
from goqueue.model.errors import DelaysUnavailableError, GoQueueError
from goqueue.model.internal_topics import DELAY_STATE
from goqueue.model.topic_partition import TopicPartition
from goqueue.server.cluster.internal_topics import internal_topics
from goqueue.server.config_load import load_config
from goqueue.server.etcd.binary import etcd_environment
from goqueue.server.etcd.command import EtcdMember, etcd_command
from goqueue.server.node import Node
from support.brokers import read_all
from support.cluster_server import with_few_partitions
from support.etcd import need_etcd
from support.server import HOST, are_siblings, free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.records import Record
    from goqueue.runtime.clock import Clock
    from goqueue.server.config import Config

CLUSTER: Final = bool(os.environ.get("GOQUEUE_TEST_CLUSTER"))
NODES: Final = 3
_WITHIN_S: Final = 60.0
_ANY_PORTS: Final = ("--kafka-port", "0", "--http-port", "0", "--grpc-port", "0")
_OF_A_CLUSTER: Final = (
    *("--broker-stop-timeout", "1s"),
    *("--storage-disk-limit-percent", "100"),
)


class Nodes:
    """What a test needs of them. Each request may go to the node that has its turn."""

    def __init__(self, nodes: list[Node]) -> None:
        self.all = nodes
        self._turns = cycle(nodes)

    def next(self) -> Node:
        """The node that has its turn."""
        return next(self._turns)

    @property
    def broker(self) -> Broker:
        """Of the first: any node makes topics and publishes."""
        return self.all[0].broker

    @property
    def address(self) -> str:
        """Of the Kafka listener of the node that has its turn."""
        return f"{HOST}:{self.next().kafka.port}"

    def leader(self, topic: str, partition: int = 0) -> Broker:
        """The broker that leads a partition now."""
        place = TopicPartition(topic, partition)
        return self._first(lambda broker: broker.partitions.resolve(place))

    def coordinator(self, group_id: str) -> Broker:
        """The broker that coordinates a group now, whatever its kind."""
        return self._first(lambda broker: broker.groups.coordinator(group_id))

    def _first(self, serves: Callable[[Broker], object]) -> Broker:
        refusal: GoQueueError
        for node in self.all:
            try:
                serves(node.broker)
            except GoQueueError as error:
                refusal = error
            else:
                return node.broker
        raise refusal

    async def coordinated(self, group_id: str) -> Broker:
        """The broker that coordinates a group, as soon as one does."""
        return await self._soon(lambda: self.coordinator(group_id))

    def of(self, broker: Broker) -> Node:
        """The node that a broker is part of."""
        return next(each for each in self.all if each.broker is broker)

    async def leading(self, topic: str) -> Node:
        """The node that leads partition 0 of a topic, as soon as one does."""
        return self.of(await self._soon(lambda: self.leader(topic)))

    async def records(self, topic: str) -> list[Record]:
        """Every record of partition 0 of a topic."""
        return await read_all(await self._soon(lambda: self.leader(topic)), topic)

    async def _soon(self, find: Callable[[], Broker]) -> Broker:
        async with asyncio.timeout(_WITHIN_S):
            while True:
                try:
                    return find()
                except GoQueueError:
                    if len(self.all) == 1:
                        raise
                await asyncio.sleep(0.02)

    async def stop_listening(self, timeout_s: float) -> None:
        """Send every client of Kafka's protocol away."""
        await asyncio.gather(*(each.kafka.stop(timeout_s) for each in self.all))


@asynccontextmanager
async def running_nodes(
    folder: Path,
    *flags: str,
    clock: Clock | None = None,
    environment: dict[str, str] | None = None,
    is_cluster: bool = CLUSTER,
) -> AsyncIterator[Nodes]:
    """One node on free ports, or a cluster whose nodes all know each other."""
    if not is_cluster:
        given = ["--data-dir", str(folder), *_ANY_PORTS, *flags]
        config = load_config(given, environment=environment or {})
        async with _started([Node(config, clock=clock)]) as nodes:
            yield nodes
        return
    ports = [free_ports(3)[0] for _ in range(NODES)]
    with _etcd(folder, ports):
        configs = _configs(folder, ports, flags, environment or {})
        async with _started([Node(each, clock=clock) for each in configs]) as nodes:
            for kind in ("kafka", "http", "grpc"):
                are_siblings(tuple(getattr(each, kind).port for each in nodes.all))
            async with asyncio.timeout(_WITHIN_S):
                while not all(_is_whole(each.broker) for each in nodes.all):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.02)
            yield nodes


def _is_whole(broker: Broker) -> bool:
    """Whether internal topics are there and led, as far as a node knows, and it can delay."""
    catalogue, facts = broker.topics.catalogue, broker.facts
    made = internal_topics(broker.settings, NODES)
    topics = [catalogue.by_name.get(name) for name in made]
    return all(
        topic is not None
        and all(
            facts.partition(topic.topic_id, number).leader is not None
            for number in range(topic.partition_count)
        )
        for topic in topics
    ) and any(_leads_unit(broker, unit) for unit in range(made[DELAY_STATE]))


def _leads_unit(broker: Broker, unit: int) -> bool:
    try:
        return broker.delays.shard(unit).state.is_active
    except DelaysUnavailableError:
        return False


def _configs(
    folder: Path, ports: list[int], flags: tuple[str, ...], environment: dict[str, str]
) -> list[Config]:
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_text("the secret of a test's cluster")
    common = [
        *("--cluster-peers", ",".join(f"{HOST}:{port}" for port in ports)),
        *("--cluster-secret-file", str(secret)),
        *_OF_A_CLUSTER,
        *_ANY_PORTS,
        *with_few_partitions(flags),
    ]
    own = [
        [
            *("--data-dir", str(folder / f"node-{number}")),
            *("--node-id", f"node-{number}"),
            *("--listeners-internal", f"{HOST}:{port}"),
        ]
        for number, port in enumerate(ports, start=1)
    ]
    return [load_config([*each, *common], environment=environment) for each in own]


@asynccontextmanager
async def _started(nodes: list[Node]) -> AsyncIterator[Nodes]:
    try:
        await asyncio.gather(*(each.start() for each in nodes))
        yield Nodes(nodes)
    finally:
        await asyncio.gather(*(each.stop() for each in nodes))


@contextmanager
def _etcd(folder: Path, ports: list[int]) -> Iterator[None]:
    """One etcd, which listens wherever the nodes expect one of theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    member = EtcdMember(
        name="only",
        data_folder=folder / "etcd",
        log_file=folder / "etcd.log",
        client_url=",".join(f"http://{HOST}:{port + 1}" for port in ports),
        peers={"only": f"http://{HOST}:{ports[0] + 2}"},
        token="tests",
    )
    process = subprocess.Popen(
        etcd_command(need_etcd(), member),
        env=etcd_environment(os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()
