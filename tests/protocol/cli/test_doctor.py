"""`goqueue doctor` against a live server, against none, and on ports that others have."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.cli.api import Api
from goqueue.cli.contexts import Target
from goqueue.cli.doctor.ports import check_port, owner_of
from goqueue.cli.doctor.server import check_server

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run


@pytest.fixture
def free_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server here would take any ports, and a folder of its own."""
    for name in ("KAFKA", "HTTP", "GRPC"):
        monkeypatch.setenv(f"GOQUEUE_LISTENERS_{name}", "127.0.0.1:0")
    monkeypatch.setenv("GOQUEUE_BROKER_DATA_DIR", str(tmp_path / "data"))


def checks(text: str) -> dict[str, dict[str, Any]]:
    return {each["check"]: each for each in json.loads(text)["checks"]}


def test_a_server_that_runs_has_no_failure(run: Run, free_ports: None) -> None:
    found = checks(run("doctor", "-o", "json").stdout)
    assert {
        name: found[name]["level"] for name in ("server", "versions", "readiness", "clock")
    } == {
        "server": "ok",
        "versions": "ok",
        "readiness": "ok",
        "clock": "ok",
    }
    assert found["disk space"]["level"] in {"ok", "warning"}
    assert {"disk speed", "file descriptors", "etcd", "java", "pyspark"} <= found.keys()
    for each in found.values():
        assert (each["advice"] is None) == (each["level"] == "ok")


def test_people_get_a_line_for_each_check_and_what_to_do(
    run: Run, free_ports: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_SERVER", "http://127.0.0.1:1")
    result = run("doctor", code=1)
    assert result.stdout.startswith("FAILURE  server ")
    assert "-> start one with `goqueue server`" in result.stdout
    assert "1 failed" in result.stdout


def test_a_wrong_setting_is_a_failure_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_STORAGE_FSYNC", "sometimes")
    found = checks(run("doctor", "-o", "json", code=1).stdout)
    assert found["configuration"]["level"] == "failure"
    assert "sometimes" in found["configuration"]["found"]


def test_a_port_that_another_process_has_is_named_with_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = check_port("http", "127.0.0.1", port, None)
        assert found.level == "failure"
        assert f"(pid {os.getpid()})" in found.found
        assert found.advice is not None
        assert "--http-port" in found.advice
        assert check_port("http", "127.0.0.1", port, "another (pid 1)").level == "warning"
    assert check_port("http", "127.0.0.1", port, None).level == "ok"
    assert check_port("http", "127.0.0.1", port, "a server (pid 1)").level == "warning"
    assert owner_of(port) is None


def test_the_ports_of_the_server_that_runs_are_its_own(goqueue_broker: Broker) -> None:
    port = int(goqueue_broker.http_url.rpartition(":")[2])
    found = check_port("http", "127.0.0.1", port, owner_of(port) or "")
    assert found.level == "ok"
    assert "in use by the server" in found.found


class _Ahead:
    """A server whose clock and version are not ours."""

    def __init__(self, broker: Broker) -> None:
        self._api = Api(Target(broker.http_url, "test"))
        self.target = self._api.target

    def close(self) -> None:
        self._api.close()

    def get(self, kind: Any, path: str) -> Any:
        found = self._api.get(kind, path)
        found.version = "99.1.0"
        return found

    def probe(self, kind: Any, path: str) -> Any:
        status, found = self._api.probe(kind, path)
        if path == "/health":
            found.timestamp += 3_600_000
        return status, found


def test_another_release_and_another_clock_are_noticed(goqueue_broker: Broker) -> None:
    server: Any = _Ahead(goqueue_broker)
    found = {each.check: each for each in check_server(server)}
    server.close()
    assert found["versions"].level == "warning"
    assert "upgrade the client" in str(found["versions"].advice)
    assert found["clock"].level == "failure"
    assert "1h ahead of" in found["clock"].found
