"""A node whose etcd has lost its folder is taken in again by the others, under the same number."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from goqueue.server.supervision.etcd_gateway import ask
from goqueue.testing import Cluster
from support.etcd import need_etcd
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: Final = {"node-1", "node-2", "node-3"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3) as cluster:
        yield cluster


def members(cluster: Cluster, node: int) -> dict[str, dict[str, Any]]:
    """Those of etcd, by name, as the member of one node knows them, once all have started.

    A member that was taken in has no name until it has told the others.
    """
    host, _, port = cluster.internal_address(node).rpartition(":")

    def listed() -> dict[str, dict[str, Any]]:
        url = f"http://{host}:{int(port) + 1}"
        found = ask(url, None, "/v3/cluster/member/list")["members"]
        return {each["name"]: each for each in found if each.get("clientURLs")}

    return eventually(lambda: (known := listed()).keys() == NAMES and known, timeout_s=60)


@pytest.mark.parametrize("lost", ["etcd", "everything"])
def test_a_node_that_lost_its_etcd_is_a_new_member(cluster: Cluster, lost: str) -> None:
    before = members(cluster, 1)
    cluster.kill(3)
    folder = cluster.data_dir(3)
    shutil.rmtree(folder / "etcd" if lost == "etcd" else folder)
    cluster.start(3)
    for node in (1, 2, 3):
        after = members(cluster, node)
        assert after["node-3"]["ID"] != before["node-3"]["ID"]
        assert after["node-1"]["ID"] == before["node-1"]["ID"]


def test_an_empty_node_forms_no_etcd_before_others_have_said_that_there_is_none(
    cluster: Cluster,
) -> None:
    """Under its old number it would have forgotten what it has voted for and acknowledged."""
    before = members(cluster, 1)
    for node in (1, 2, 3):
        cluster.kill(node)
    shutil.rmtree(cluster.data_dir(3))
    cluster.start(3, wait=False)
    with pytest.raises(AssertionError):
        eventually(lambda: "etcd" in cluster.processes(3), timeout_s=3)
    for node in (1, 2):
        cluster.start(node, wait=False)
    for node in (1, 2, 3):
        cluster.wait(node)
    after = members(cluster, 1)
    assert after["node-3"]["ID"] != before["node-3"]["ID"]
    assert after["node-1"]["ID"] == before["node-1"]["ID"]
