"""Whether retention and TTL are stopped by a jump of the clock, and letting them go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.operations.operation_shapes import MaintenanceResumed, MaintenanceStatus

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.runtime.clock_watch import ClockJump

_TAG: Final = "admin"


class MaintenanceRoutes:
    """Maintenance: retention and TTL."""

    def __init__(self, broker: Broker) -> None:
        self._guard = broker.clock_guard

    @route("GET", "/admin/maintenance", tag=_TAG)
    async def maintenance(self) -> MaintenanceStatus:
        """Whether retention and TTL are stopped because the wall clock has jumped."""
        stopped = self._guard.stopped()
        if stopped is None:
            return MaintenanceStatus("running")
        return MaintenanceStatus("stopped", stopped, _jumped(self._guard.jump()))

    @route("POST", "/admin/maintenance/resume", tag=_TAG)
    async def resume_maintenance(self) -> MaintenanceResumed:
        """Accept the wall clock's time and resume retention and TTL."""
        jump = self._guard.resume()
        return MaintenanceResumed(jump is not None, _jumped(jump))


def _jumped(jump: ClockJump | None) -> int:
    return 0 if jump is None else jump.jumped_ms
