"""A wire between a client and a server that can be cut, or lose what it carries."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_HOST = "127.0.0.1"


class Proxy:
    """Forwards connections to a port. Ends with `close`."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server((_HOST, 0))
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._swallow = 0
        self.swallowed = 0
        """Answers that the server gave and no client got."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def swallow_next_answer(self) -> None:
        """The next thing that the server says is lost, and its connection with it."""
        with self._lock:
            self._swallow = 1

    @property
    def is_about_to_swallow(self) -> bool:
        """Whether the answer that is to be lost has not come yet."""
        return bool(self._swallow)

    def cut(self) -> None:
        """Break every connection."""
        with self._lock:
            sockets = list(self._sockets)
        for sock in sockets:
            _end(sock)

    def close(self) -> None:
        _end(self._listener)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection((_HOST, self._target_port), timeout=60)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        with self._lock:
            self._sockets |= {client, server}
        for source, sink, answers in ((client, server, False), (server, client, True)):
            arguments = (source, sink, answers)
            threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if answers and self._takes():
                    break
                sink.sendall(data)
        _end(source)
        _end(sink)
        with self._lock:
            self._sockets.discard(source)
        source.close()

    def _takes(self) -> bool:
        with self._lock:
            if not self._swallow:
                return False
            self._swallow -= 1
            self.swallowed += 1
            return True


def _end(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
