"""The etcds of a cluster with TLS: a certificate on both sides, or no answer."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Cluster
from support.certificates import Authority
from support.etcd import need_etcd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> tuple[Path, Path]:
    return authority.issue("node")


@pytest.fixture(scope="module")
def cluster(authority: Authority, pair: tuple[Path, Path]) -> Iterator[Cluster]:
    need_etcd()
    settings = {
        "cluster.tls_enabled": True,
        "cluster.tls_cert_file": pair[0],
        "cluster.tls_key_file": pair[1],
        "cluster.tls_ca_file": authority.ca_file,
    }
    with Cluster(3, settings=settings) as cluster:
        yield cluster


def health(cluster: Cluster, context: ssl.SSLContext) -> str:
    """What the etcd of node 1 says of itself, after a read that needs a majority."""
    host, _, port = cluster.internal_address(1).rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port) + 1, context=context, timeout=10)
    try:
        connection.request("GET", "/health")
        found: str = json.loads(connection.getresponse().read())["health"]
    finally:
        connection.close()
    return found


def test_members_find_each_other_and_answer_a_client_with_a_certificate(
    cluster: Cluster, authority: Authority, pair: tuple[Path, Path]
) -> None:
    context = ssl.create_default_context(cafile=authority.ca_file)
    context.load_cert_chain(*pair)
    assert health(cluster, context) == "true"


def test_a_client_without_a_certificate_is_refused(cluster: Cluster, authority: Authority) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        health(cluster, ssl.create_default_context(cafile=authority.ca_file))
