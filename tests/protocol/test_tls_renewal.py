"""Certificates renewed under a running server, seen by clients of every listener."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import time
import urllib.request

import pytest

from protocol.secure_clients import CLIENTS, Access
from support.certificates import Authority
from support.server import ServerProcess, make_server
from support.waiting import eventually

LISTENERS = ("kafka", "http", "grpc")


def shown(authority: Authority, port: int, **settings: object) -> str:
    """The common name of the certificate that a new connection is shown."""
    client = ssl.create_default_context(cafile=authority.ca_file)
    client.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), 60) as raw,
        client.wrap_socket(raw, server_hostname="127.0.0.1") as secure,
    ):
        parts = secure.getpeercert() or {}
        return dict(part[0] for part in parts["subject"])["commonName"]  # type: ignore[misc]


def wait_until_shown(authority: Authority, port: int, name: str) -> None:
    deadline = time.monotonic() + 60
    while shown(authority, port) != name:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def get(authority: Authority, server: ServerProcess, path: str) -> str:
    url = f"https://127.0.0.1:{server.http_port}{path}"
    context = ssl.create_default_context(cafile=authority.ca_file)
    with urllib.request.urlopen(url, context=context, timeout=60) as answer:
        return str(answer.read(), "utf-8")


def is_told(authority: Authority, server: ServerProcess) -> bool:
    lines = json.loads(get(authority, server, "/overview"))["attention"]
    return "A TLS certificate was not renewed" in {line["title"] for line in lines}


@pytest.mark.parametrize("by_signal", [True, False], ids=["SIGHUP", "interval"])
def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(tmp_path, by_signal) -> None:
    authority = Authority(tmp_path)
    cert_file, key_file = authority.issue("old", file="server")
    flags = ("--tls-enabled", "--tls-cert-file", str(cert_file), "--tls-key-file", str(key_file))
    interval = "1d" if by_signal else "1s"
    server = make_server(tmp_path / "data", *flags, "--tls-reload-interval", interval)
    server.start()
    ports = [getattr(server, f"{name}_port") for name in LISTENERS]

    def changed() -> None:
        if by_signal:
            server.signal(signal.SIGHUP)

    try:
        access = Access(server.kafka_address, ca_file=authority.ca_file)
        assert CLIENTS["confluent"](access, "before", b"1") == b"1"
        assert [shown(authority, port) for port in ports] == ["old"] * 3

        authority.issue("new", file="server")
        changed()
        for port in ports:
            wait_until_shown(authority, port, "new")
        assert CLIENTS["confluent"](access, "after", b"2") == b"2"

        key_file.write_bytes(b"nonsense")
        changed()
        server.wait_for_line("stays in use")
        assert [shown(authority, port) for port in ports] == ["new"] * 3
        eventually(lambda: "goqueue_tls_certificate_stale{" in get(authority, server, "/metrics"))
        eventually(lambda: is_told(authority, server))

        authority.issue("newest", file="server")
        changed()
        for port in ports:
            wait_until_shown(authority, port, "newest")
        deadline = time.monotonic() + 60
        while is_told(authority, server):  # what is shown may be some seconds old
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        server.close()
