"""A node starts, stops, and finds everything again; what prevents a start says so in one line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import DiskError, GoQueueError
from goqueue.protocols.http.server.settings import HttpSettings
from goqueue.runtime.disk import DiskUsage
from goqueue.server.config_load import load_config
from goqueue.server.config_node import LogFormat, LoggingSection
from goqueue.server.errors import DataFolderInUseError, ListenError
from goqueue.server.folder import LOCK_FILE, PID_FILE, DataFolder
from goqueue.server.logs import set_up_logging
from goqueue.server.node import Node
from goqueue.server.process import console_url, recovery_lines
from support.brokers import publish, read_all
from support.server import HOST, running_node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


async def ask(port: int, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    """One HTTP request, on a connection of its own."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(
        f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
    )
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


# --- Starting and stopping -----------------------------------------------------------------------


def test_a_restart_keeps_the_cluster_the_topics_and_the_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            cluster = node.broker.settings.cluster_id
            await node.broker.create_topic("t", 1, {"retention.ms": "-1"})
            publish(node.broker, "t", b"one", b"two")
        async with running_node(tmp_path) as node:
            assert node.broker.settings.cluster_id == cluster
            topic = node.broker.topics.catalogue.topic("t")
            assert topic.settings.retention_ms is None
            assert [r.value for r in await read_all(node.broker, "t")] == [b"one", b"two"]
            assert recovery_lines(node.broker.partitions) == []

    asyncio.run(scenario())


def test_a_node_is_ready_between_its_start_and_its_stop_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            assert (node.is_started, node.is_ready) == (True, True)
            kafka, http = node.kafka.port, node.http.port
        assert not node.is_ready
        for port in (kafka, http):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(HOST, port)

    asyncio.run(scenario())


def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            await node.stop()

    asyncio.run(scenario())


def test_a_part_that_does_not_stop_keeps_no_other_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:

            async def broken() -> None:
                raise RuntimeError("a part of the test's own")

            async def hanging() -> None:
                await asyncio.Event().wait()

            node._started("broken", broken, 1.0)
            node._started("hanging", hanging, 0.01)
        assert DataFolder(tmp_path).holder() is None

    asyncio.run(scenario())
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == ["hanging was cancelled: it did not stop in 0 s", "broken did not stop cleanly"]


@pytest.mark.parametrize("flag", ["--kafka-port", "--http-port", "--grpc-port"])
def test_a_port_in_use_is_named_and_everything_is_let_go_again(tmp_path: Path, flag: str) -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            taken.listen()
            port = taken.getsockname()[1]
            names = ("--kafka-port", "--http-port", "--grpc-port")
            ports = {**dict.fromkeys(names, "0"), flag: str(port)}
            flags = [word for pair in ports.items() for word in pair]
            node = Node(load_config(["--data-dir", str(tmp_path), *flags], environment={}))
            with pytest.raises(ListenError, match=rf"{HOST}:{port} is in use by another process"):
                await node.start()
        async with running_node(tmp_path):
            pass

    asyncio.run(scenario())


def test_stored_data_that_cannot_be_opened_is_an_error_of_ours(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "metadata.db").write_bytes(b"not a database" * 100)
        with pytest.raises(GoQueueError, match=r"metadata\.db"):
            async with running_node(tmp_path):
                pass

    asyncio.run(scenario())


# --- The data folder -----------------------------------------------------------------------------


def test_a_second_node_is_told_who_has_the_folder(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path):
            with pytest.raises(DataFolderInUseError, match=f"PID {os.getpid()}"):
                async with running_node(tmp_path):
                    pass

    asyncio.run(scenario())


