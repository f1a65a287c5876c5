"""Users, keys, roles and rules of a cluster: changed through one node, they count on all."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from goqueue import Client, ClientSettings
from goqueue.client.errors import LoginError
from goqueue.testing import Cluster
from support.etcd import need_etcd
from support.http_api import HttpApi
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = (1, 2, 3)
ROOT_KEY = "the-root-key-of-a-cluster"
SETTINGS = {
    "auth.enabled": "true",
    "auth.root_key": ROOT_KEY,
    "auth.super_users": "root",
    "sasl.users": "root:secret",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3, settings=SETTINGS) as cluster:
        yield cluster


def ask(cluster: Cluster, node: int, method: str, path: str, body: Any = None) -> Any:
    api = HttpApi(urlsplit(cluster.http_url(node)).port or 0)
    try:
        headers = {"Authorization": f"Bearer {ROOT_KEY}"}
        answer = api.ask(method, path, body, headers=headers)
    finally:
        api.close()
    assert answer.status < 300, answer
    return answer.json


def logs_in(cluster: Cluster, node: int, settings: ClientSettings) -> bool:
    try:
        with Client(cluster.kafka_address(node), settings) as client:
            return client.health().is_ok or True
    except LoginError:
        return False


def test_a_key_counts_on_every_node_from_its_creation_to_its_revocation(cluster: Cluster) -> None:
    made = ask(cluster, 1, "POST", "/admin/keys", {"name": "ci", "roles": ["admin"]})
    settings = ClientSettings(api_key=made["key"])
    assert [logs_in(cluster, node, settings) for node in NODES] == [True] * 3
    assert [each["id"] for each in ask(cluster, 2, "GET", "/admin/keys")["keys"]] == [made["id"]]
    ask(cluster, 3, "DELETE", f"/admin/keys/{made['id']}")
    assert [logs_in(cluster, node, settings) for node in NODES] == [False] * 3


def test_a_user_counts_on_every_node_until_it_is_deleted(cluster: Cluster) -> None:
    body = {"password": "a-password", "roles": ["admin"]}
    ask(cluster, 2, "PUT", "/admin/users/zoe", body)
    settings = ClientSettings(sasl_mechanism="SCRAM-SHA-256", username="zoe", password="a-password")
    assert [logs_in(cluster, node, settings) for node in NODES] == [True] * 3
    ask(cluster, 1, "DELETE", "/admin/users/zoe")
    assert [logs_in(cluster, node, settings) for node in NODES] == [False] * 3


def test_a_rule_is_seen_on_every_node(cluster: Cluster) -> None:
    body = {
        "principal": "User:x",
        "resource_type": "topic",
        "resource_name": "orders",
        "operations": ["read"],
    }
    made = ask(cluster, 3, "POST", "/admin/acls", body)["acls"][0]
    wanted = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:x", None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    for node in NODES:
        assert ask(cluster, node, "GET", "/admin/acls?principal=User:x")["acls"] == [made]
        admin = AdminClient(
            {
                "bootstrap.servers": cluster.kafka_address(node),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "root",
                "sasl.password": "secret",
            }
        )
        assert [each.name for each in admin.describe_acls(wanted).result(30)] == ["orders"]
    ask(cluster, 1, "DELETE", f"/admin/acls/{made['id']}")
    for node in NODES:
        assert ask(cluster, node, "GET", "/admin/acls?principal=User:x")["acls"] == []


def test_rules_roles_and_passwords_count_on_every_node(cluster: Cluster) -> None:
    """A topic that is not there is 404 to who may see it, and 403 to others."""

    def counts(status: int, password: str = "a-password") -> None:
        for node in NODES:
            asked = partial(is_answered, cluster, node, password, status)
            eventually(asked, f"node {node} answers {status}")

    ask(cluster, 1, "PUT", "/admin/users/yan", {"password": "a-password", "roles": []})
    counts(403)
    body = {
        "principal": "User:yan",
        "resource_type": "topic",
        "resource_name": "nothing",
        "operations": ["describe"],
    }
    (made,) = ask(cluster, 2, "POST", "/admin/acls", body)["acls"]
    counts(404)
    ask(cluster, 3, "DELETE", f"/admin/acls/{made['id']}")
    counts(403)
    ask(cluster, 1, "PUT", "/admin/users/yan/roles", {"roles": ["readonly"]})
    counts(404)
    ask(cluster, 2, "PUT", "/admin/users/yan/roles", {"roles": []})
    counts(403)
    ask(cluster, 3, "PUT", "/admin/users/yan", {"password": "another-password"})
    counts(401)
    counts(403, "another-password")


def is_answered(cluster: Cluster, node: int, password: str, status: int) -> bool:
    login = base64.b64encode(f"yan:{password}".encode()).decode()
    api = HttpApi(urlsplit(cluster.http_url(node)).port or 0)
    try:
        told = api.ask("GET", "/topics/nothing", headers={"Authorization": f"Basic {login}"})
        return told.status == status
    finally:
        api.close()
