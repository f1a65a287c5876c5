"""The gRPC server: its limits, its services, its start and its stop."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Any, Final

import grpc
import msgspec
from grpc import StatusCode, aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from goqueue.protocols.grpc.acks import AckService
from goqueue.protocols.grpc.admin import AdminService
from goqueue.protocols.grpc.consuming import ConsumeService
from goqueue.protocols.grpc.gate import Gate
from goqueue.protocols.grpc.interceptor import ErrorInterceptor, OpenStreams
from goqueue.protocols.grpc.limits import MAX_CALLS, MAX_CONNECTIONS, MAX_STREAMS
from goqueue.protocols.grpc.offsets import OffsetService
from goqueue.protocols.grpc.publishing import PublishService
from goqueue.protocols.grpc.transactions import TransactionService
from goqueue.runtime.tasks import Turns
from goqueue.wire.grpc.limits import MAX_MESSAGE_BYTES
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpc.aio import ServicerContext

    from goqueue.broker.broker import Broker
    from goqueue.protocols.connected import ConnectedClient
    from goqueue.protocols.grpc.carried import CarriedCalls
    from goqueue.topics.forwarding import Forwards


NAMES: Final = frozenset(
    ("", *(service.full_name for service in pb.DESCRIPTOR.services_by_name.values()))
)
"""What can be asked for: each service, and the server as a whole."""


class HealthService(services.HealthServiceServicer):
    """Tells whether the server takes requests. All services start and stop together."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Tell everyone who asks from now on, and whoever watches."""
        self._stopped.set()

    @property
    def _status(self) -> pb.ServingStatus.ValueType:
        stopped = self._stopped.is_set()
        return pb.SERVING_STATUS_NOT_SERVING if stopped else pb.SERVING_STATUS_SERVING

    async def Check(
        self,
        request: pb.HealthCheckRequest,
        context: ServicerContext[pb.HealthCheckRequest, pb.HealthCheckResponse],
    ) -> pb.HealthCheckResponse:
        """The status now; NOT_FOUND for a service that does not exist."""
        if request.service not in NAMES:
            await context.abort(
                StatusCode.NOT_FOUND,
                f"service {request.service!r} does not exist; expected one of "
                f"{', '.join(sorted(NAMES - {''}))}, or none for the whole server",
            )
        return pb.HealthCheckResponse(status=self._status)

    async def Watch(  # type: ignore[override]  # it writes to its context
        self,
        request: pb.HealthCheckRequest,
        context: ServicerContext[pb.HealthCheckRequest, pb.HealthCheckResponse],
    ) -> None:
        """The status now and, when the server stops, once more; that ends the stream."""
        if request.service not in NAMES:
            unknown = pb.SERVING_STATUS_SERVICE_UNKNOWN
            await context.write(pb.HealthCheckResponse(status=unknown))
        elif not self._stopped.is_set():
            await context.write(pb.HealthCheckResponse(status=self._status))
        await self._stopped.wait()
        if request.service in NAMES:
            await context.write(pb.HealthCheckResponse(status=self._status))


HANDSHAKE_MS: Final = 10_000
"""From the connection to the client's first HTTP/2 frame; then it is closed."""

IDLE_MS: Final = 600_000
"""A connection without a call is closed after this; clients of gRPC connect again by themselves."""

