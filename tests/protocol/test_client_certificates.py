"""Kafka clients that are known by their certificates, and have the rights of their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.secure_clients import AT_ONCE, CLIENTS, Access
from support.certificates import Authority
from support.server import make_server


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority):
    cert_file, key_file = authority.issue("server")
    environment = AT_ONCE | {
        "GOQUEUE_AUTH_ENABLED": "true",
        "GOQUEUE_AUTH_SUPER_USERS": "friend,alice",
        "GOQUEUE_AUTH_CERTIFICATE_RULES": "RULE:^CN=([^,]+).*$/$1/L",
        "GOQUEUE_SASL_USERS": "alice:secret",
        "GOQUEUE_TLS_ENABLED": "true",
        "GOQUEUE_TLS_CERT_FILE": str(cert_file),
        "GOQUEUE_TLS_KEY_FILE": str(key_file),
        "GOQUEUE_TLS_CA_FILE": str(authority.ca_file),
        "GOQUEUE_TLS_CLIENT_AUTH": "verify",
    }
    made = make_server(tmp_path_factory.mktemp("certified") / "data", environment=environment)
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_certificate_is_a_login(server, authority, client) -> None:
    access = Access(
        server.kafka_address, ca_file=authority.ca_file, own_files=authority.issue("Friend")
    )
    assert CLIENTS[client](access, f"certified-{client}", b"hello") == b"hello"


def test_a_login_counts_in_place_of_the_certificate(server, authority) -> None:
    access = Access(
        server.kafka_address,
        "SCRAM-SHA-256",
        "alice",
        "secret",
        ca_file=authority.ca_file,
        own_files=authority.issue("stranger"),
    )
    assert CLIENTS["confluent"](access, "both", b"hello") == b"hello"
    with pytest.raises(PermissionError):
        CLIENTS["confluent"](replace(access, password="guess"), "both", b"hello")
