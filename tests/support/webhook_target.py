"""A server that webhooks call: real sockets, and it can be away for a while."""

from __future__ import annotations

import hashlib
import hmac
import http.server
import json
import socketserver
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable

from support.server import HOST, free_port


class Received(NamedTuple):
    """One request."""

    headers: dict[str, str]
    """By their names in lower case."""
    body: bytes
    status: int

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def is_signed_with(self, secret: str) -> bool:
        """As a receiver has to check it, written without our own code."""
        signed = self.headers["x-goqueue-timestamp"].encode() + b"." + self.body
        expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(f"sha256={expected}", self.headers["x-goqueue-signature"])


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True


class WebhookTarget:
    """Takes events, or answers with what `answer` says to each."""

    def __init__(self, answer: Callable[[dict[str, Any]], int] = lambda _event: 200) -> None:
        self.port = free_port()
        self.answer = answer
        self.received: list[Received] = []
        """In the order in which they came, refused ones as well."""
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/hook"

    @property
    def taken(self) -> list[dict[str, Any]]:
        """The events that were answered with 2xx."""
        return [each.event for each in self.received if each.status < 300]

    def ids(self) -> list[str]:
        """Of the events that were taken, each once, in the order of the first time."""
        return list(dict.fromkeys(event["id"] for event in self.taken))

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """The events of one type that were taken, each once."""
        found = {event["id"]: event for event in self.taken if event["type"] == kind}
        return list(found.values())

    def start(self) -> Self:
        """Listen from now on."""
        target = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = target.answer(json.loads(body))
                headers = {name.lower(): value for name, value in self.headers.items()}
                target.received.append(Received(headers, body, status))
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"http://{HOST}:{target.port}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = _Server((HOST, self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        """Refuse connections from now on; `start` listens on the same port again."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
