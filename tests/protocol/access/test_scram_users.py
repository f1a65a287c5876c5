"""Users that are made and deleted by Kafka's requests, beside what rules and roles say of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from protocol.secure_clients import AT_ONCE, WAIT_S, Access, admin_of
from support.http_api import HttpApi
from support.server import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.server import ServerProcess

ROOT_KEY = "root-key-of-the-test"
MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    environment = AT_ONCE | {
        "GOQUEUE_AUTH_ENABLED": "true",
        "GOQUEUE_AUTH_SUPER_USERS": "root",
        "GOQUEUE_API_ROOT_KEY": ROOT_KEY,
        "GOQUEUE_SASL_USERS": "root:of-all",
    }
    made = make_server(tmp_path / "data", environment=environment)
    made.start()
    yield made
    made.close()


def alter(server: ServerProcess, *changes: Any) -> None:
    admin = admin_of(Access(server.kafka_address, "SCRAM-SHA-256", "root", "of-all"))
    for future in admin.alter_user_scram_credentials(list(changes)).values():
        future.result(WAIT_S)


def roles_of_bob(server: ServerProcess, body: dict[str, Any]) -> list[str]:
    api = HttpApi(server.http_port)
    answer = api.ask("PUT", "/admin/users/bob", body, headers={"X-API-Key": ROOT_KEY})
    api.close()
    assert answer.status == 200, answer
    roles: list[str] = answer.json["roles"]
    return roles


def test_a_user_whose_last_keys_are_deleted_leaves_no_roles_to_the_next_of_that_name(
    server: ServerProcess,
) -> None:
    assert roles_of_bob(server, {"password": "first-bob", "roles": ["admin"]}) == ["admin"]
    alter(server, UserScramCredentialDeletion("bob", MECHANISMS[0]))
    assert roles_of_bob(server, {"roles": ["admin"]}) == ["admin"]
    alter(server, UserScramCredentialDeletion("bob", MECHANISMS[1]))
    assert roles_of_bob(server, {"password": "second-bob"}) == []


def test_no_user_has_the_name_of_a_key(server: ServerProcess) -> None:
    info = ScramCredentialInfo(MECHANISMS[0], 4096)
    for name in ("key_0123456789abcdef", "key_root"):
        with pytest.raises(KafkaException, match=r"UNACCEPTABLE_CREDENTIAL|form of an API key"):
            alter(server, UserScramCredentialUpsertion(name, info, b"a-password"))
