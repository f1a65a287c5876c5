"""An OIDC provider that never finishes an answer keeps nobody else waiting."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from support.server import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT_KEY = "root-key-of-the-test"
WAIT_S = 15.0
STRANGERS = 20


class Hanging:
    """Takes connections and sends a header that never ends, so that no time limit is met."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listening.getsockname()[1]
        self.asked = threading.Semaphore(0)
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._is_over.is_set():
                connection = self._listening.accept()[0]
                self._threads.append(threading.Thread(target=self._drip, args=(connection,)))
                self._threads[-1].start()

    def _drip(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(4096)
            self.asked.release()
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self._is_over.wait(0.5):
                connection.sendall(b".")

    def close(self) -> None:
        if self._is_over.is_set():
            return
        self._is_over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._threads:
            each.join()


@contextmanager
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    try:
        yield made
    finally:
        made.close()


def ask(port: int, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        headers = {"X-API-Key": ROOT_KEY, "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def begin_signing_in(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), WAIT_S)
    said = f"GET /session/oidc HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    connection.sendall(said.encode())
    return connection


def test_old_data_is_read_while_many_sign_in_at_a_hanging_provider(tmp_path: Path) -> None:
    with hanging() as provider:
        server = make_server(
            tmp_path / "data",
            environment={
                "GOQUEUE_AUTH_ENABLED": "true",
                "GOQUEUE_API_ROOT_KEY": ROOT_KEY,
                "GOQUEUE_OIDC_ISSUER": f"http://127.0.0.1:{provider.port}",
                "GOQUEUE_OIDC_AUDIENCE": "goqueue",
                "GOQUEUE_OIDC_CLIENT_ID": "console",
            },
        )
        server.start()
        try:
            port = server.http_port
            assert ask(port, "POST", "/topics", {"name": "old", "num_partitions": 1})[0] == 201
            message = {"messages": [{"value": "first"}]}
            assert ask(port, "POST", "/topics/old/messages", message)[0] == 200
            server.restart()
            port = server.http_port
            strangers = [begin_signing_in(port) for _ in range(STRANGERS)]
            assert provider.asked.acquire(timeout=WAIT_S)
            while provider.asked.acquire(timeout=1):  # as many as the broker asks at a time
                pass
            status, found = ask(port, "GET", "/topics/old/partitions/0/messages?time=1000")
            assert (status, b"first" in found) == (200, True)
            for each in strangers:
                each.close()
        finally:
            provider.close()
            server.close()
