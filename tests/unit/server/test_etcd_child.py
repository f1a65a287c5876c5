"""Which etcd a node runs, out of its settings alone; and who runs a node, out of its folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from goqueue.server.config_load import load_config
from goqueue.server.errors import DataFolderInUseError, StartError
from goqueue.server.supervision.etcd_child import client_urls, is_member, member_of
from goqueue.server.supervision.etcd_folder import EtcdFolder
from goqueue.server.supervision.node_lock import FILE, NodeLock, running

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.server.config import Config

PEERS = "10.0.0.1:7000,10.0.0.2:7000,10.0.0.3:7100"


def config(tmp_path: Path, *flags: str, peers: str = PEERS) -> Config:
    secret = tmp_path / "secret"
    secret.write_text("long enough for a secret")
    secret.chmod(0o600)
    shared = ["--cluster-secret-file", str(secret), "--cluster-allow-unencrypted"]
    return load_config(["--cluster-peers", peers, *shared, *flags], {})


def test_a_member_follows_from_the_list_of_peers(tmp_path: Path) -> None:
    member = member_of(config(tmp_path, "--node-id=node-3"), EtcdFolder(tmp_path / "etcd"))
    assert member.name == "node-3"
    assert member.client_url == "http://10.0.0.3:7101"
    assert member.peers == {
        "node-1": "http://10.0.0.1:7002",
        "node-2": "http://10.0.0.2:7002",
        "node-3": "http://10.0.0.3:7102",
    }
    assert member.listen_host == "10.0.0.3"
    assert member.tls is None
    assert not member.has_slow_disk


def test_a_member_listens_where_the_node_does(tmp_path: Path) -> None:
    everywhere = config(tmp_path, "--listeners-internal=:7000")
    assert member_of(everywhere, EtcdFolder(tmp_path)).listen_host == "0.0.0.0"
    named = config(tmp_path, "--cluster-slow-disk", peers="localhost:7000")
    member = member_of(named, EtcdFolder(tmp_path))
    assert member.listen_host in {"127.0.0.1", "::1"}
    assert member.has_slow_disk


def test_a_name_without_an_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"nowhere\.invalid has no address"):
        member_of(config(tmp_path, peers="nowhere.invalid:7000"), EtcdFolder(tmp_path))


def test_brokers_ask_their_own_etcd_first(tmp_path: Path) -> None:
    found = client_urls(config(tmp_path, "--node-id=node-2"))
    assert found == ("http://10.0.0.2:7001", "http://10.0.0.1:7001", "http://10.0.0.3:7101")


def test_only_the_first_five_nodes_run_an_etcd(tmp_path: Path) -> None:
    peers = ",".join(f"10.0.0.{n}:7000" for n in range(1, 8))
    fifth = config(tmp_path, "--node-id=node-5", peers=peers)
    sixth = config(tmp_path, "--node-id=node-6", peers=peers)
    assert is_member(fifth)
    assert not is_member(sixth)
    assert client_urls(sixth) == tuple(f"http://10.0.0.{n}:7001" for n in range(1, 6))


def test_a_held_folder_tells_who_runs_the_node_and_refuses_others(tmp_path: Path) -> None:
    lock = NodeLock(tmp_path / "data")
    lock.acquire()
    lock.note({"etcd": 2, "broker": 3})
    assert running(tmp_path / "data") == {"supervisor": os.getpid(), "etcd": 2, "broker": 3}
    with pytest.raises(DataFolderInUseError, match=f"by the server with PID {os.getpid()}"):
        NodeLock(tmp_path / "data").acquire()
    lock.release()
    assert running(tmp_path / "data") == {}


def test_what_a_killed_supervisor_has_left_deceives_nobody(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("supervisor 1\nbroker 2\n")
    assert running(tmp_path) == {}
    assert running(tmp_path / "elsewhere") == {}
    lock = NodeLock(tmp_path)
    lock.acquire()
    assert running(tmp_path) == {"supervisor": os.getpid()}
    lock.release()
