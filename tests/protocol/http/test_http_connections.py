"""What every request has in common: ids, origins, methods, bounds, and how connections end."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from typing import TYPE_CHECKING

import pytest

from support.http_api import HOST, HttpApi
from support.nodes_in_loop import running_nodes

if TYPE_CHECKING:
    from pathlib import Path

    from support.server import ServerProcess


def talk(port: int, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Everything the server says to these bytes, until it closes the connection."""
    with socket.create_connection((HOST, port), timeout=60) as sock:
        for part in parts:
            sock.sendall(part)
            time.sleep(pause_s)
        said = b""
        while chunk := sock.recv(65536):
            said += chunk
    return said


CLOSE = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
KEEP = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


def test_a_request_keeps_its_id_and_gets_one_without(api: HttpApi) -> None:
    answer = api.ask("GET", "/health", headers={"X-Request-ID": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    first, second = (api.ask("GET", "/health").headers["x-request-id"] for _ in range(2))
    assert first != second
    for bad in ("x" * 200, "two words", ""):
        answer = api.ask("GET", "/nothing", headers={"X-Request-ID": bad})
        assert answer.headers["x-request-id"] not in {bad, ""}
        assert answer.json["request_id"] == answer.headers["x-request-id"]


def test_options_say_what_a_path_takes(api: HttpApi) -> None:
    assert api.ask("OPTIONS", "/topics").headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert api.ask("OPTIONS", "*").status == 204
    assert api.ask("OPTIONS", "/nothing").code == "no_such_path"


def test_head_is_get_without_the_body(api: HttpApi, topic: str) -> None:
    get, head = (api.ask(method, f"/topics/{topic}") for method in ("GET", "HEAD"))
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(get.body))
    assert api.ask("HEAD", "/topics/nowhere").status == 404
    assert api.ask("GET", "/health").status == 200  # the connection is in step


def test_requests_in_one_piece_are_answered_in_their_order(broker: ServerProcess) -> None:
    said = talk(broker.http_port, KEEP + KEEP.replace(b"healthz", b"nothing") + KEEP + CLOSE)
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == [b"200", b"404", b"200", b"200"]


def test_a_request_in_crumbs_is_still_a_request(broker: ServerProcess) -> None:
    crumbs = [CLOSE[at : at + 7] for at in range(0, len(CLOSE), 7)]
    assert talk(broker.http_port, *crumbs, pause_s=0.01).startswith(b"HTTP/1.1 200 OK")


def test_a_chunked_body_is_put_together(broker: ServerProcess) -> None:
    head = b"POST /topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    head += b"transfer-encoding: chunked\r\n\r\n"
    said = talk(broker.http_port, head, b'9\r\n{"name": \r\n', b'a\r\n"chunked"}\r\n', b"0\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 201 Created")


def test_a_chunked_body_without_end_is_cut_off(broker: ServerProcess) -> None:
    head = b"POST /topics HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    said = talk(broker.http_port, head, *[b"10000\r\n" + b" " * 65536 + b"\r\n"] * 17)
    assert said.startswith(b"HTTP/1.1 413 ")


def test_a_client_that_asks_first_is_told_to_go_on(broker: ServerProcess) -> None:
    head = (
        b"POST /topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-continue\r\n"
    )
    good = talk(
        broker.http_port, head + b"content-length: 16\r\n\r\n", b'{"name": "eager"}'[:16] + b""
    )
    assert good.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 ")
    large = talk(broker.http_port, head + b"content-length: 99999999\r\n\r\n")
    assert large.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nbroken header\r\n\r\n",
        b"POST /topics HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        b"POST /topics HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_not_http_is_told_so(broker: ServerProcess, data: bytes) -> None:
    said = talk(broker.http_port, data)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"malformed_request"' in said


def test_an_upgrade_is_declined_by_answering(broker: ServerProcess) -> None:
    request = KEEP.replace(b"\r\n\r\n", b"\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
    assert talk(broker.http_port, request).startswith(b"HTTP/1.1 200 OK")


def test_an_old_client_gets_the_connection_closed_unless_it_asks(broker: ServerProcess) -> None:
    old = b"GET /healthz HTTP/1.0\r\n\r\n"
    assert b"connection: close" in talk(broker.http_port, old)
    kept = b"GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"
    said = talk(broker.http_port, kept, old, pause_s=0.1)
    assert said.count(b"HTTP/1.1 200 OK") == 2
    assert b"connection: keep-alive" in said


def test_an_absolute_address_is_understood(broker: ServerProcess) -> None:
    request = CLOSE.replace(b"/healthz", b"http://example.org/healthz")
    assert talk(broker.http_port, request).startswith(b"HTTP/1.1 200 OK")


def test_a_poll_ends_when_its_client_goes(api: HttpApi, broker: ServerProcess, topic: str) -> None:
    member = api.post("/groups/leaver/join", {"topics": [topic]})["member_id"]
    target = f"/groups/leaver/poll?member_id={member}&timeout=60s"
    request = f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with socket.create_connection((HOST, broker.http_port)) as sock:
        sock.sendall(request.encode())
        time.sleep(0.3)
    before = api.get("/groups/leaver/rebalance/stats")["heartbeats"]
    time.sleep(1.5)
    assert api.get("/groups/leaver/rebalance/stats")["heartbeats"] <= before + 1


def test_a_stop_sends_polls_away_and_answers_what_is_under_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_nodes(tmp_path) as nodes:
            await nodes.broker.create_topic("t", 1)
            node = nodes.of(await nodes.coordinated("g"))
            member = await node.broker.memberships.join("g", ["t"])
            reader, writer = await asyncio.open_connection(HOST, node.http.port)
            path = f"/groups/g/poll?member_id={member.member_id}&timeout=60s"
            writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            await asyncio.sleep(0.1)
            began = time.monotonic()
            await node.stop()
            assert time.monotonic() - began < 25
            said = await reader.read()
            assert said.startswith(b"HTTP/1.1 503 ")
            # In a cluster its groups are led elsewhere before it stops listening.
            code = b"not_ready" if len(nodes.all) == 1 else b"not_coordinator"
            assert b'"code":"%b"' % code in said
            assert b'"retriable":true' in said
            assert b"\r\nretry-after: " in said
            writer.close()

    asyncio.run(scenario())
