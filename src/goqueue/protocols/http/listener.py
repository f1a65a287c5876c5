"""The HTTP server socket: uvicorn on our event loop, without its hands on our signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from goqueue.protocols.http.bounded import BoundedHttpProtocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from goqueue.protocols.http.app import HttpApp

_log = logging.getLogger(__name__)

MAX_REQUESTS: Final = 1000
"""Connections and requests at once; one more is answered with 503."""

IDLE_S: Final = 60
_BACKLOG: Final = 1024


class _Server(uvicorn.Server):
    """Leaves signals to the process, which has more to stop than HTTP."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpListener:
    """One address that HTTP clients connect to."""

    def __init__(
        self, app: HttpApp, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve `app`; port 0 takes any free port, and `port` says which."""
        self._app = app
        self._tls = tls
        self.host = host
        self.port = port
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. The port is taken when this returns; one in use raises `OSError`."""
        sock = await _bind(self.host, self.port)
        self.port = int(sock.getsockname()[1])
        self._server = _Server(_config(self._app, self._tls))
        self._serving = asyncio.create_task(self._server.serve(sockets=[sock]))
        self._serving.add_done_callback(_report)
        await self._server.up.wait()
        _log.info("HTTP listens on %s:%d", self.host, self.port)

    async def stop(self, deadline_s: float = 10.0) -> None:
        """Accept no more, answer what is under way, close; what takes longer is cut off."""
        if self._server is None or self._serving is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(deadline_s))
        self._server.should_exit = True
        await asyncio.wait((self._serving,))
        self._serving = None


def _config(app: HttpApp, tls: ssl.SSLContext | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=BoundedHttpProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_REQUESTS,
        timeout_keep_alive=IDLE_S,
        backlog=_BACKLOG,
    )
    config.load()
    config.ssl = tls
    return config


async def _bind(host: str, port: int) -> socket.socket:
    """A socket bound here rather than by uvicorn, which ends the process when it cannot."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)  # noqa: FBT003 - the name of the method says it
        sock.bind(address)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _report(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled() and (error := serving.exception()) is not None:
        _log.critical("HTTP is no longer served", exc_info=error)
