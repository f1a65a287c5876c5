"""A disk that is really full: the server says so at once, and goes on when there is room."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from support.server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.server import ServerProcess

__all__ = ["start_server"]

SIZE = "24m"
WAIT_S = 120.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own; only root can have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "goqueue-test", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Take every byte that is left."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def send(server: ServerProcess, value: bytes) -> bool:
    """Whether a message is acknowledged; nothing is tried twice."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": server.kafka_address, "retries": 0, "acks": "all"})
    try:
        producer.produce(
            "t", value, on_delivery=lambda error, _: failed.append(error) if error else None
        )
        return producer.flush(60) == 0 and not failed
    except KafkaException:
        return False


def read(server: ServerProcess, wanted: set[bytes]) -> set[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.kafka_address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"])
    found: set[bytes] = set()
    deadline_s = time.monotonic() + WAIT_S
    while not found >= wanted and time.monotonic() < deadline_s:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.add(message.value())
    consumer.close()
    return found


def test_a_full_disk_shows_at_once_and_recovers_when_there_is_room(
    small_disk: Path, start_server: Callable[..., ServerProcess]
) -> None:
    server = start_server(data_dir=small_disk / "data")
    request = Request(f"{server.http_url}/topics", json.dumps({"name": "t"}).encode())
    request.add_header("content-type", "application/json")
    urlopen(request, timeout=60).close()
    acknowledged = [b"%d" % number for number in range(20)]
    assert all(send(server, value) for value in acknowledged)
    assert server.get("/readyz")[0] == server.get("/health")[0] == 200

    filler = small_disk / "filler"
    fill(filler)
    large = bytes(64 * 1024)
    assert not all(send(server, large) for _ in range(4))
    status, ready = server.get("/readyz?verbose=true")
    assert status == 503
    assert ready["checks"]["storage"] != "ok"
    status, health = server.get("/health")
    assert (status, health["status"]) == (503, "failing")
    assert server.get("/healthz")[0] == 200, (
        "a supervisor would end it, and nothing would be better"
    )

    filler.unlink()
    deadline_s = time.monotonic() + WAIT_S
    while server.get("/readyz")[0] != 200:
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    assert server.get("/health")[0] == 200
    assert send(server, b"after")
    wanted = {*acknowledged, b"after"}
    assert read(server, wanted) >= wanted
