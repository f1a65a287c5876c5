"""Requests that two readers would split differently, and paths that hide where they lead."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.guarded import GuardedServer

WAIT_S = 60.0
HIDDEN = b'{"name":"smuggled"}'


def _talk(port: int, data: bytes) -> bytes:
    """Send bytes, and return everything that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        said = bytearray()
        while some := sock.recv(65536):
            said += some
    return bytes(said)


def _head(server: GuardedServer, line: bytes, *headers: bytes) -> bytes:
    login = b"authorization: Bearer " + server.token("admin").encode()
    return b"\r\n".join((line, b"host: localhost", login, *headers)) + b"\r\n\r\n"


def _hidden(server: GuardedServer) -> bytes:
    """A whole request that makes a topic."""
    length = b"content-length: %d" % len(HIDDEN)
    return _head(server, b"POST /topics HTTP/1.1", length) + HIDDEN


AMBIGUOUS = {
    "both lengths": (b"content-length: 4", b"transfer-encoding: chunked"),
    "both lengths, the other way": (b"transfer-encoding: chunked", b"content-length: 4"),
    "two lengths": (b"content-length: 5", b"content-length: 0"),
    "two lengths in one": (b"content-length: 5, 0",),
    "a length with a sign": (b"content-length: +5",),
    "a length in hexadecimal": (b"content-length: 0x5",),
    "a length before a space": (b"content-length : 5",),
    "a folded length": (b"x: y", b" content-length: 5", b"content-length: 5 0"),
    "an encoding that is none": (b"transfer-encoding: xchunked",),
    "an encoding after chunked": (b"transfer-encoding: chunked, identity",),
    "a bare carriage return": (b"x: y\rtransfer-encoding: chunked",),
    "a zero in a header": (b"x: a\0b",),
    "a header without a name": (b": content-length: 5",),
}


@pytest.mark.parametrize("headers", AMBIGUOUS.values(), ids=list(AMBIGUOUS))
def test_a_request_whose_end_is_ambiguous_hides_no_other(
    server: GuardedServer, headers: tuple[bytes, ...]
) -> None:
    head = _head(server, b"POST /topics/orders/messages HTTP/1.1", *headers)
    said = _talk(server.http_port, head + b"0\r\n\r\n" + _hidden(server))
    answers = re.findall(rb"HTTP/1\.1 (\d+)", said)
    assert [each for each in answers if each != b"400"] == [], said
    assert "smuggled" not in server.broker.topics.catalogue.by_name


def test_a_body_is_never_read_as_a_request(server: GuardedServer) -> None:
    hidden = _hidden(server)
    head = _head(server, b"POST /topics HTTP/1.1", b"content-length: %d" % len(hidden))
    said = _talk(server.http_port, head + hidden)
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"400"]
    assert "smuggled" not in server.broker.topics.catalogue.by_name


GUARDED = ("/admin/backup/schedule", "/keys", "/acls")
HIDING = (
    "//{}",
    "/./{}",
    "/topics/../{}",
    "/topics/%2e%2e/{}",
    "/topics/..%2f{}",
    "/console/../{}",
    "/console/%2e%2e%2f{}",
    "/{};x=y",
    "/{}/",
    "/{}%00",
    "/%2f{}",
    "/{}?method=GET",
    "http://localhost/{}",
    "http://other.example/{}",
    "/healthz/../{}",
    "\\{}",
)


@pytest.mark.parametrize("path", GUARDED)
def test_no_way_of_writing_a_path_gets_past_its_right(server: GuardedServer, path: str) -> None:
    for template in HIDING:
        target = template.format(path.removeprefix("/")).encode()
        line = b"GET " + target + b" HTTP/1.1"
        said = _talk(server.http_port, line + b"\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        status = int(said.split()[1])
        if template.startswith("/console/") and b"content-type: text/html" in said:
            continue  # a page of the console, which has nothing of the path in it
        assert status in {400, 401, 403, 404, 405, 421}, (target, said[:200])


LYING = (
    b"x-http-method-override: GET",
    b"x-original-url: /healthz",
    b"x-rewrite-url: /healthz",
    b"x-forwarded-for: 127.0.0.1",
    b"x-forwarded-user: admin",
    b"x-remote-user: admin",
    b"forwarded: for=127.0.0.1;by=admin",
    b"authorization:",
    b"connection: close, authorization",
)


@pytest.mark.parametrize("header", LYING)
def test_no_header_but_a_login_says_who_a_client_is(server: GuardedServer, header: bytes) -> None:
    lines = (b"DELETE /topics/orders HTTP/1.1", b"host: localhost", header)
    said = _talk(server.http_port, b"\r\n".join(lines) + b"\r\n\r\n")
    assert said.split()[1] in {b"400", b"401"}
    assert "orders" in server.broker.topics.catalogue.by_name


def test_two_logins_or_hosts_in_one_request_are_refused(server: GuardedServer) -> None:
    """One reader would take the first, another the last."""
    second = b"authorization: Bearer " + server.token("producer").encode()
    for repeated in (second, b"host: other.example", b"host: localhost"):
        head = _head(server, b"GET /topics HTTP/1.1", repeated, b"connection: close")
        said = _talk(server.http_port, head)
        assert said.split()[1] == b"400"
        assert b'"code":"malformed_request"' in said


def test_a_request_id_cannot_add_a_header_to_the_answer(server: GuardedServer) -> None:
    for name in (b"a\rset-cookie: x=y", b"a\nset-cookie: x=y", b"a\0b", b"\xe2\x80\xa8x"):
        head = _head(
            server, b"GET /topics HTTP/1.1", b"x-request-id: " + name, b"connection: close"
        )
        said = _talk(server.http_port, head)
        answered, _, _ = said.partition(b"\r\n\r\n")
        assert b"set-cookie: x" not in answered.lower()
        assert re.search(rb"[\0\r\n]", answered.replace(b"\r\n", b"")) is None
