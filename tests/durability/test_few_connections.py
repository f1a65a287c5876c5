"""More connections than a broker has descriptors for: those that are there go on being served."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from support.http_api import HttpApi
from support.server import ServerProcess
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = 200

_LIMITED = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from goqueue.cli import main
main()
"""


class FewFiles(ServerProcess):
    """A server that may not have more files open."""

    COMMAND = (sys.executable, "-c", _LIMITED, "server")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = FewFiles(tmp_path / "data")
    made.start()
    yield made
    made.close()


def published(server: ServerProcess, value: str) -> bool:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": server.kafka_address, "message.timeout.ms": 20_000})
    producer.produce("orders", value, on_delivery=lambda error, _: failed.append(error))
    producer.flush(30)
    return failed == [None]


@pytest.mark.parametrize("listener", ["kafka", "http"])
def test_a_broker_without_descriptors_serves_on_and_takes_clients_again_later(
    server: ServerProcess, listener: str
) -> None:
    api = HttpApi(server.http_port)
    assert api.ask("POST", "/topics", {"name": "orders", "num_partitions": 1}).status == 201
    assert published(server, "before")
    port = server.kafka_port if listener == "kafka" else server.http_port
    idle: list[socket.socket] = []
    try:
        for _ in range(2 * FILES):  # the backlog of the socket takes those that are not accepted
            with suppress(OSError):
                idle.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        assert len(idle) > FILES
        message = {"messages": [{"value": "meanwhile"}]}
        for _ in range(3):
            answer = api.ask("POST", "/topics/orders/messages", message)
            assert answer.status == 200, answer
    finally:
        for each in idle:
            each.close()
    assert eventually(lambda: published(server, "after"), "it takes clients again")
    found = api.ask("GET", "/topics/orders/partitions/0/messages?offset=0&limit=100").json
    values = [each["value"] for each in found["messages"]]
    assert values[:4] == ["before", *["meanwhile"] * 3]
    assert values[-1] == "after"
    api.close()
