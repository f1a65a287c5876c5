"""The HTTP server socket, and what all its connections share."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.http.callers import Callers
from goqueue.protocols.http.connection import HttpConnection

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goqueue.protocols.http.app import HttpApp
    from goqueue.protocols.http.settings import HttpSettings

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_TLS_S: Final = 10.0
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
        self.callers = Callers(settings.hosts, settings.origins)
        self.connections: set[HttpConnection] = set()
        self._evictable: list[tuple[float, HttpConnection]] = []
        """Connections that waited for their clients when this was made, the longest last."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.polls: set[asyncio.Task[None]] = set()
        """Those of the tasks that wait for something to happen."""
        self.changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.sweep()

    def sweep(self) -> None:
        """Tell connections whose time is over so, and read the clock for all of them."""
        now_s = self.loop.time()
        self.date = _http_date(time.time())
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

    def admit(self, connection: HttpConnection) -> bool:
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

    def release(self, connection: HttpConnection) -> None:
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


class HttpListener:
    """One address that HTTP clients connect to."""

    def __init__(self, app: HttpApp, settings: HttpSettings) -> None:
        """Serve `app`; port 0 takes any free port, and `port` says which."""
        self._app = app
        self.settings = settings
        self.host = settings.host
        self.port = settings.port
        self.service: HttpService | None = None
        self._server: asyncio.Server | None = None

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self.service.connections) if self.service is not None else 0

    async def start(self) -> None:
        """Listen. The port is taken when this returns; one in use raises `OSError`."""
        service = self.service = HttpService(self._app, self.settings)
        tls = self.settings.tls
        try:
            sock = await _bind(self.host, self.port)
            self.port = int(sock.getsockname()[1])
            self._server = await service.loop.create_server(
                lambda: HttpConnection(service),
                sock=sock,
                backlog=_BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=_TLS_S if tls else None,
            )
        except BaseException:
            service.close()
            raise
        _log.info("HTTP listens on %s:%d", self.host, self.port)

    async def stop(self, deadline_s: float = 10.0) -> None:
        """Accept no more, answer what is under way, close; what takes longer is cut off."""
        service, server = self.service, self._server
        if service is None or server is None:
            return
        self.service = self._server = None
        service.is_stopping = True
        server.close()
        for connection in list(service.connections):
            connection.stop()
        try:
            async with asyncio.timeout(deadline_s):
                while service.connections or service.tasks:
                    service.changed.clear()
                    await service.changed.wait()
        except TimeoutError:
            for task in list(service.tasks):
                task.cancel()
            for connection in list(service.connections):
                connection.abort()
        service.close()


async def _bind(host: str, port: int) -> socket.socket:
    """A socket of the first address that the name has."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)  # noqa: FBT003 - the name of the method says it
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _http_date(now_s: float) -> bytes:
    """As HTTP writes a date, whatever language the process speaks."""
    at = time.gmtime(now_s)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"{day}, {at.tm_mday:02} {month} {at.tm_year} {clock} GMT".encode("ascii")
