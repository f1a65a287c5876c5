"""What all connections of one HTTP listener share, and their bounds."""

from __future__ import annotations

import asyncio
import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from goqueue.protocols.http.server.origin_policy import OriginPolicy
from goqueue.quotas.tenant_places import TenantPlaces
from goqueue.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goqueue.protocols.connected import ConnectedClient
    from goqueue.protocols.http.api.app import HttpApp
    from goqueue.protocols.http.server.settings import HttpSettings

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]


class Connection(Protocol):
    """A connection, as far as all of them together are concerned."""

    expires_s: float
    since_s: float
    """Since when it waits for what it waits for now."""

    def client(self) -> ConnectedClient:
        """Who is connected."""

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing can happen there before the client sends or reads."""

    def expire(self) -> None:
        """The time for what it waits for is over."""

    def evict(self) -> None:
        """Make room for another connection."""

    def stop(self) -> None:
        """Answer what has begun and take nothing more."""

    def abort(self) -> None:
        """Drop the connection."""


class HttpService:
    """The connections of one listener, the requests under way, and their bounds."""

    def __init__(self, app: HttpApp, settings: HttpSettings) -> None:
        self.app = app
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.is_stopping = False
        self.bodies_bytes = 0
        """Of all requests that are coming in or being answered."""
        self.date = b""
        self.origin_policy = OriginPolicy(settings.hosts, settings.origins)
        self.connections: set[Connection] = set()
        self._evictable: list[tuple[float, Connection]] = []
        """Connections that waited for their clients when this was made, the longest last."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.polls: set[asyncio.Task[None]] = set()
        """Those of the tasks that wait for something to happen."""
        self.tenant_polls = TenantPlaces(settings.max_polls, "polls and streams under way")
        self.changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.sweep()

    def sweep(self) -> None:
        """Tell connections whose time is over so, and read the clock for all of them."""
        now_s = self.loop.time()
        self.date = _http_date(SystemClock().now_ms() / 1000)
        for connection in [each for each in self.connections if each.expires_s < now_s]:
            connection.expire()
        self._timer = self.loop.call_later(self.settings.sweep_s, self.sweep)

    def close(self) -> None:
        """Look at nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_flooded(self) -> bool:
        """Whether there are too many connections even to tell them so."""
        limit = self.settings.max_connections + self.settings.max_refused
        return len(self.connections) > limit

    def admit(self, connection: Connection) -> bool:
        """Take a connection in; says whether there was room for it.

        When there is none, the connection that has waited longest for its client makes room.
        """
        if len(self.connections) >= self.settings.max_connections:
            self._evict()
        has_room = len(self.connections) < self.settings.max_connections
        self.connections.add(connection)
        return has_room and not self.is_stopping

    def _evict(self) -> None:
        """Drop one connection. They are sorted anew when all that were sorted have gone on."""
        if not self._evict_sorted():
            waiting = [each for each in self.connections if each.waits_for_client]
            since = sorted(((each.since_s, each) for each in waiting), key=itemgetter(0))
            self._evictable = since[::-1]
            self._evict_sorted()

    def _evict_sorted(self) -> bool:
        while self._evictable:
            since_s, longest = self._evictable.pop()
            still_waits = longest.waits_for_client and longest.since_s == since_s
            if still_waits and longest in self.connections:
                self.connections.discard(longest)
                longest.evict()
                return True
        return False

    def release(self, connection: Connection) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self.changed.set()

    def run(self, work: Coroutine[Any, Any, None], *, polls: bool) -> asyncio.Task[None]:
        """Answer a request, whether its client waits for it or not."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        if polls:
            self.polls.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.polls.discard(task)
        if self.is_stopping:
            self.changed.set()


def _http_date(now_s: float) -> bytes:
    """As HTTP writes a date, whatever language the process speaks."""
    at = time.gmtime(now_s)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"{day}, {at.tm_mday:02} {month} {at.tm_year} {clock} GMT".encode("ascii")