def test_what_a_killed_process_left_behind_blocks_nobody(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    (tmp_path / PID_FILE).write_text("1\n")
    folder = DataFolder(tmp_path)
    folder.acquire()
    assert folder.holder() == os.getpid()
    folder.release()
    assert not (tmp_path / PID_FILE).exists()


def test_a_folder_that_is_held_without_a_pid_is_still_refused(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.acquire()
    (tmp_path / PID_FILE).unlink()
    with pytest.raises(DataFolderInUseError, match="another server"):
        DataFolder(tmp_path).acquire()
    folder.release()
    folder.release()


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match="preparing the data folder"):
        DataFolder(tmp_path / "file" / "data").acquire()


# --- Probes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/healthz", 200),
        ("GET", "/livez", 200),
        ("GET", "/readyz", 200),
        ("GET", "/version", 200),
        ("GET", "/stats", 200),
        ("GET", "/v1/health/", 200),
        ("GET", "/metrics", 200),
        ("GET", "/nothing", 404),
        ("POST", "/health", 405),
    ],
)
def test_each_probe_answers_with_a_status_of_its_own(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            found, headers, body = await ask(node.http.port, method, path)
            assert found == status
            if path == "/metrics":
                assert headers["content-type"].startswith("text/plain")
                assert b"goqueue_broker_topic_count" in body
            elif status == 200:
                assert headers["content-type"] == "application/json"
                assert isinstance(json.loads(body), dict)
            else:
                assert headers["content-type"] == "application/problem+json"
                assert json.loads(body)["status"] == status

    asyncio.run(scenario())


def test_head_answers_like_get_without_the_body(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            status, headers, body = await ask(node.http.port, "HEAD", "/healthz")
            assert (status, body) == (200, b"")
            assert headers["content-length"] == str(len(b'{"status":"ok"}'))

    asyncio.run(scenario())


def test_a_request_that_never_ends_is_refused_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            monkeypatch.setattr(node.http.service, "settings", HttpSettings(head_s=0.05))
            reader, writer = await asyncio.open_connection(HOST, node.http.port)
            writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
            writer.close()

    asyncio.run(scenario())


def test_headers_without_end_are_refused_and_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            reader, writer = await asyncio.open_connection(HOST, node.http.port)
            writer.write(b"GET /health HTTP/1.1\r\n")
            with suppress(ConnectionError):
                for _ in range(100):
                    writer.write(b"x-more: " + b"." * 8000 + b"\r\n")
                    await writer.drain()
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
            writer.close()

    asyncio.run(scenario())


def test_a_connection_that_is_kept_open_serves_one_request_after_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            reader, writer = await asyncio.open_connection(HOST, node.http.port)
            for _ in range(3):
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                await reader.readuntil(b'{"status":"ok"}')
            writer.close()
            await writer.wait_closed()

    asyncio.run(scenario())


def test_a_node_that_refuses_publishes_is_not_ready_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            with monkeypatch.context() as full:
                full.setattr(node.broker.disk, "usage", lambda _: DiskUsage(1000, 0))
                status, _, body = await ask(node.http.port, "GET", "/readyz?verbose=true")
                assert status == 503
                answer = json.loads(body)
                assert answer["status"] == "not ready"
                storage = answer["checks"].pop("storage")
                assert "is 100.0 % full, and publishing is refused" in storage
                assert answer["checks"] == {"node": "ok", "metadata": "ok", "clock": "ok"}
                assert answer["broker"]["node_id"] == 1
                status, _, body = await ask(node.http.port, "GET", "/health")
                assert (status, json.loads(body)["storage"]) == (503, storage)
                assert (await ask(node.http.port, "GET", "/healthz"))[0] == 200
            assert (await ask(node.http.port, "GET", "/readyz"))[0] == 200
            assert (await ask(node.http.port, "GET", "/health"))[0] == 200

    asyncio.run(scenario())


def test_a_node_that_has_not_started_or_lost_its_metadata_is_not_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            node.is_started = node.is_ready = False
            assert (await ask(node.http.port, "GET", "/livez"))[0] == 503
            assert (await ask(node.http.port, "GET", "/readyz"))[0] == 503
            node.is_ready = True
            await node.store.close()
            status, _, body = await ask(node.http.port, "GET", "/readyz?verbose")
            assert status == 503
            assert "closed" in json.loads(body)["checks"]["metadata"]

    asyncio.run(scenario())


def test_the_statistics_count_what_is_stored(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            await node.broker.create_topic("t", 2)
            publish(node.broker, "t", b"one", b"two")
            answer = json.loads((await ask(node.http.port, "GET", "/stats"))[2])
            topic = answer["topics"]["t"]
            assert (topic["partition_count"], topic["offset_span"]) == (2, 2)
            assert topic["size_bytes"] == answer["size_bytes"] > 0

    asyncio.run(scenario())


# --- The log -------------------------------------------------------------------------------------


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    ours = logging.getLogger("goqueue").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("goqueue").setLevel(ours)


@pytest.mark.usefixtures("logging_as_before")
def test_log_lines_for_programs_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(LoggingSection(format=LogFormat.JSON))
    logging.getLogger("goqueue.test").info("%d things", 3)
    logging.getLogger("somebody.else").info("not shown")
    try:
        int("broken")
    except ValueError:
        logging.getLogger("goqueue.test").exception("it failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["message"]) == ("info", "3 things")
    assert "ValueError: invalid literal" in second["exception"]


@pytest.mark.parametrize(
    ("host", "tls", "url"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:8080/console"),
        ("0.0.0.0", True, "https://localhost:8080/console"),
        ("::", False, "http://localhost:8080/console"),
        ("::1", False, "http://[::1]:8080/console"),
    ],
)
def test_the_address_of_the_console_can_be_opened_in_a_browser(
    host: str, url: str, *, tls: bool
) -> None:
    assert console_url(host, 8080, tls=tls) == url
