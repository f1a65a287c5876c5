"""Asking a node on this machine, whatever it wants of those who ask."""

from __future__ import annotations

import http.server
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from goqueue.server.supervision.http_probe import HttpProbe
from support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "127.0.0.1"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode() + self.headers.get("X-Said", "").encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[int]:
    server = http.server.HTTPServer((HOST, 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_node_without_tls_is_asked_as_it_is() -> None:
    with serving() as port:
        probe = HttpProbe(HOST, port, ())
        assert probe.get("/a", {"X-Said": "b"}) == (200, b"/ab")
        assert not probe.has_tls
    assert probe.get("/a") == (0, b"")


@pytest.mark.parametrize("told", ["flags", "flags with a sign", "variables", "nothing"])
def test_a_node_that_wants_certificates_is_shown_its_own(tmp_path: Path, told: str) -> None:
    authority = Authority(tmp_path)
    cert_file, key_file = map(str, authority.issue("server"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.ca_file)
    context.load_cert_chain(cert_file, key_file)
    context.verify_mode = ssl.CERT_REQUIRED
    flags = {
        "flags": ["--tls-cert-file", cert_file, "--tls-key-file", key_file],
        "flags with a sign": [f"--tls-cert-file={cert_file}", f"--tls-key-file={key_file}"],
    }
    with serving(context) as port:
        probe = HttpProbe(HOST, port, flags.get(told, ["--data-dir", "."]))
        if told == "variables":
            probe.environment = {
                "GOQUEUE_TLS_CERT_FILE": cert_file,
                "GOQUEUE_TLS_KEY_FILE": key_file,
            }
        assert probe.get("/a") == ((0, b"") if told == "nothing" else (200, b"/a"))
        assert probe.has_tls is (told != "nothing")
