"""Health in the project's own contract, beside gRPC's own health service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from grpc import StatusCode

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

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
