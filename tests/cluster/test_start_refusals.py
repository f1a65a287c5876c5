"""A node of a cluster that cannot start: one sentence that says what to do, and nothing stored."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Cluster
from goqueue.testing.cluster import free_ports
from support.etcd import need_etcd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 120.0


@pytest.fixture(autouse=True)
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("a secret of sixteen characters or more")
    path.chmod(0o600)
    return path


def peers(count: int = 3) -> str:
    return ",".join(f"127.0.0.1:{each.internal}" for each in free_ports(count))


def refused(folder: Path, *flags: str, environment: dict[str, str] | None = None) -> str:
    """What a server that cannot start ends with, in one line."""
    free = ["--kafka-port=0", "--http-port=0", "--grpc-port=0"]
    done = subprocess.run(
        [sys.executable, "-m", "goqueue.cli", "server", "--data-dir", str(folder), *free, *flags],
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("goqueue: ")]
    assert len(lines) == 1, done.stderr
    return lines[0].removeprefix("goqueue: ")


def clustered(secret: Path, *flags: str, peer_list: str | None = None) -> list[str]:
    return ["--cluster-peers", peer_list or peers(), "--cluster-secret-file", str(secret), *flags]


def fake_etcd(tmp_path: Path, script: str) -> str:
    path = tmp_path / "etcd"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"--cluster-etcd-binary={path}"


def test_without_etcd(tmp_path: Path, secret: Path) -> None:
    folder = tmp_path / "data"
    nowhere = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    told = refused(folder, *clustered(secret), environment=nowhere)
    assert "etcd was not found" in told
    assert "goqueue cluster install-etcd" in told
    assert not (folder / "etcd").exists()


def test_with_an_etcd_that_is_too_old(tmp_path: Path, secret: Path) -> None:
    binary = fake_etcd(tmp_path, "echo 'etcd Version: 3.4.23'")
    told = refused(tmp_path / "data", *clustered(secret, binary))
    assert "is version 3.4.23, expected 3.5.16 or newer" in told
    assert "goqueue cluster install-etcd" in told


def test_with_an_etcd_that_ends_with_the_same_error_twice(tmp_path: Path, secret: Path) -> None:
    script = """
[ "$1" = --version ] && { echo 'etcd Version: 3.5.30'; exit; }
echo 'panic: walpb: crc mismatch' >&2
exit 2"""
    etcd = fake_etcd(tmp_path, script)
    told = refused(tmp_path / "data", *clustered(secret, etcd, peer_list=peers(1)))
    assert "is damaged: check the disk and restore the folder" in told


def test_with_a_port_of_etcd_that_is_taken(tmp_path: Path, secret: Path) -> None:
    need_etcd()
    (ports,) = free_ports(1)
    with socket.create_server(("127.0.0.1", ports.internal + 1)):
        told = refused(
            tmp_path / "data", *clustered(secret, peer_list=f"127.0.0.1:{ports.internal}")
        )
    assert "a port of etcd is in use by another process" in told


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB, which is less than etcd's first file."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_on_a_disk_that_is_full(small_disk: Path, secret: Path) -> None:
    need_etcd()
    told = refused(small_disk / "data", *clustered(secret, peer_list=peers(1)))
    assert "is full, and etcd cannot write: make room" in told


def test_with_the_etcd_of_another_cluster(tmp_path: Path, secret: Path) -> None:
    need_etcd()
    with Cluster(1, data_dir=tmp_path / "other") as other:
        theirs = other.data_dir(1) / "etcd"
        other.stop()
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copytree(theirs, folder / "etcd")
    mine = peers(1)
    told = refused(folder, *clustered(secret, peer_list=mine))
    assert f"belongs to the nodes {other.internal_address(1)}, and the settings say {mine}" in told
    named = refused(
        folder,
        *clustered(secret, "--cluster-name=mine", peer_list=other.internal_address(1)),
    )
    assert "belongs to the cluster goqueue, and the settings say mine" in named


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3) as cluster:
        yield cluster


def of(cluster: Cluster, *flags: str) -> list[str]:
    """The flags of a node that takes part in a cluster."""
    addresses = ",".join(cluster.internal_address(node) for node in (1, 2, 3))
    return ["--cluster-peers", addresses, *flags]


def test_beside_a_node_with_the_same_id(cluster: Cluster, tmp_path: Path) -> None:
    shared = f"--cluster-secret-file={cluster.folder / 'secret'}"
    told = refused(tmp_path / "data", *of(cluster, shared, "--node-id=node-2"))
    assert "node 2 runs already: an etcd answers at" in told
    assert "start this one with its own --node-id" in told
    assert set(cluster.processes(2)) == {"supervisor", "etcd", "broker"}


def test_with_another_secret_than_the_clusters(
    cluster: Cluster, tmp_path: Path, secret: Path
) -> None:
    flags = of(cluster, f"--cluster-secret-file={secret}", "--node-id=node-3")
    cluster.stop(3)
    try:
        told = refused(cluster.data_dir(3), *flags)
    finally:
        cluster.start(3)
    assert f"the secret in {secret} is not that of the cluster: copy the file of a node" in told


def test_in_a_folder_in_use(cluster: Cluster) -> None:
    shared = f"--cluster-secret-file={cluster.folder / 'secret'}"
    told = refused(cluster.data_dir(2), *of(cluster, shared, "--node-id=node-2"))
    assert f"is in use by the server with PID {cluster.processes(2)['supervisor']}" in told


def test_a_clusters_folder_on_its_own_and_the_reverse(tmp_path: Path, secret: Path) -> None:
    need_etcd()
    with Cluster(1, data_dir=tmp_path / "cluster") as cluster:
        cluster.stop()
        theirs = cluster.data_dir(1)
    before = sorted(path.name for path in theirs.iterdir())
    told = refused(theirs)
    assert "belongs to a node of a cluster: start it with the cluster's settings" in told
    assert "copy topics" in told
    assert sorted(path.name for path in theirs.iterdir()) == before
    shutil.rmtree(theirs / "etcd")
    shared = f"--cluster-secret-file={cluster.folder / 'secret'}"
    told = refused(theirs, "--cluster-peers", cluster.internal_address(1), shared)
    assert "has lost what it had stored, and there is no other node to take it from" in told

    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "metadata.db").write_bytes(b"")
    told = refused(alone, *clustered(secret))
    assert "belongs to a server that runs on its own" in told
    assert "copy topics" in told
    assert not (alone / "etcd").exists()
