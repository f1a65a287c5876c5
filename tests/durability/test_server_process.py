"""`goqueue server` as a process: it says when it is ready, stops when asked, survives a kill."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from goqueue.server.folder import LOCK_FILE, PID_FILE
from support import server as fixtures
from support.server import HOST, START_S, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    StartServer = Callable[..., ServerProcess]

server = fixtures.server
start_server = fixtures.start_server


def refused(server: ServerProcess) -> list[str]:
    """What a server that cannot start says, line by line."""
    ended = subprocess.run(
        server.command, capture_output=True, text=True, timeout=START_S, check=False
    )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    return [line for line in ended.stderr.splitlines() if " INFO " not in line]


def test_the_ready_line_names_version_addresses_folder_and_time(server: ServerProcess) -> None:
    (line,) = [line for line in server.log if "ready in " in line]
    for part in (
        "goqueue 0.",
        f"PLAINTEXT on {server.kafka_address}",
        f"HTTP on {HOST}:{server.http_port}",
        f"data in {server.data_dir}",
        " ms: ",
        " codec",
    ):
        assert part in line
    assert any(f"console: http://{HOST}:{server.http_port}/console" in each for each in server.log)


def test_the_probes_answer_over_a_real_socket(server: ServerProcess) -> None:
    assert server.get("/readyz?verbose=true")[0] == 200
    assert server.get("/v1/livez") == (200, {"status": "ok"})
    assert server.get("/version")[1]["event_loop"] == "uvloop"
    status, metrics = server.get("/metrics")
    assert status == 200
    assert "process_resident_memory_bytes" in metrics
    status, problem = server.get("/health", method="DELETE")
    assert (status, problem["title"]) == (405, "Method Not Allowed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_in_order(server: ServerProcess, number: int) -> None:
    server.signal(number)
    assert server.wait() == 0
    assert server.log[-1].endswith("stopped")
    assert not (server.data_dir / PID_FILE).exists()


def test_idle_connections_do_not_hold_up_a_stop(start_server: StartServer) -> None:
    server = start_server("--broker-stop-timeout", "10m")
    kept = http.client.HTTPConnection(HOST, server.http_port)
    kept.request("GET", "/health")
    kept.getresponse().read()
    with socket.create_connection((HOST, server.kafka_port)):
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    kept.close()


def test_a_second_signal_ends_the_process_at_once(start_server: StartServer) -> None:
    server = start_server("--broker-stop-timeout", "5m")
    with socket.create_connection((HOST, server.http_port)) as slow:
        # And no more of its body: this request is never complete.
        slow.sendall(b"POST /topics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        server.signal(signal.SIGTERM)
        server.wait_for_line("SIGTERM: stopping")
        server.signal(signal.SIGTERM)
        assert server.wait() == 128 + signal.SIGTERM
    assert server.restart().get("/readyz")[0] == 200


def test_a_killed_server_starts_again_in_the_same_folder(server: ServerProcess) -> None:
    cluster = server.get("/stats")[1]["cluster_id"]
    assert server.kill() == -signal.SIGKILL
    assert (server.data_dir / PID_FILE).exists()
    server.restart()
    assert server.get("/stats")[1]["cluster_id"] == cluster
    assert server.stop() == 0


def test_a_stale_lock_and_pid_block_nobody(tmp_path: Path, start_server: StartServer) -> None:
    folder = tmp_path / "left"
    folder.mkdir()
    (folder / LOCK_FILE).touch()
    (folder / PID_FILE).write_text("1\n")
    server = start_server(data_dir=folder)
    assert int((folder / PID_FILE).read_text()) == server.pid


def test_a_second_server_on_the_same_folder_is_told_who_has_it(server: ServerProcess) -> None:
    (line,) = refused(ServerProcess(server.data_dir))
    assert f"in use by the server with PID {server.pid}" in line
    assert server.get("/readyz")[0] == 200


@pytest.mark.parametrize("protocol", ["kafka", "http"])
def test_a_port_in_use_is_one_line(tmp_path: Path, server: ServerProcess, protocol: str) -> None:
    second = ServerProcess(tmp_path / "other")
    setattr(second, f"{protocol}_port", getattr(server, f"{protocol}_port"))
    (line,) = refused(second)
    assert line.startswith("goqueue: ")
    assert "is in use by another process" in line


def test_a_folder_that_cannot_be_used_is_reported_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lines = refused(ServerProcess(tmp_path / "file"))
    assert any("a folder, not a file" in line for line in lines)


def test_every_problem_of_the_configuration_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.yaml"
    file.write_text("topics:\n  partitions: many\nstorag:\n  fsync: always\n")
    flags = ("--fsync", "sometimes", "--no-such-flag", "x", "--config", str(file))
    said = "\n".join(refused(ServerProcess(tmp_path / "data", *flags)))
    for part in ("4 problems", "sometimes", "--no-such-flag", "topics.partitions", "storag"):
        assert part in said
    assert not (tmp_path / "data").exists()


def test_flags_count_more_than_the_environment_and_that_more_than_the_file(
    tmp_path: Path, start_server: StartServer
) -> None:
    file = tmp_path / "goqueue.yaml"
    file.write_text("broker: {id: 7}\nlogging: {format: json}\n")
    server = start_server(
        *("--config", str(file), "--log-format", "text"), environment={"GOQUEUE_BROKER_ID": "8"}
    )
    assert server.get("/stats")[1]["node_id"] == 8
    assert " INFO " in server.log[-1]


def test_the_help_names_every_flag() -> None:
    shown = subprocess.run(
        [*ServerProcess.COMMAND, "--help"], capture_output=True, text=True, check=True
    ).stdout
    for flag in ("--data-dir", "--kafka-port", "--http-port", "--grpc-port", "--fsync", "--config"):
        assert flag in shown
