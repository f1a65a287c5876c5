"""Users are managed with the clients' own tools, and survive a restart."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin import (
    KafkaAdminClient,
    UserScramCredentialDeletion as PythonDeletion,
    UserScramCredentialUpsertion as PythonUpsertion,
)

from protocol.secure_clients import AT_ONCE, CLIENTS, WAIT_S, Access, admin_of
from support.server import start_server

__all__ = ["start_server"]

SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512


@pytest.fixture
def root(start_server):
    login = {"GOQUEUE_SASL_ENABLED": "true", "GOQUEUE_SASL_USERS": "root:of-all"}
    server = start_server(environment=AT_ONCE | login)
    return server, Access(server.kafka_address, "SCRAM-SHA-256", "root", "of-all")


def works(access: Access, user: str, password: str, mechanism: str, topic: str) -> bool:
    login = Access(access.address, mechanism, user, password)
    try:
        return CLIENTS["aiokafka"](login, topic, b"x") == b"x"
    except PermissionError:
        return False


def alter(access: Access, *alterations):
    """What each user's change came to: None, or the code of the error."""
    found = {}
    admin = admin_of(access)
    for user, future in admin.alter_user_scram_credentials(list(alterations)).items():
        try:
            found[user] = future.result(WAIT_S)
        except KafkaException as error:
            found[user] = error.args[0].name()
    return found


def test_users_made_by_confluent_kafka_log_in_and_survive_a_restart_and_a_kill(root):
    server, access = root
    info = ScramCredentialInfo(SHA_512, 8192)
    assert alter(access, UserScramCredentialUpsertion("bob", info, b"builder")) == {"bob": None}
    for end in (server.stop, server.kill):
        assert works(access, "bob", "builder", "SCRAM-SHA-512", "t")
        assert works(access, "bob", "builder", "PLAIN", "t")
        assert not works(access, "bob", "builder", "SCRAM-SHA-256", "t")
        assert not works(access, "bob", "other", "SCRAM-SHA-512", "t")
        end()
        server.start()
    admin = admin_of(access)
    described: Any = admin.describe_user_scram_credentials(["bob", "root"])
    infos = described["bob"].result(WAIT_S).scram_credential_infos
    assert [(info.mechanism, info.iterations) for info in infos] == [(SHA_512, 8192)]
    infos = described["root"].result(WAIT_S).scram_credential_infos
    assert [(info.mechanism, info.iterations) for info in infos] == [
        (SHA_256, 4096),
        (SHA_512, 4096),
    ]


def test_a_changed_password_counts_from_the_next_login_and_a_removed_user_has_none(root):
    _, access = root
    info = ScramCredentialInfo(SHA_256, 4096)
    alter(access, UserScramCredentialUpsertion("bob", info, b"one"))
    assert works(access, "bob", "one", "SCRAM-SHA-256", "t")
    alter(access, UserScramCredentialUpsertion("bob", info, b"two"))
    assert not works(access, "bob", "one", "SCRAM-SHA-256", "t")
    assert works(access, "bob", "two", "SCRAM-SHA-256", "t")
    assert alter(access, UserScramCredentialDeletion("bob", SHA_256)) == {"bob": None}
    assert not works(access, "bob", "two", "SCRAM-SHA-256", "t")
    assert alter(access, UserScramCredentialDeletion("bob", SHA_256)) == {
        "bob": "RESOURCE_NOT_FOUND"
    }


def test_each_user_has_a_result_and_what_is_wrong_with_one_does_not_touch_another(root):
    _, access = root
    good, few = ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(SHA_256, 100)
    many = ScramCredentialInfo(SHA_256, 16_385)
    assert alter(
        access,
        UserScramCredentialUpsertion("good", good, b"x"),
        UserScramCredentialUpsertion("few", few, b"x"),
        UserScramCredentialUpsertion("many", many, b"x"),
        UserScramCredentialUpsertion("twice", good, b"x"),
        UserScramCredentialDeletion("twice", SHA_256),
        UserScramCredentialDeletion("nobody", SHA_512),
        UserScramCredentialUpsertion("x" * 256, good, b"x"),
    ) == {
        "good": None,
        "few": "UNACCEPTABLE_CREDENTIAL",
        "many": "UNACCEPTABLE_CREDENTIAL",
        "twice": "DUPLICATE_RESOURCE",
        "nobody": "RESOURCE_NOT_FOUND",
        "x" * 256: "UNACCEPTABLE_CREDENTIAL",
    }
    admin = admin_of(access)
    described: Any = admin.describe_user_scram_credentials()
    assert sorted(described.result(WAIT_S)) == ["good", "root"]
    described = admin.describe_user_scram_credentials(["good", "few"])
    assert described["good"].result(WAIT_S).scram_credential_infos
    with pytest.raises(KafkaException) as caught:
        described["few"].result(WAIT_S)
    assert caught.value.args[0].name() == "RESOURCE_NOT_FOUND"


def test_users_are_managed_with_kafka_python_too(root):
    _, access = root
    admin = KafkaAdminClient(**access.of_python())
    try:
        made = PythonUpsertion("zoë", "SCRAM-SHA-512", "pässword")
        assert admin.alter_user_scram_credentials([made]) == {"zoë": None}
        assert works(access, "zoë", "pässword", "SCRAM-SHA-512", "t")
        found = admin.describe_user_scram_credentials(["zoë", "nobody"])
        assert found["zoë"]["credential_infos"][0]["iterations"] == 4096
        assert "there is no user" in found["nobody"]["error"]
        gone = PythonDeletion("zoë", "SCRAM-SHA-512")
        assert admin.alter_user_scram_credentials([gone]) == {"zoë": None}
        assert set(admin.describe_user_scram_credentials()) == {"root"}
    finally:
        admin.close()


def test_a_server_that_has_users_needs_none_in_its_configuration(root, tmp_path, start_server):
    server, access = root
    alter(access, UserScramCredentialUpsertion("bob", ScramCredentialInfo(SHA_256, 4096), b"one"))
    server.stop()
    again = start_server("--sasl-enabled", data_dir=server.data_dir, environment=AT_ONCE)
    assert works(Access(again.kafka_address), "bob", "one", "SCRAM-SHA-256", "t")
