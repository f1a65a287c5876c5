"""`goqueue.testing.Cluster`: real nodes that tests start, kill, pause and start again."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Cluster
from goqueue.testing.cluster import free_ports
from support.etcd import need_etcd
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(nodes=3) as cluster:
        yield cluster


def states(cluster: Cluster, node: int) -> set[str]:
    """What /proc says of the processes of a node."""
    pids = cluster.processes(node).values()
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in pids]
    return {stat.rpartition(")")[2].split()[0] for stat in stats}


def test_each_node_is_a_supervisor_with_etcd_and_a_broker(cluster: Cluster) -> None:
    for node in (1, 2, 3):
        assert set(cluster.processes(node)) == {"supervisor", "etcd", "broker"}
    assert cluster.bootstrap.split(",") == [cluster.kafka_address(node) for node in (1, 2, 3)]


def test_files_of_a_node_are_for_its_owner_alone(cluster: Cluster) -> None:
    for path in [cluster.folder / "secret", cluster.data_dir(1), cluster.data_dir(1) / "etcd"]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_killed_node_is_gone_and_starts_again_with_its_data(cluster: Cluster) -> None:
    before = cluster.processes(2)
    cluster.kill(2)
    assert cluster.processes(2) == {}
    assert not any(
        Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
        for pid in before.values()
    )
    cluster.start(2)
    assert set(cluster.processes(2)) == set(before)


def test_a_killed_broker_is_started_again_by_its_supervisor(cluster: Cluster) -> None:
    before = cluster.processes(1)
    cluster.kill(1, "broker")
    eventually(lambda: cluster.processes(1).get("broker") not in {None, before["broker"]})
    assert cluster.processes(1)["etcd"] == before["etcd"]
    cluster.wait(1)


def test_a_paused_node_stands_still_until_it_is_resumed(cluster: Cluster) -> None:
    cluster.pause(3)
    eventually(lambda: states(cluster, 3) == {"T"}, "all are paused")
    cluster.resume(3)
    eventually(lambda: "T" not in states(cluster, 3), "all go on")
    cluster.wait(3)


def test_the_etcd_of_a_stopped_node_leads_no_more(cluster: Cluster) -> None:
    led = [node for node in (1, 2, 3) if leads_etcd(cluster, node)]
    (leader,) = led
    cluster.stop(leader)
    try:
        assert re.search(r"etcd: node-\d leads now", cluster.log(leader))
        assert "etcd: stopped" in cluster.log(leader)
        others = {1, 2, 3} - {leader}
        assert sum(leads_etcd(cluster, node) for node in others) == 1
    finally:
        cluster.start(leader)


def leads_etcd(cluster: Cluster, node: int) -> bool:
    host, _, port = cluster.internal_address(node).rpartition(":")
    connection = http.client.HTTPConnection(host, int(port) + 1, timeout=10)
    try:
        connection.request("POST", "/v3/maintenance/status", "{}")
        status = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return bool(status["leader"] == status["header"]["member_id"])


def test_a_node_that_is_not_there_is_named(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="node 4: nodes are numbered from 1 to 3"):
        cluster.kill(4)


def test_ports_of_nodes_do_not_touch() -> None:
    found = free_ports(5)
    used = [
        port
        for each in found
        for port in (*range(each.internal, each.internal + 3), each.kafka, each.http, each.grpc)
    ]
    assert len(set(used)) == 30


def test_a_cluster_that_was_not_started_says_so() -> None:
    with pytest.raises(RuntimeError, match="is not running"):
        _ = Cluster().bootstrap
