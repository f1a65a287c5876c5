"""The HTTP server socket: bind, accept, stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final

from goqueue.protocols.http.server.connection import HttpConnection
from goqueue.protocols.http.server.service import HttpService

if TYPE_CHECKING:
    from goqueue.protocols.connected import ConnectedClient
    from goqueue.protocols.http.api.app import HttpApp
    from goqueue.protocols.http.server.settings import HttpSettings

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_TLS_S: Final = 10.0


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

    def clients(self) -> list[ConnectedClient]:
        """Who is connected."""
        return [] if self.service is None else [each.client() for each in self.service.connections]

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
