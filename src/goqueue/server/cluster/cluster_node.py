"""The parts that make a node one of a cluster, started in order and stopped in reverse.

`Node` starts them between its own: the metadata is joined before the partitions are opened, the
node is active before clients are let in, and everything is handed over before they are sent away.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import goqueue
from goqueue.cluster.etcd.store import EtcdMetadataStore
from goqueue.cluster.facts import GRPC_LISTENER, HTTP_LISTENER
from goqueue.cluster.hello import NodeIdentity
from goqueue.cluster.metadata import cluster_id
from goqueue.cluster.records import NodeAddress, NodeRecord, NodeState, PartitionKey
from goqueue.cluster.secret_check import check_secret
from goqueue.cluster.view_facts import ViewFacts
from goqueue.cluster.view_keeper import ViewKeeper
from goqueue.metrics import cluster_names, names
from goqueue.model.errors import MetadataUnavailableError
from goqueue.partitions.replication.replicas import ReplicaHost, Replicas, ReplicaSettings
from goqueue.partitions.replication.traffic import ReplicationTraffic
from goqueue.server.cluster.controlling import Controlling
from goqueue.server.cluster.full_disk import FullDisk
from goqueue.server.cluster.internal_topics import internal_topics
from goqueue.server.cluster.membership import Membership
from goqueue.server.cluster.node_folder import NodeFolder
from goqueue.server.cluster.node_listener import NodeListener
from goqueue.server.cluster.node_metrics import (
    put_pings,
    put_replication_lag,
    watch_latencies,
)
from goqueue.server.cluster.peers import PeerConnections
from goqueue.server.cluster.pings import Pings
from goqueue.server.cluster.recovering import NodeLogEnds
from goqueue.server.config_cluster_checks import read_secret
from goqueue.server.errors import StartError
from goqueue.server.security.peer_tls import PeerTls
from goqueue.server.supervision.etcd_child import client_urls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.broker.log_broker import LogBroker
    from goqueue.cluster.view_keeper import Touched
    from goqueue.metrics.registry import Metrics, Samples
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.replication.topic_changes import ClusterTopicChanges
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.server.cluster.node_folder import FolderIdentity
    from goqueue.server.config import Config
    from goqueue.topics.cluster_catalogue import ClusterTopics

logger = logging.getLogger(__name__)

_WAIT_S: Final = 0.2
_TOLD_S: Final = 5.0
"""How often a start says what it waits for."""
_HAND_OVER_S: Final = 5.0
"""How long the followers of what this node leads have to fetch what is missing, at a stop."""
_LEAVE_S: Final = 2.0
"""How long this node waits, at a stop, to be out of every in-sync set."""
_STORE_S: Final = 3.0
"""How long a stop waits for the store to note that this node is stopping."""
_PART_S: Final = 10.0
DEGRADED_S: Final = 3.0
"""A node that has not heard from the store for so long is degraded: it goes on, nothing changes."""


class ClusterNode:
    """One node's part in its cluster."""

    def __init__(
        self,
        config: Config,
        started: Callable[[str, Callable[[], Awaitable[None]], float], None],
        *,
        disk: Disk,
        clock: Clock,
    ) -> None:
        """`started` takes each part that is running, with how to stop it and how long that takes.

        Raises:
            StartError: the folder belongs to somebody else, or the secret cannot be read.
        """
        self.node_id = config.broker_id
        self._config = config
        self._started = started
        self._disk = disk
        self._clock = clock
        self._folder = NodeFolder(config.broker.data_dir, disk)
        self._known = self._folder.load(self.node_id)
        self.tls = _peer_tls(config)
        """Of connections between nodes; None without TLS."""
        self.store = EtcdMetadataStore(
            client_urls(config), clock=clock, tls=None if self.tls is None else self.tls.calling
        )
        self.keeper = ViewKeeper(self.store)
        self.facts = ViewFacts(self.keeper.view, self.node_id, clock.monotonic_s)
        self.identity = NodeIdentity("", self.node_id, _secret(config))
        self.peers: PeerConnections
        self.listener: NodeListener
        self.membership: Membership
        self.pings: Pings
        self.controlling: Controlling
        self.replicas: Replicas
        self.is_closed_cleanly = False
        """Set once the logs are closed."""
        self._opened: Partitions | None = None
        """Set once every log was opened: one that was not may hold what is not on the disk."""
        self._folder_identity: FolderIdentity
        self._metrics: Metrics

    # --- Starting --------------------------------------------------------------------------------

    async def join(self, listener: str, address: tuple[str, int]) -> str:
        """Find the cluster and this node's place in it; returns the cluster's id.

        Clients come to `address`, by the listener of that name.

        Raises:
            ClusterMismatchError: the folder belongs to another cluster, or another node of the same
                id is running.
        """
        self._started("metadata", self.store.close, _PART_S)
        name = await self._found_cluster()
        await check_secret(self.store, self.identity.secret, self._config.cluster.secret_file)
        self.identity.cluster_id = name
        folder = self._folder.identify(self._known, name, self.node_id)
        self._folder_identity = folder
        await self.keeper.start()
        self._started("view of the cluster", self.keeper.stop, _PART_S)
        internal = self._config.cluster.addresses[self.node_id - 1]
        record = NodeRecord(
            name=self._config.broker.node_id,
            folder_id=folder.folder_id,
            state=NodeState.STARTING,
            internal=NodeAddress(*internal),
            listeners={listener: NodeAddress(*address)},
            boot_id=folder.boot_id,
            version=goqueue.__version__,
            is_clean=not folder.is_unclean,
        )
        self.membership = Membership(
            self.node_id, record, self.store, self.keeper, clock=self._clock
        )
        await self.membership.bind()
        self._folder.take(folder)
        self._started("registration", self.membership.stop, _PART_S)
        self._started("stop marker", self._mark_stop, _PART_S)
        return name

    async def _found_cluster(self) -> str:
        """The id in the store, as soon as most of its members are there."""
        told_s = began_s = self._clock.monotonic_s()
        while True:
            try:
                return await cluster_id(self.store)
            except MetadataUnavailableError as error:
                now_s = self._clock.monotonic_s()
                if now_s - told_s >= _TOLD_S:
                    told_s = now_s
                    logger.warning(
                        "waiting for the metadata store, for %.0f s now: %s", now_s - began_s, error
                    )
            await asyncio.sleep(_WAIT_S)

    async def serve_nodes(self, logs: LogBroker) -> None:
        """Let the other nodes in and be known to them, as one that is starting."""
        config = self._config
        traffic = ReplicationTraffic(logs.metrics)
        self._metrics = logs.metrics
        self.peers = PeerConnections(
            self.identity,
            self._address_of,
            None if self.tls is None else self.tls.calling,
            traffic,
        )
        logs.routes.connect(self.peers)
        host = ReplicaHost(
            self.identity,
            self.keeper,
            self.store,
            self.peers,
            self._clock,
            logs.executor,
            self._disk,
            config.broker.data_dir,
            lambda: self.membership.contact_s,
            traffic,
        )
        settings = ReplicaSettings(lag_s=config.cluster.replica_lag_ms / 1000)
        self.replicas = Replicas(host, logs.partitions, logs.topics, settings)
        self.full_disk = FullDisk(self.replicas, self.membership.tell_full)
        logs.open_partitions = self._open_replicas
        logs.files.on_loss = lambda _: self._folder.doubt(self._folder_identity)
        changes = cast("ClusterTopicChanges", logs.topic_changes)
        changes.start_followed = self.replicas.led.start_followed
        await self._listen(logs)
        self.membership.on_registered(self._registered)
        self.keeper.on_change(self._on_change)
        await self.membership.register()
        self.membership.start()

    async def _open_replicas(self) -> list[TopicPartition]:
        """Open them; what one has lost is remembered before anything else can end this run."""
        lost = await self.replicas.open()
        if lost:
            await asyncio.to_thread(self._folder.doubt, self._folder_identity)
        return lost

    async def _listen(self, logs: LogBroker) -> None:
        address = self._config.listeners.internal
        tls = None if self.tls is None else self.tls.listening
        self.listener = NodeListener(self.identity, self._incarnation_of, address, tls)
        self.pings = Pings(self.node_id, self.identity.secret, address, clock=self._clock)
        self.facts.skews_ms = self.pings.skews_ms
        await self.listener.start(logs, self.replicas.feed)
        self._started("connections to nodes", partial(_close, self.peers), _PART_S)
        self._started("listener for nodes", partial(self.listener.stop, _LEAVE_S), _PART_S)
        self.pings.start(self._suspected)
        self._started("pings", self.pings.stop, _PART_S)

    async def activate(self, logs: LogBroker) -> None:
        """Take part, once the partitions are open: first tell what may be missing in them."""
        self._opened = logs.partitions
        lost = self.replicas.unclean()
        if self._folder_identity.is_unclean:
            if self._known is not None:
                logger.warning("this node may have lost data: it leaves every in-sync set first")
            await self.membership.strike()
        elif lost:
            logger.warning("data was lost of %s", ", ".join(map(str, lost)))
            by_name = logs.topics.catalogue.by_name
            await self.membership.strike(
                [
                    PartitionKey(by_name[each.topic].topic_id, each.partition)
                    for each in lost
                    if each.topic in by_name  # or it was deleted meanwhile
                ]
            )
        await asyncio.to_thread(self._folder.settle, self._folder_identity)
        await self.membership.change_state(NodeState.ACTIVE)
        self.replicas.start()
        self._started("replicas", self.replicas.stop, _PART_S)
        self._started("full disk", self.full_disk.stop, _PART_S)
        self.controlling = Controlling(
            self.store,
            self.keeper,
            self.pings,
            self.membership,
            cast("ClusterTopics", logs.topics),
            clock=self._clock,
            size=len(self._config.cluster.peers),
            internal_topics=internal_topics(logs.settings, len(self._config.cluster.peers)),
            ask=NodeLogEnds(self.identity, self.peers, logs),
            on_elected=self._metrics.histogram(cluster_names.ELECTION_LATENCY).observe,
        )
        self.controlling.start()
        self._started("controller", self.controlling.stop, _PART_S)

    async def advertise(self, listener: str, address: tuple[str, int]) -> None:
        """Say where clients find this node, now that its port is known."""
        await self.membership.advertise({listener: NodeAddress(*address)})

    async def clients_are_served(self, http_port: int, grpc_port: int) -> None:
        """From now on a stop hands over first. Say where HTTP and gRPC are, on the same host."""
        told = self.membership.record.listeners
        host = next(iter(told.values())).host
        calls = {
            HTTP_LISTENER: NodeAddress(host, http_port),
            GRPC_LISTENER: NodeAddress(host, grpc_port),
        }
        await self.membership.advertise({**told, **calls})
        self._started("leadership", self._hand_over, _STORE_S + _HAND_OVER_S + 2 * _LEAVE_S)

    # --- What others tell ------------------------------------------------------------------------

    def _registered(self, incarnation: int) -> None:
        self.identity.incarnation = self.pings.incarnation = incarnation
        logger.info("node %d is registered in incarnation %d", self.node_id, incarnation)

    def _on_change(self, touched: Touched) -> None:
        if touched.nodes:
            self.pings.watch(self.keeper.view)
            watch_latencies(self.pings, self.keeper.view, self._metrics)
            for node_id in touched.nodes:
                if not self.keeper.view.is_alive(node_id):
                    self.peers.lose(node_id, "the cluster takes it for dead, or it has stopped")

    def _suspected(self) -> None:
        suspects = self.pings.suspects()
        if suspects:
            logger.warning("no heartbeats from nodes %s", ", ".join(map(str, sorted(suspects))))
        if hasattr(self, "controlling"):
            self.controlling.wake()

    def _address_of(self, node_id: int) -> NodeAddress | None:
        node = self.keeper.view.nodes.get(node_id)
        return None if node is None else node.record.internal

    def _incarnation_of(self, node_id: int) -> int | None:
        node = self.keeper.view.nodes.get(node_id)
        return None if node is None else node.incarnation

    def degradation(self) -> str | None:
        """Why nothing can change in the cluster at the moment; None when all is well."""
        silent_s = self._clock.monotonic_s() - self.membership.contact_s
        if silent_s > DEGRADED_S:
            return f"the metadata store has not answered for {silent_s:.0f} s"
        if not self.keeper.is_current:
            return "changes of the metadata do not arrive"
        return None

    def put(self, samples: Samples) -> None:
        """What is measured of the cluster."""
        view = self.keeper.view
        since_s = self.controlling.since_s
        samples.put(names.NODES, len(view.members.keys() | view.nodes.keys()))
        samples.put(names.NODES_HEALTHY, sum(1 for _ in view.active()))
        samples.put(names.IS_CONTROLLER, self.controlling.is_controller)
        age_s = 0.0 if since_s is None else self._clock.monotonic_s() - since_s
        samples.put(names.CONTROLLER_AGE, age_s)
        put_pings(samples, self.pings)
        put_replication_lag(samples, self.replicas)

    # --- Stopping --------------------------------------------------------------------------------

    async def _hand_over(self) -> None:
        """Let others lead and be in sync, while clients are still served and told where to go."""
        try:
            async with asyncio.timeout(_STORE_S):
                await self.membership.change_state(NodeState.STOPPING)
        except TimeoutError:
            logger.warning("the metadata store does not answer: nothing is handed over")
            return
        left = await self.replicas.hand_over(_HAND_OVER_S)
        if left:
            logger.warning(
                "leadership of %d partitions was not handed over: no other replica is in sync", left
            )
        try:
            async with asyncio.timeout(_LEAVE_S):
                while self._is_in_sync():  # noqa: ASYNC110 - of all partitions at once
                    await asyncio.sleep(_WAIT_S / 10)
        except TimeoutError:
            logger.info(
                "this node stops while it is in some in-sync sets; their leaders will remove it"
            )

    def _is_in_sync(self) -> bool:
        """Whether somebody else who leads still counts on this node."""
        return any(
            self.node_id in each.value.isr
            and each.value.leader is not None
            and each.value.leader != self.node_id
            and self.keeper.view.is_alive(each.value.leader)
            for each in self.keeper.view.partitions.values()
        )

    async def _mark_stop(self) -> None:
        opened = self._opened
        if self.is_closed_cleanly and opened is not None and not opened.has_unclosed:
            await asyncio.to_thread(self._folder.mark_clean)


def _secret(config: Config) -> bytes:
    path = config.cluster.secret_file
    if path is None:
        return b""
    try:
        return read_secret(path)
    except OSError as error:
        raise StartError(f"cluster.secret_file {path} cannot be read: {error.strerror}") from error


def _peer_tls(config: Config) -> PeerTls | None:
    cluster = config.cluster
    if not cluster.tls_enabled:
        return None
    if not (cluster.tls_cert_file and cluster.tls_key_file and cluster.tls_ca_file):
        raise StartError("cluster.tls_enabled is true: give a certificate, its key and its CA")
    return PeerTls(cluster.tls_cert_file, cluster.tls_key_file, cluster.tls_ca_file)


async def _close(peers: PeerConnections) -> None:
    peers.close()
