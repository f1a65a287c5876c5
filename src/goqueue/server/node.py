"""The composition root: the parts of one node, started in order and stopped in reverse.

What is written here is which part gets which other part; what a part does is written in its own
package. A start that fails half-way stops what it had started.

Loading the code takes most of a start. So each part is loaded when it is its turn, in a thread:
meanwhile the disk syncs what the first start makes, and clients of the listeners that are there
are served. Kafka's listener is there as soon as the partitions are open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cluster.metadata import MetadataStore, cluster_id
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.metrics import names
from goqueue.metrics.registry import Metrics, Samples
from goqueue.protocols.kafka.settings import Address
from goqueue.runtime.clock import Clock, SystemClock
from goqueue.runtime.disk import Disk, SystemDisk
from goqueue.server.folder import METADATA_FILE, DataFolder
from goqueue.server.http_calls import HttpCalls
from goqueue.server.listening import listening
from goqueue.server.security.audit import copy_audit, start_audit
from goqueue.server.security.certificates import Certificates, load_certificates
from goqueue.server.security.renewal import Renewal

if TYPE_CHECKING:
    import ssl

    from goqueue.broker.broker import Broker
    from goqueue.broker.log_broker import LogBroker
    from goqueue.partitions.maintenance import Maintenance
    from goqueue.protocols.connected import ConnectedClient
    from goqueue.protocols.grpc.carried import CarriedCalls
    from goqueue.protocols.grpc.listener import GrpcListener
    from goqueue.protocols.http.api.app import HttpApp
    from goqueue.protocols.http.api.served_node import EffectiveSetting
    from goqueue.protocols.http.server.listener import HttpListener
    from goqueue.protocols.kafka.connection.listener import Listener
    from goqueue.server.cluster.cluster_node import ClusterNode
    from goqueue.server.config import Config

logger = logging.getLogger(__name__)

_GRACE_S: Final = 5.0
"""What a part that cuts itself off at its deadline may need beyond it."""
_BROKER_S: Final = 60.0
"""How long closing the logs may take. A broker that is cut off has lost nothing that was
acknowledged: the next start recovers its logs."""
_MAINTENANCE_S: Final = 30.0
_STORE_S: Final = 10.0
_WEBHOOKS_S: Final = 10.0

_FIRST_FAMILIES: Final = "goqueue.protocols.kafka.first_families"
_LISTENER: Final = "goqueue.protocols.kafka.connection.listener"


class _Part(msgspec.Struct, frozen=True):
    """Something that was started and has to be stopped."""

    name: str
    stop: Callable[[], Awaitable[None]]
    deadline_s: float


class Node:
    """One broker with everything around it."""

    def __init__(
        self, config: Config, *, disk: Disk | None = None, clock: Clock | None = None
    ) -> None:
        self.config = config
        self.broker: Broker
        self.maintenance: Maintenance
        self.store: MetadataStore
        self.metrics: Metrics | None = None
        self.kafka: Listener
        self.http: HttpListener
        self.grpc: GrpcListener
        self.cluster: ClusterNode | None = None
        """What makes this node one of a cluster; None of a node on its own."""
        self.is_started = self.is_ready = False
        self._disk = disk or SystemDisk()
        self._clock = clock or SystemClock()
        self._began_s = self._clock.monotonic_s()
        self._parts: list[_Part] = []
        self.renewal = Renewal(config.tls.reload_ms / 1000, self._started)
        """The certificates, which may change while the node runs."""
        self._stop_broker: Callable[[], Awaitable[None]]
        """Stops as much of the broker as there is."""
        self._advertised: dict[str, Address] = {}
        """Where clients of each Kafka listener come back to, by its name."""
        self._listeners: list[Listener | HttpListener] = []

    @property
    def uptime_s(self) -> float:
        """Since this node was made."""
        return self._clock.monotonic_s() - self._began_s

    @property
    def connection_count(self) -> int:
        """Connections of clients that are open now; gRPC does not tell."""
        return sum(each.connection_count for each in self._listeners)

    def clients(self) -> list[ConnectedClient]:
        """Who is connected now, on every listener of clients."""
        found = [client for each in self._listeners for client in each.clients()]
        return found + (self.grpc.clients() if hasattr(self, "grpc") else [])

    def effective_settings(self) -> list[EffectiveSetting]:
        """The configuration that this node runs with; secrets are masked."""
        from goqueue.server.config_docs import effective_settings  # noqa: PLC0415 - rarely wanted

        return effective_settings(self.config, self.broker.configs)

    @property
    def degradation(self) -> str | None:
        """Why nothing can change in the cluster, while clients are served as before."""
        return None if self.cluster is None else self.cluster.degradation()

    # --- Starting --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every part; clients are served when this returns.

        Raises:
            StartError: the folder is in use, an address cannot be listened on, a certificate
                cannot be used, or nobody could log in.
            GoQueueError: the stored data cannot be opened.
        """
        try:
            self._hold_folder()
            certificates = self._start_tls()
            tls = None if certificates is None else certificates.context
            logs = await self._open_logs(tls)
            if self.cluster is not None:
                await self.cluster.activate(logs)
            await self._start_kafka(logs, tls)
            await self._start_services(logs)
            await self._start_http(tls)
            await self._start_grpc(certificates)
            if self.cluster is not None:
                await self.cluster.clients_are_served(self.http.port, self.grpc.port)
        except BaseException:
            await self.stop()
            raise
        self.broker.metrics.add_source(self._put_connections)
        self.broker.metrics.add_source(self._put_node)
        self.renewal.tell(self.broker)
        self.is_started = self.is_ready = True
        if self.broker.webhooks is not None:
            self._started("webhooks", self.broker.webhooks.shut_down, _WEBHOOKS_S)
            await self.broker.webhooks.node_is_ready()

    def _put_connections(self, samples: Samples) -> None:
        samples.put(names.ACTIVE_CONNECTIONS, self.kafka.connection_count, "kafka")
        samples.put(names.ACTIVE_CONNECTIONS, self.http.connection_count, "http")

    def _put_node(self, samples: Samples) -> None:
        from goqueue.partitions.health import NodeState, node_state  # noqa: PLC0415 - is loaded

        state = node_state(
            self.broker.partitions, self.broker.publisher.disk_full, is_ready=self.is_ready
        )
        if self.cluster is not None:
            self.cluster.put(samples)
        else:
            samples.put(names.NODES, 1)
            samples.put(names.NODES_HEALTHY, state is NodeState.READY)
            samples.put(names.IS_CONTROLLER, 1)
            samples.put(names.CONTROLLER_AGE, self.uptime_s)
        for each in NodeState:
            samples.put(names.NODE_STATE, each is state, each.value)

    def _hold_folder(self) -> None:
        folder = DataFolder(self.config.broker.data_dir)
        if not self.config.cluster.enabled:
            folder.check_alone()
        folder.acquire()

        async def release() -> None:
            folder.release()

        self._started("data folder", release, _STORE_S)

    def _start_tls(self) -> Certificates | None:
        certificates = load_certificates(self.config, self._clock)
        self.renewal.watch(certificates)
        return certificates

    async def _open_store(self, tls: ssl.SSLContext | None) -> str:
        """Open the metadata; returns the cluster's id."""
        if self.config.cluster.enabled:
            return await self._join_cluster(tls)
        path = self.config.broker.data_dir / METADATA_FILE
        self.store = await SqliteMetadataStore.open(path, disk=self._disk, clock=self._clock)
        self._started("metadata", self.store.close, _STORE_S)
        return await cluster_id(self.store)

    async def _join_cluster(self, tls: ssl.SSLContext | None) -> str:
        await _load("goqueue.server.cluster.cluster_node", "goqueue.server.wiring")
        from goqueue.server import wiring  # noqa: PLC0415 - it is loaded by now
        from goqueue.server.cluster.cluster_node import ClusterNode  # noqa: PLC0415 - as above

        self.cluster = ClusterNode(self.config, self._started, disk=self._disk, clock=self._clock)
        self.renewal.watch(self.cluster.tls)
        self.store = self.cluster.store
        kafka = wiring.kafka_listener(self.config, tls)
        return await self.cluster.join(kafka.name, self.config.advertised_kafka(kafka.port))

    async def _open_logs(self, tls: ssl.SSLContext | None) -> LogBroker:
        """Open the partitions: what clients need to publish is there when this returns."""
        config = self.config
        identity, _ = await asyncio.gather(
            self._open_store(tls), _load("goqueue.server.wiring", "goqueue.broker.log_broker")
        )
        from goqueue.broker.log_broker import LogBroker  # noqa: PLC0415 - it is loaded by now
        from goqueue.server import wiring  # noqa: PLC0415 - as above

        self.metrics = Metrics(
            config.broker.node_id,
            max_series=config.metrics.max_series,
            partition_label=config.metrics.partition_label,
        )
        audit = await start_audit(config, self._disk, self._clock, self._started)
        settings = wiring.broker_settings(config, identity)
        cluster = self.cluster
        logs = LogBroker(
            settings,
            self.store,
            disk=self._disk,
            clock=self._clock,
            metrics=self.metrics,
            facts=None if cluster is None else cluster.facts,
            keeper=None if cluster is None else cluster.keeper,
            audit=audit,
        )
        self._stop_broker = logs.close
        self._started("broker", self._close_broker, _BROKER_S)
        if cluster is not None:
            await cluster.serve_nodes(logs)
        await asyncio.gather(logs.open(), _load(_FIRST_FAMILIES, _LISTENER))
        logs.health.start()
        self._started("health", partial(_stop_watching, logs), _STORE_S)
        wiring.check_somebody_may_log_in(config, logs)
        self.maintenance = logs.maintenance(wiring.maintenance_settings(config))
        if cluster is not None:
            self.maintenance.on_disk_use = cluster.full_disk.looked
        self._started("maintenance", self.maintenance.stop, _MAINTENANCE_S)
        await self.maintenance.start()
        return logs

    async def _close_broker(self) -> None:
        await self._stop_broker()
        if self.cluster is not None:
            self.cluster.is_closed_cleanly = True

    async def _start_kafka(self, logs: LogBroker, tls: ssl.SSLContext | None) -> None:
        from goqueue.protocols.kafka.connection.listener import Listener  # noqa: PLC0415 - is loaded
        from goqueue.protocols.kafka.first_families import first_registry  # noqa: PLC0415 - as above
        from goqueue.server import wiring  # noqa: PLC0415 - as above

        settings = wiring.kafka_listener(self.config, tls, logs.authenticator)
        self.kafka = Listener(first_registry(logs, self._advertised), settings)
        self.kafka.connection_limits = partial(wiring.connection_limits, logs.configs, settings)
        async with listening("Kafka", settings.host, settings.port):
            await self.kafka.start()
        self._listeners.append(self.kafka)
        # No request is read before this line: the loop has not turned since the port is open.
        address = Address(*self.config.advertised_kafka(self.kafka.port))
        self._advertised[settings.name] = address
        self._started("Kafka", partial(self.kafka.stop, self._drain_s), self._drain_s + _GRACE_S)
        if self.cluster is not None:
            await self.cluster.advertise(settings.name, (address.host, address.port))

    async def _start_services(self, logs: LogBroker) -> None:
        """Start what coordinates clients; Kafka requests that need it have waited for this."""
        await _load("goqueue.broker.broker", "goqueue.protocols.kafka.families")
        from goqueue.broker.broker import Broker  # noqa: PLC0415 - it is loaded by now
        from goqueue.protocols.kafka.families import build_registry  # noqa: PLC0415 - as above
        from goqueue.server import wiring  # noqa: PLC0415 - as above

        kind = Broker
        if logs.facts.is_cluster:
            from goqueue.broker.cluster_broker import ClusterBroker  # noqa: PLC0415 - of a cluster

            kind = ClusterBroker
        self.broker = kind.over(logs)
        self._stop_broker = self.broker.stop
        await self.broker.start_services()
        self.maintenance.add(*self.broker.passes(wiring.maintenance_settings(self.config)))
        copy_audit(self.config, self.broker, self._started)
        http_calls = HttpCalls(lambda: self._api)
        sasl = wiring.sasl_settings(self.config)
        registry = build_registry(self.broker, self._advertised, sasl, http_calls)
        self.kafka.use(registry)
        if self.cluster is not None:
            self.cluster.listener.serve(registry, self.broker, self._carried)

    def _carried(self) -> CarriedCalls | None:
        """What answers calls of gRPC that other nodes forward, once gRPC is served."""
        return self.grpc.carried if hasattr(self, "grpc") else None

    @cached_property
    def _api(self) -> HttpApp:
        from goqueue.protocols.http.node_api import api_of  # noqa: PLC0415 - after Kafka is served

        return api_of(self)

    async def _start_http(self, tls: ssl.SSLContext | None) -> None:
        await _load("goqueue.protocols.http.node_api", "goqueue.protocols.http.server.listener")
        from goqueue.protocols.http.server.listener import HttpListener  # noqa: PLC0415 - is loaded
        from goqueue.protocols.http.server.settings import HttpSettings  # noqa: PLC0415 - as above
        from goqueue.server import wiring  # noqa: PLC0415 - as above

        host, port = self.config.listeners.http
        settings = HttpSettings(
            host=host,
            port=port,
            tls=tls,
            hosts=self.config.http_hosts(),
            origins=self.config.http.allowed_origins,
            client_of=wiring.client_addresses(self.config),
            certificate_principal=wiring.certificate_principal(
                self.config, tls, self.broker.authenticator
            ),
        )
        self.http = HttpListener(self._api, settings)
        async with listening("HTTP", host, port):
            await self.http.start()
        self._listeners.append(self.http)
        self._started("HTTP", partial(self.http.stop, self._drain_s), self._drain_s + _GRACE_S)

    async def _start_grpc(self, certificates: Certificates | None) -> None:
        await _load("goqueue.protocols.grpc.listener")
        from goqueue.protocols.grpc.listener import (  # noqa: PLC0415 - it is loaded by now
            GrpcListener,
            GrpcSettings,
        )

        credentials = None
        if certificates is not None:
            from goqueue.server.security.grpc_tls import grpc_credentials  # noqa: PLC0415 - imports grpc

            credentials = grpc_credentials(certificates)
        host, port = self.config.listeners.grpc
        settings = GrpcSettings(host, port, self.config.grpc.reflection, credentials)
        self.grpc = GrpcListener(self.broker, settings, self.broker.forwards)
        async with listening("gRPC", host, port):
            await self.grpc.start()
        self._started("gRPC", partial(self.grpc.stop, self._drain_s), self._drain_s + _GRACE_S)

    @property
    def _drain_s(self) -> float:
        return self.config.broker.stop_timeout_ms / 1000

    def _started(self, name: str, stop: Callable[[], Awaitable[None]], deadline_s: float) -> None:
        self._parts.append(_Part(name, stop, deadline_s))

    # --- Stopping --------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop what was started, the last first. A part that fails or hangs does not stop others.

        Every append that was acknowledged is at least in the operating system's cache, so a part
        that is cut off costs a recovery at the next start and no message.
        """
        self.is_ready = False
        while self._parts:
            part = self._parts.pop()
            try:
                async with asyncio.timeout(part.deadline_s):
                    await part.stop()
            except TimeoutError:
                logger.warning(
                    "%s was cancelled: it did not stop in %.0f s", part.name, part.deadline_s
                )
            except Exception:  # the parts below still have to be stopped
                logger.exception("%s did not stop cleanly", part.name)


async def _load(*modules: str) -> None:
    """Import modules in a thread, so that the event loop goes on."""
    await asyncio.to_thread(lambda: [import_module(each) for each in modules])


async def _stop_watching(logs: LogBroker) -> None:
    logs.health.stop()
