"""When a node without data starts an etcd: not before others have said that they have none."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.server.errors import StartError
from goqueue.server.etcd.command import EtcdMember
from goqueue.server.supervision.etcd_forming import Forming

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def forming(number: int, ports: list[int]) -> Forming:
    urls = {f"node-{at}": f"http://{HOST}:{port}" for at, port in enumerate(ports, start=1)}
    folder = Path("etcd")
    return Forming(EtcdMember(f"node-{number}", folder, folder, "http://c", urls, "goqueue", HOST))


@contextmanager
def etcd(port: int, members: list[dict[str, list[str]]]) -> Iterator[None]:
    """What the member at a port says of all members."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(members).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer((HOST, port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_first_of_three_waits_and_the_second_may_start() -> None:
    ports = free_ports(3)
    first, second = forming(1, ports), forming(2, ports)
    assert first.waits_for() == "etcd starts as soon as 1 of the other nodes run; 0 do"
    is_over = threading.Event()

    def answer() -> None:
        while not is_over.wait(0.01):
            first.answer()

    answering = threading.Thread(target=answer)
    answering.start()
    assert second.waits_for() is None
    is_over.set()
    answering.join()
    first.close()


def test_of_five_nodes_two_others_are_waited_for() -> None:
    ports = free_ports(5)
    node = forming(5, ports)
    with etcd(ports[0], []):
        assert node.waits_for() == "etcd starts as soon as 2 of the other nodes run; 1 do"
        with etcd(ports[1], []):
            assert node.waits_for() is None
    assert node.listener is None, "the address is the etcd's now"


def test_a_node_on_its_own_waits_for_nobody() -> None:
    assert forming(1, free_ports(1)).waits_for() is None


@pytest.mark.parametrize("has_run", [False, True])
def test_a_member_that_has_run_before_is_taken_in_and_forms_nothing(*, has_run: bool) -> None:
    ports = free_ports(3)
    node = forming(3, ports)
    own = {"peerURLs": [f"http://{HOST}:{ports[2]}"], "clientURLs": ["http://c"] * has_run}
    with etcd(ports[0], [{"peerURLs": ["http://another"], "clientURLs": ["http://c"]}, own]):
        told = node.waits_for()
    assert (told is not None and "is lost: it is taken in again" in told) == has_run
    node.close()


def test_an_address_that_another_process_has_is_told() -> None:
    ports = free_ports(3)
    with (
        socket.create_server((HOST, ports[0])),
        pytest.raises(StartError, match=f"{HOST}:{ports[0]}, a port of etcd, cannot be listened"),
    ):
        forming(1, ports).waits_for()
