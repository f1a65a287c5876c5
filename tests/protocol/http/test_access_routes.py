"""Users, keys, rules and roles over HTTP."""

from __future__ import annotations

import re

import pytest

from support.http_api import HttpApi
from support.server import make_server

ROOT_KEY = "the-root-key-of-this-server"


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    environment = {"GOQUEUE_AUTH_ENABLED": "true", "GOQUEUE_API_ROOT_KEY": ROOT_KEY}
    made = make_server(tmp_path_factory.mktemp("access") / "data", environment=environment)
    made.start()
    connection = HttpApi(made.http_port)
    yield connection
    connection.close()
    made.close()


@pytest.fixture
def ask(api):
    def asked(method, path, body=None):
        return api.ask(method, path, body, headers={"Authorization": f"Bearer {ROOT_KEY}"})

    return asked


def test_a_key_is_shown_once_and_revoked(ask) -> None:
    body = {"name": "ci", "roles": ["producer"], "expires_in": "1h", "metadata": {"team": "a"}}
    made = ask("POST", "/admin/keys", body)
    assert made.status == 201, made
    assert re.fullmatch(r"gq_[0-9a-f]{64}", made.json["key"])
    assert re.fullmatch(r"key_[0-9a-f]{16}", made.json["id"])
    assert made.json["expires_at"] == made.json["created_at"] + 3_600_000
    listed = ask("GET", "/admin/keys")
    assert made.json["key"].encode() not in listed.body
    (shown,) = [each for each in listed.json["keys"] if each["id"] == made.json["id"]]
    assert shown == {name: value for name, value in made.json.items() if name != "key"}
    assert shown["prefix"] == made.json["key"][:11]
    path = f"/admin/keys/{made.json['id']}"
    assert ask("DELETE", path).json["revoked"] is True
    assert ask("DELETE", path).status == 200
    assert (ask("DELETE", path).status, ask("DELETE", path).code) == (404, "unknown_key")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "x", "roles": ["unheard-of"]}, "unknown_role"),
        ({"name": ""}, None),
        ({"name": "x", "expires_in": "soon"}, None),
        ({"name": "x", "key": "mine"}, None),
    ],
)
def test_a_key_that_cannot_be_is_refused(ask, body, code) -> None:
    answer = ask("POST", "/admin/keys", body)
    assert 400 <= answer.status < 500
    assert code is None or answer.code == code


def test_users_are_made_changed_and_deleted(ask) -> None:
    assert ask("PUT", "/admin/users/zo%C3%AB", {"roles": ["producer"]}).code == "unknown_credential"
    made = ask("PUT", "/admin/users/zoe", {"password": "a-password", "roles": ["producer"]})
    assert made.json == {
        "name": "zoe",
        "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"],
        "roles": ["producer"],
        "tenant": None,
    }
    assert ask("PUT", "/admin/users/zoe", {"password": "another"}).json["roles"] == ["producer"]
    given = ask("PUT", "/admin/users/zoe/roles", {"roles": ["consumer", "readonly"]})
    assert given.json["roles"] == ["consumer", "readonly"]
    assert "zoe" in [each["name"] for each in ask("GET", "/admin/users").json["users"]]
    assert ask("DELETE", "/admin/users/zoe").json == {"deleted": "zoe"}
    assert ask("DELETE", "/admin/users/zoe").status == 404
    again = ask("PUT", "/admin/users/zoe", {"password": "a-password"})
    assert again.json["roles"] == []  # another user of that name does not get them
    refused = ask("PUT", "/admin/users/key_0123456789abcdef", {"password": "a-password"})
    assert refused.code == "unacceptable_credential"


def test_rules_are_made_found_and_deleted(ask) -> None:
    body = {
        "principal": "User:rules",
        "resource_type": "topic",
        "resource_name": "ord",
        "pattern_type": "prefixed",
        "operations": ["read", "write"],
    }
    made = ask("POST", "/admin/acls", body)
    assert made.status == 201, made
    assert ask("POST", "/admin/acls", body).json == made.json
    found = ask("GET", "/admin/acls?resource_type=topic&resource_name=orders").json["acls"]
    assert sorted(each["id"] for each in found) == sorted(e["id"] for e in made.json["acls"])
    for each in made.json["acls"]:
        assert ask("DELETE", f"/admin/acls/{each['id']}").json == each
    assert ask("DELETE", f"/admin/acls/{each['id']}").code == "unknown_acl"
    impossible = body | {"resource_type": "group"}
    assert ask("POST", "/admin/acls", impossible).code == "invalid_acl"


def test_roles_of_ones_own(ask) -> None:
    made = ask("PUT", "/admin/roles/monitor", {"permissions": ["metrics:read"]})
    assert made.json["built_in"] is False
    assert ask("PUT", "/admin/roles/monitor", {"permissions": ["admin:*"]}).code == "invalid_role"
    assert ask("PUT", "/admin/roles/admin", {"permissions": ["topic:list"]}).code == "invalid_role"
    names = [each["name"] for each in ask("GET", "/admin/roles").json["roles"]]
    assert names[:4] == ["admin", "producer", "consumer", "readonly"]
    assert "monitor" in names
    assert ask("DELETE", "/admin/roles/monitor").status == 200
    assert ask("DELETE", "/admin/roles/monitor").code == "unknown_role"
    assert ask("DELETE", "/admin/roles/admin").code == "invalid_role"
