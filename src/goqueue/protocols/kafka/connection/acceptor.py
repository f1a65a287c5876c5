"""Taking in connections by the dozen.

The event loop's own server takes one connection a turn, and beside busy clients a turn is long: a
hundred newcomers waited a second or two for their first answer. This takes all that wait.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_ACCEPTS_A_TURN: Final = 64
"""Then the connections that are there get their turn."""
_TLS_HANDSHAKE_S: Final = 30.0
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_S: Final = 1.0
"""How long no connection is taken when the process has no descriptor left for one."""


class Acceptor:
    """Listening sockets, and the connections that come in through them."""

    def __init__(
        self, factory: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext | None = None
    ) -> None:
        self._factory = factory
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._connecting: set[asyncio.Task[Any]] = set()
        """Bounded by the handshake's deadline: a plain connection is made in one turn."""
        self._paused: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int) -> None:
        """Take the port on every address of the host. Raises OSError when it cannot be had."""
        addresses = await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, _, _, _, address in addresses:
                taken = (address[0], self.port, *address[2:]) if self._sockets else address
                listening = socket.create_server(taken, family=family, backlog=_BACKLOG)
                listening.settimeout(0)
                self._sockets.append(listening)
        except OSError:
            self.close()
            raise
        self._resume()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._sockets[0].getsockname()[1])

    def _resume(self) -> None:
        self._paused = None
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
                self._pause(error)
                return
            connection.settimeout(0)
            task = self._loop.create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(partial(self._connected, connection))

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._factory,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=_TLS_HANDSHAKE_S if self._tls else None,
            )
        except OSError as error:  # the client went away, or its handshake failed: its own affair
            _log.debug("a connection was not made: %s", error)
            connection.close()

    def _connected(self, connection: socket.socket, task: asyncio.Task[Any]) -> None:
        self._connecting.discard(task)
        if task.cancelled():  # perhaps before its first step
            connection.close()

    def _pause(self, error: OSError) -> None:
        _log.error("cannot accept connections for %.0f s: %s", _PAUSE_S, error)
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        self._paused = self._loop.call_later(_PAUSE_S, self._resume)

    def close(self) -> None:
        """Take no more; connections that are there go on."""
        if self._paused is not None:
            self._paused.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()
        for task in self._connecting:
            task.cancel()
