"""TLS without a login: clients nobody here wrote, with certificates of their own."""

from __future__ import annotations

import pytest

from protocol.secure_clients import AT_ONCE, CLIENTS, Access, admin_of
from support.certificates import Authority
from support.server import start_server

__all__ = ["start_server"]

TLS = AT_ONCE | {"GOQUEUE_TLS_ENABLED": "true"}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_self_signed_server_works_for_clients_that_trust_its_certificate(
    start_server, client, tmp_path
):
    server = start_server("--tls-self-signed", environment=TLS)
    trusted = tmp_path / "trusted.crt"  # each node has signed its own
    own = [folder / "tls" / "self-signed.crt" for folder in server.data_dirs]
    trusted.write_text("".join(each.read_text() for each in own))
    access = Access(server.kafka_address, ca_file=trusted)
    assert CLIENTS[client](access, "t", b"hello") == b"hello"
    server.restart()
    assert CLIENTS[client](access, "u", b"again") == b"again"


def test_only_clients_with_a_certificate_of_the_authority_get_in(tmp_path, start_server):
    authority, strangers = Authority(tmp_path), Authority(tmp_path, "strangers")
    cert_file, key_file = authority.issue("server")
    environment = TLS | {
        "GOQUEUE_TLS_CERT_FILE": str(cert_file),
        "GOQUEUE_TLS_KEY_FILE": str(key_file),
        "GOQUEUE_TLS_CA_FILE": str(authority.ca_file),
        "GOQUEUE_TLS_CLIENT_AUTH": "require-verify",
        "GOQUEUE_TLS_MIN_VERSION": "1.3",
    }
    server = start_server(environment=environment)
    own_files = authority.issue("friend")
    access = Access(server.kafka_address, ca_file=authority.ca_file, own_files=own_files)
    for name, there_and_back in CLIENTS.items():
        assert there_and_back(access, f"from-{name}", b"hello") == b"hello"
    for files in (None, strangers.issue("stranger")):
        stranger = Access(server.kafka_address, ca_file=authority.ca_file, own_files=files)
        with pytest.raises(Exception, match=r"(?i)transport failure|failed|timed out"):
            admin_of(stranger).list_topics(timeout=3)


def test_a_start_with_a_key_that_does_not_fit_says_so_in_one_line(tmp_path, start_server):
    authority = Authority(tmp_path)
    cert_file, _ = authority.issue("one")
    _, key_file = authority.issue("two")
    environment = TLS | {
        "GOQUEUE_TLS_CERT_FILE": str(cert_file),
        "GOQUEUE_TLS_KEY_FILE": str(key_file),
    }
    with pytest.raises(AssertionError, match=r"two\.key does not belong to the certificate"):
        start_server(environment=environment)
