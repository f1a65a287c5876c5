"""The composition root: the parts of one node, started in order and stopped in reverse.

What is written here is which part gets which other part; what a part does is written in its own
package. A start that fails half-way stops what it had started.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.broker.broker import Broker
from goqueue.cluster.metadata import MetadataStore, cluster_id
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.metrics import names
from goqueue.metrics.registry import Metrics, Samples
from goqueue.partitions.health import NodeState, node_state
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.families import build_registry
from goqueue.protocols.kafka.settings import Address
from goqueue.runtime.clock import Clock, SystemClock
from goqueue.runtime.disk import Disk, SystemDisk
from goqueue.runtime.tasks import PeriodicTasks
from goqueue.server import wiring
from goqueue.server.errors import ListenError, StartError
from goqueue.server.folder import DataFolder
from goqueue.server.tls import RELOAD_S, Certificates, load_certificates

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from goqueue.partitions.maintenance import Maintenance
    from goqueue.protocols.grpc.listener import GrpcListener
    from goqueue.protocols.http.server.listener import HttpListener
    from goqueue.server.config import Config

logger = logging.getLogger(__name__)

METADATA_FILE: Final = "metadata.db"

_GRACE_S: Final = 5.0
"""What a part that cuts itself off at its deadline may need beyond it."""
_BROKER_S: Final = 60.0
"""How long closing the logs may take. A broker that is cut off has lost nothing that was
acknowledged: the next start recovers its logs."""
_MAINTENANCE_S: Final = 30.0
_STORE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Part:
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
        self.is_started = False
        self.is_ready = False
        self._disk = disk or SystemDisk()
        self._clock = clock or SystemClock()
        self._began_s = self._clock.monotonic_s()
        self._parts: list[_Part] = []

    @property
    def uptime_s(self) -> float:
        """Since this node was made."""
        return self._clock.monotonic_s() - self._began_s

    @property
    def connection_count(self) -> int:
        """Connections of clients that are open now; gRPC does not tell."""
        return self.kafka.connection_count + self.http.connection_count

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
            await self._start_broker()
            await self._start_kafka(tls)
            await self._start_http(tls)
            await self._start_grpc(certificates)
        except BaseException:
            await self.stop()
            raise
        self.broker.metrics.add_source(self._put_connections)
        self.broker.metrics.add_source(self._put_node)
        self.is_started = self.is_ready = True

    def _put_connections(self, samples: Samples) -> None:
        samples.put(names.ACTIVE_CONNECTIONS, self.kafka.connection_count, "kafka")
        samples.put(names.ACTIVE_CONNECTIONS, self.http.connection_count, "http")

    def _put_node(self, samples: Samples) -> None:
        state = node_state(
            self.broker.partitions, self.broker.publisher.disk_full, is_ready=self.is_ready
        )
        samples.put(names.NODES, 1)
        samples.put(names.NODES_HEALTHY, state is NodeState.READY)
        samples.put(names.IS_CONTROLLER, 1)
        samples.put(names.CONTROLLER_AGE, self.uptime_s)
        for each in NodeState:
            samples.put(names.NODE_STATE, each is state, each.value)

    def _hold_folder(self) -> None:
        folder = DataFolder(self.config.broker.data_dir)
        folder.acquire()

        async def release() -> None:
            folder.release()

        self._started("data folder", release, _STORE_S)

    def _start_tls(self) -> Certificates | None:
        certificates = load_certificates(self.config, self._clock)
        if certificates is None:
            return None
        passes = PeriodicTasks()
        passes.start("TLS certificates", RELOAD_S, certificates.reload)
        self._started("TLS certificates", passes.stop, _STORE_S)
        return certificates

    async def _start_broker(self) -> None:
        config = self.config
        path = config.broker.data_dir / METADATA_FILE
        self.store = await SqliteMetadataStore.open(path, disk=self._disk, clock=self._clock)
        self._started("metadata", self.store.close, _STORE_S)
        self.metrics = Metrics(
            config.broker.node_id,
            max_series=config.metrics.max_series,
            partition_label=config.metrics.partition_label,
        )
        settings = wiring.broker_settings(config, await cluster_id(self.store))
        self.broker = Broker(
            settings, self.store, disk=self._disk, clock=self._clock, metrics=self.metrics
        )
        self._started("broker", self.broker.stop, _BROKER_S)
        await self.broker.start()
        self.broker.health.start()
        self._started("health", self._stop_watching, _STORE_S)
        if config.sasl.enabled and not self.broker.users.all():
            raise StartError("sasl.enabled is true and there are no users: add one to sasl.users")
        self.maintenance = self.broker.maintenance(wiring.maintenance_settings(config))
        self._started("maintenance", self.maintenance.stop, _MAINTENANCE_S)
        await self.maintenance.start()

    async def _stop_watching(self) -> None:
        self.broker.health.stop()

    async def _start_kafka(self, tls: ssl.SSLContext | None) -> None:
        settings = wiring.kafka_listener(self.config, tls)
        advertised: dict[str, Address] = {}
        registry = build_registry(self.broker, advertised, wiring.sasl_settings(self.config))
        self.kafka = Listener(registry, settings)
        self.kafka.connection_limits = partial(
            wiring.connection_limits, self.broker.configs, settings
        )
        async with _listening("Kafka", settings.host, settings.port):
            await self.kafka.start()
        # No request is read before this line: the loop has not turned since the port is open.
        advertised[settings.name] = Address(*self.config.advertised_kafka(self.kafka.port))
        self._started("Kafka", partial(self.kafka.stop, self._drain_s), self._drain_s + _GRACE_S)

    async def _start_http(self, tls: ssl.SSLContext | None) -> None:
        from goqueue.protocols.http.node_api import api_of  # noqa: PLC0415 - after Kafka is served
        from goqueue.protocols.http.server.listener import HttpListener  # noqa: PLC0415 - as above
        from goqueue.protocols.http.server.settings import HttpSettings  # noqa: PLC0415 - as above

        host, port = self.config.listeners.http
        settings = HttpSettings(
            host=host,
            port=port,
            tls=tls,
            hosts=self.config.http_hosts(),
            origins=self.config.http.allowed_origins,
        )
        self.http = HttpListener(api_of(self), settings)
        async with _listening("HTTP", host, port):
            await self.http.start()
        self._started("HTTP", partial(self.http.stop, self._drain_s), self._drain_s + _GRACE_S)

    async def _start_grpc(self, certificates: Certificates | None) -> None:
        from goqueue.protocols.grpc.listener import (  # noqa: PLC0415 - after Kafka is served
            GrpcListener,
            GrpcSettings,
        )

        credentials = None
        if certificates is not None:
            from goqueue.server.grpc_tls import grpc_credentials  # noqa: PLC0415 - imports grpc

            credentials = grpc_credentials(certificates)
        host, port = self.config.listeners.grpc
        settings = GrpcSettings(host, port, self.config.grpc.reflection, credentials)
        self.grpc = GrpcListener(self.broker, settings)
        async with _listening("gRPC", host, port):
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


@asynccontextmanager
async def _listening(name: str, host: str, port: int) -> AsyncIterator[None]:
    """Say in one line why an address cannot be listened on."""
    try:
        yield
    except OSError as error:
        address = f"{host}:{port}"
        if error.errno == errno.EADDRINUSE:
            text = f"{address} is in use by another process: stop it, or choose another port"
        elif error.errno == errno.EACCES:
            text = f"{address} may not be used by this user: choose a port above 1023"
        else:
            text = f"{address} cannot be listened on: {error.strerror or error}"
        raise ListenError(f"{name}: {text}") from error
