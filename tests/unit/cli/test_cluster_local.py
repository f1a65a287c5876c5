"""`goqueue cluster start|stop|status`, with the real commands on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from goqueue.testing.cluster import free_ports
from support.etcd import need_etcd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    need_etcd()

    def run(*words: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "goqueue.cli", "cluster", *words],
            cwd=tmp_path,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    yield run
    if (tmp_path / "cluster" / "cluster.json").exists():
        run("stop", "--kill")


def ports() -> list[str]:
    """Flags with ports that nobody uses: those of one node, for a cluster of one."""
    (found,) = free_ports(1)
    return [
        f"--kafka-port={found.kafka}",
        f"--http-port={found.http}",
        f"--grpc-port={found.grpc}",
        f"--internal-port={found.internal}",
    ]


def rows(run: Run, *words: str, code: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*words, "-o", "json", code=code).stdout)
    return found


def test_a_cluster_is_started_shown_stopped_and_started_again(run: Run, tmp_path: Path) -> None:
    flags = ports()
    started = run("start", "--nodes", "1", *flags)
    assert "node-1 is ready" in started.stderr
    assert "bootstrap.servers=127.0.0.1:" in started.stderr
    (node,) = rows(run, "status")
    assert node["state"] == "ready"
    assert (tmp_path / "cluster" / "secret").stat().st_mode & 0o777 == 0o600

    (same,) = rows(run, "start", "--nodes", "1", *flags)
    assert same["pid"] == node["pid"]

    (stopped,) = rows(run, "stop", "--node", "1")
    assert (stopped["state"], stopped["pid"]) == ("stopped", None)
    assert rows(run, "status", code=1)[0]["state"] == "stopped"

    (again,) = rows(run, "start")
    assert again["state"] == "ready"
    assert again["kafka"] == node["kafka"]
    assert again["pid"] != node["pid"]


def test_a_folder_of_another_size_or_with_other_ports_is_refused(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    node = {"kafka": 1, "http": 2, "grpc": 3, "internal": 4}
    (folder / "cluster.json").write_text(json.dumps({"name": "goqueue", "nodes": [node] * 3}))
    size = run("start", "--nodes", "5", code=1).stderr
    assert "holds a cluster of 3 nodes, not of 5: leave --nodes out" in size
    other = run("start", "--kafka-port", "9999", code=1).stderr
    assert "has other ports, and keeps them" in other
    assert "expected 1 to 3" in run("stop", "--node", "4", code=2).stderr


@pytest.mark.parametrize("count", ["0", "2", "4", "9"])
def test_numbers_of_nodes_without_a_majority_of_their_own_are_refused(run: Run, count: str) -> None:
    assert f"found {count}, expected 1, 3, 5 or 7" in run("start", "--nodes", count, code=2).stderr


def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "metadata.db").write_text("")
    told = run("start", "--folder", "data", code=1).stderr
    assert "is not empty and holds no cluster" in told
    assert [path.name for path in folder.iterdir()] == ["metadata.db"]


def test_a_description_that_is_damaged_is_told(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "cluster.json").write_text("{}")
    assert "does not describe a cluster" in run("status", "--folder", "broken", code=1).stderr


def test_a_folder_without_a_cluster_is_told(run: Run) -> None:
    assert "there is no cluster in" in run("status", code=1).stderr
    assert "there is no cluster in" in run("stop", "--folder", "elsewhere", code=1).stderr


def test_without_etcd_nothing_is_made(run: Run, tmp_path: Path) -> None:
    told = run("start", code=1, PATH="", XDG_CACHE_HOME=str(tmp_path / "cache")).stderr
    assert "etcd was not found" in told
    assert "goqueue cluster install-etcd" in told
    assert not (tmp_path / "cluster").exists()


def test_a_port_that_another_server_has_is_told_and_nothing_is_made(
    run: Run, tmp_path: Path
) -> None:
    flags = ports()
    taken = int(flags[1].removeprefix("--http-port="))
    with socket.create_server(("127.0.0.1", taken)):
        told = run("start", "--nodes=1", *flags, code=1).stderr
    assert f"node-1 cannot start: port {taken} is in use by another process" in told
    assert not (tmp_path / "cluster").exists()


def test_a_node_that_cannot_start_says_why_in_the_words_of_its_log(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text("topics: {replication_factor: 2, partitions: many}\n")
    told = run("start", "--nodes=1", "--config", "bad.yaml", *ports(), code=1).stderr
    assert "node-1 did not start: 2 problems in the configuration" in told
    assert "topics.partitions" in told
    assert "at most 1, as many as there are nodes" in told


def test_a_start_that_fails_on_one_node_leaves_none_running(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    nodes = [msgspec.to_builtins(each) for each in free_ports(3)]
    (folder / "node-3").mkdir(parents=True)
    (folder / "node-3" / "metadata.db").write_text("")  # as of a server on its own
    (folder / "secret").write_text("s" * 32)
    (folder / "secret").chmod(0o600)
    (folder / "cluster.json").write_text(json.dumps({"name": "goqueue", "nodes": nodes}))
    assert "node-3 did not start" in run("start", code=1).stderr
    assert [each["state"] for each in rows(run, "status", code=1)] == ["stopped"] * 3