KEEPALIVE_MS: Final = 30_000
KEEPALIVE_TIMEOUT_MS: Final = 10_000
LEAST_PING_MS: Final = 10_000
"""A client that pings more often than this is sent away."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
    ("grpc.max_connection_idle_ms", IDLE_MS),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.min_ping_interval_without_data_ms", LEAST_PING_MS),
    ("grpc.so_reuseport", 0),  # two brokers on one port would share its clients between them
)
SERVICES: Final = tuple(service.full_name for service in pb.DESCRIPTOR.services_by_name.values())


class GrpcSettings(msgspec.Struct, frozen=True):
    """Where to listen, and what to tell strangers."""

    host: str = "127.0.0.1"
    port: int = 9000
    reflection: bool = False
    credentials: grpc.ServerCredentials | None = None
    max_calls: int = MAX_CALLS
    max_connections: int = MAX_CONNECTIONS


class _Methods:
    """Takes the place of a server that services are added to, and keeps their handlers."""

    def __init__(self) -> None:
        self.handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        """By the full names of methods."""

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """The same once more, behind one function."""

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """The methods of one service."""
        self.handlers |= {f"/{service}/{name}": each for name, each in handlers.items()}


class GrpcListener:
    """Serves one broker over gRPC."""

    def __init__(
        self, broker: Broker, settings: GrpcSettings, forwards: Forwards | None = None
    ) -> None:
        """Of a node of a cluster, `forwards` is what it asks of others for its clients."""
        self.settings = settings
        self.port = settings.port
        self._broker = broker
        self._streams = OpenStreams()
        self._turns = Turns()
        self._health = health.aio.HealthServicer()
        self._own_health = HealthService()
        self._server: aio.Server | None = None
        self._gate = Gate(broker, settings.max_calls, settings.max_connections)
        self._interceptor = ErrorInterceptor(self._streams, self._turns, self._gate)
        self.carried: CarriedCalls | None = None
        """Answers calls that other nodes have forwarded; None of a node on its own."""
        if forwards is not None:
            self._join(forwards)

    def _join(self, forwards: Forwards) -> None:
        """Answer as a node of a cluster."""
        from goqueue.protocols.grpc.carried import CarriedCalls  # noqa: PLC0415 - not alone
        from goqueue.protocols.grpc.forwarding import ForwardingInterceptor  # noqa: PLC0415 - as said

        interceptor = ForwardingInterceptor(
            self._streams, self._turns, self._gate, self._broker, forwards
        )
        methods: Any = _Methods()
        self._add_services(methods)
        self.carried = CarriedCalls(
            {name: interceptor.carried(name, each) for name, each in methods.handlers.items()}
        )
        self._interceptor = interceptor

    def clients(self) -> list[ConnectedClient]:
        """Who is connected, as far as there are calls."""
        return self._gate.callers.clients()

    async def start(self) -> None:
        """Listen. Raises `OSError` when the address cannot be listened on."""
        server = aio.server(
            interceptors=[self._interceptor],
            options=(
                *_OPTIONS,
                ("grpc.max_allowed_incoming_connections", self.settings.max_connections),
            ),
            maximum_concurrent_rpcs=self.settings.max_calls,
        )
        self._add_services(server)
        self._add_health(server)
        address = f"{self.settings.host}:{self.settings.port}"
        try:
            if self.settings.credentials is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, self.settings.credentials)
        except RuntimeError as error:
            # All that gRPC says is that it failed; in practice somebody else has the port.
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)) from error
        await server.start()
        self._server = server
        for name in ("", *SERVICES):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def _add_services(self, server: aio.Server) -> None:
        broker, streams, turns = self._broker, self._streams, self._turns
        publishing = PublishService(broker, streams, turns)
        services.add_PublishServiceServicer_to_server(publishing, server)
        services.add_ConsumeServiceServicer_to_server(ConsumeService(broker, streams), server)
        services.add_AckServiceServicer_to_server(AckService(broker), server)
        services.add_OffsetServiceServicer_to_server(OffsetService(broker), server)
        services.add_TransactionServiceServicer_to_server(TransactionService(broker, turns), server)
        services.add_AdminServiceServicer_to_server(AdminService(broker), server)

    def _add_health(self, server: aio.Server) -> None:
        services.add_HealthServiceServicer_to_server(self._own_health, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if self.settings.reflection:
            from grpc_reflection.v1alpha import reflection  # noqa: PLC0415 - rarely wanted

            names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)

    async def stop(self, grace_s: float) -> None:
        """End the streams, let short calls finish, and close.

        A stream of publishes first answers what it has stored.
        """
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        self._own_health.stop()
        self._streams.stop()
        await self._server.stop(grace_s)
        self._server = None
