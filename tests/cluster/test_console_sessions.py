"""Sessions of the console in a cluster: opened at one node, they count at all, until a sign-out."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from goqueue.testing import Cluster
from support.etcd import need_etcd
from support.http_api import HttpApi
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.http_api import Answer

NODES = (1, 2, 3)
SETTINGS = {
    "auth.enabled": "true",
    "auth.root_key": "the-root-key-of-a-cluster",
    "sasl.users": "root:secret",
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3, settings=SETTINGS) as cluster:
        yield cluster


def ask(cluster: Cluster, node: int, method: str, path: str, **headers: str) -> Answer:
    api = HttpApi(urlsplit(cluster.http_url(node)).port or 0)
    body = {"user": "root", "password": "secret"} if method == "POST" else None
    try:
        return api.ask(method, path, body, headers=headers)
    finally:
        api.close()


def test_a_session_counts_at_every_node_survives_the_death_of_its_own_and_ends_everywhere(
    cluster: Cluster,
) -> None:
    signed_in = ask(cluster, 1, "POST", "/session")
    assert signed_in.status == 200, signed_in
    cookie = signed_in.headers["set-cookie"].partition(";")[0]
    for node in NODES:
        assert ask(cluster, node, "GET", "/topics", Cookie=cookie).status in {200, 403}
        seen = ask(cluster, node, "GET", "/session", Cookie=cookie).json
        assert seen["principal"] == "User:root"
        assert seen["csrf_token"] == signed_in.json["csrf_token"]
    cluster.kill(1)
    assert ask(cluster, 2, "GET", "/session", Cookie=cookie).json["principal"] == "User:root"
    # it waits while etcd elects another leader, if node 1 had it
    assert ask(cluster, 3, "DELETE", "/session", Cookie=cookie).status == 200
    assert ask(cluster, 3, "GET", "/topics", Cookie=cookie).status == 401
    eventually(lambda: ask(cluster, 2, "GET", "/topics", Cookie=cookie).status == 401, "the end")
    cluster.start(1)
    assert ask(cluster, 1, "GET", "/topics", Cookie=cookie).status == 401
