"""How a command reaches its server: over TLS, with its key, and through a restart."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from goqueue.cli.api import Api
from goqueue.cli.contexts import Target
from goqueue.protocols.http.operations.operation_shapes import Stats
from support.certificates import Authority
from support.cluster_broker import own_broker
from support.server import free_port, make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run


def test_a_certificate_is_checked_and_can_be_trusted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    settings = {"tls.enabled": True, "tls.cert_file": cert, "tls.key_file": key}
    with own_broker(tmp_path, settings) as broker:
        url = broker.http_url.replace("http://", "https://")
        result = run("topic", "list", "-s", url, code=1)
        assert "SSL_CERT_FILE" in result.stderr
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
        run("topic", "create", "secret", "-s", url)
        assert "secret" in run("topic", "list", "-s", url).stdout
        plain = url.replace("https", "http")
        assert f"use {url}" in run("topic", "list", "-s", plain, code=1).stderr


def test_health_waits_until_a_server_that_starts_serves_clients(tmp_path: Path) -> None:
    server = make_server(tmp_path / "data")
    command = [sys.executable, "-m", "goqueue.cli", "health", "--wait", "120s"]
    waiting = subprocess.Popen([*command, "-s", server.http_url], stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.5)
    server.start()
    try:
        out, _ = waiting.communicate(timeout=120)
        assert waiting.returncode == 0
        assert out.split()[:2] == ["status", "ready"]
    finally:
        server.close()


def test_localhost_is_this_machine_also_where_no_resolver_knows_it(
    goqueue_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo

    def without_localhost(host: str, *more: Any, **options: Any) -> Any:
        if host == "localhost":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", without_localhost)
    url = goqueue_broker.http_url.replace("127.0.0.1", "localhost")
    with Api(Target(url, "test")) as api:
        assert api.get(Stats, "/stats").topics is not None


def test_of_several_servers_the_first_that_is_there_is_asked(
    run: Run, goqueue_broker: Broker
) -> None:
    away = f"127.0.0.1:{free_port()}"
    url = goqueue_broker.http_url
    several = f"{away},{url}"
    assert url in run("-s", several, "cluster", "info", "-o", "json").output
    refused = run("-s", f"{away},{away}", "cluster", "info", code=1)
    assert f"http://{away} and http://{away}" in refused.output


def test_tls_where_none_is_spoken_is_named(run: Run, goqueue_broker: Broker) -> None:
    result = run("topic", "list", "-s", goqueue_broker.http_url.replace("http", "https"), code=1)
    assert "the TLS handshake with" in result.stderr


class _Recorder(BaseHTTPRequestHandler):
    """Notes the keys that it is sent."""

    keys: list[str | None]
    answer: bytes = msgspec.json.encode(Stats(1, "c", 0.0, 0, 0, 0, [], {}))

    def do_GET(self) -> None:
        self.keys.append(self.headers["x-api-key"])
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[HTTPServer]:
    _Recorder.keys = []
    with HTTPServer(("127.0.0.1", 0), _Recorder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_key_of_a_context_is_sent_to_its_server_and_to_no_other(
    run: Run, recorder: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{recorder.server_port}"
    run("config", "set-context", "here", "--server", url, "--api-key", "-", input="hush\n")
    run("topic", "list", "-c", "here")
    run("topic", "list", "-s", url)
    monkeypatch.setenv("GOQUEUE_API_KEY", "mine")
    run("topic", "list", "-s", url)
    assert _Recorder.keys == ["hush", None, "mine"]


def test_an_answer_of_another_version_is_an_error_that_says_so(
    run: Run, recorder: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Recorder, "answer", b'{"topics": {"orders": {"partitions": 1}}}')
    result = run("topic", "list", "-s", f"http://127.0.0.1:{recorder.server_port}", code=1)
    assert "compare the versions of client and server with `goqueue version`" in result.stderr
    assert "Traceback" not in result.output
