"""Clients nobody here wrote log in, by every mechanism, with and without TLS."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count

import confluent_kafka
import kafka
import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka
from protocol.secure_clients import AT_ONCE, CLIENTS, WAIT_S, Access, collect_leaks
from support.certificates import Authority
from support.server import make_server, start_server

__all__ = ["start_server"]

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
USERS = {"alice": "wonder:land", "zoë ö": "p=ässword"}

topics = (f"secure-{number}" for number in count())


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory, authority):
    """One that speaks TLS and one that does not; both want a login."""
    users = ",".join(f"{name}:{password}" for name, password in USERS.items())
    environment = AT_ONCE | {
        "GOQUEUE_SASL_ENABLED": "true",
        "GOQUEUE_SASL_USERS": users,
        "GOQUEUE_AUTH_MAX_LOGIN_DELAY": "10ms",  # the clients give up after a second
    }
    cert_file, key_file = authority.issue("server")
    secure = ("--tls-enabled", "--tls-cert-file", str(cert_file), "--tls-key-file", str(key_file))
    made = {
        transport: make_server(
            tmp_path_factory.mktemp("broker") / "data", *flags, environment=environment
        )
        for transport, flags in {"plain": (), "tls": secure}.items()
    }
    for server in made.values():
        server.start()
    yield made
    for server in made.values():
        server.close()


@pytest.fixture(params=["plain", "tls"])
def access(request, servers, authority) -> Access:
    ca_file = authority.ca_file if request.param == "tls" else None
    address = servers[request.param].kafka_address
    return Access(address, "PLAIN", "alice", USERS["alice"], ca_file)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_message_goes_there_and_back(access, client, mechanism):
    topic = next(topics)
    assert CLIENTS[client](replace(access, mechanism=mechanism), topic, b"hello") == b"hello"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_and_a_password_beyond_ascii_are_as_good(servers, client, mechanism):
    access = Access(servers["plain"].kafka_address, mechanism, "zoë ö", USERS["zoë ö"])
    assert CLIENTS[client](access, next(topics), b"hello") == b"hello"


@pytest.mark.parametrize("wrong", [{"password": "guess"}, {"user": "nobody"}], ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_wrong_password_and_an_unknown_user_fail_fast_and_alike(
    servers, client, mechanism, wrong
):
    address = servers["plain"].kafka_address
    access = Access(address, mechanism, "alice", USERS["alice"], patience_s=1.0)
    refused = replace(access, **wrong)
    began = time.monotonic()
    with pytest.raises(PermissionError, match=r"(?i)authentication ?failed.*invalid credentials"):
        CLIENTS[client](refused, next(topics), b"hello")
    assert time.monotonic() - began < 45


@pytest.mark.parametrize("client", CLIENTS)
def test_a_mechanism_that_is_not_enabled_is_named_as_such(start_server, client):
    environment = AT_ONCE | {
        "GOQUEUE_SASL_ENABLED": "true",
        "GOQUEUE_SASL_MECHANISMS": "SCRAM-SHA-512",
        "GOQUEUE_SASL_USERS": "alice:secret",
    }
    server = start_server(environment=environment)
    access = Access(server.kafka_address, "PLAIN", "alice", "secret", patience_s=2.0)
    with pytest.raises(PermissionError, match=r"(?i)unsupported.*mechanism|mechanism.*support"):
        CLIENTS[client](access, next(topics), b"hello")
    allowed = replace(access, mechanism="SCRAM-SHA-512", patience_s=30.0)
    assert CLIENTS[client](allowed, next(topics), b"hello") == b"hello"


def test_without_a_login_there_is_no_metadata_and_no_producing(servers):
    for there_and_back in (CLIENTS["aiokafka"], CLIENTS["kafka-python"]):
        access = Access(servers["plain"].kafka_address, patience_s=1.0)
        with pytest.raises(PermissionError):
            there_and_back(access, next(topics), b"hello")
    with RawKafka(servers["plain"].kafka_port) as client, pytest.raises((EOFError, OSError)):
        client.ask(ApiKey.METADATA, 4, topics=None, allow_auto_topic_creation=False)


def test_a_client_without_tls_gets_nothing_from_a_tls_listener(servers):
    with RawKafka(servers["tls"].kafka_port) as client, pytest.raises((EOFError, OSError)):
        client.ask(ApiKey.API_VERSIONS, 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_of_before_kafka_1_0_logs_in_with_bare_tokens(access, mechanism, monkeypatch):
    async def scenario():
        client = AIOKafkaClient(**replace(access, mechanism=mechanism).of_python())
        await client.bootstrap()
        try:
            assert client.cluster.brokers()
        finally:
            await client.close()

    # What a broker of that age advertised, as this client sees it.
    learned = AIOKafkaConnection._do_version_lookup

    async def older(self):
        await learned(self)
        self._versions[17] = (0, 0)
        self._versions.pop(36, None)

    monkeypatch.setattr(AIOKafkaConnection, "_do_version_lookup", older)
    asyncio.run(scenario())
    collect_leaks()


def send_with_kafka_python(access: Access, topic: str, until: float) -> int:
    producer = kafka.KafkaProducer(**access.of_python())
    sent = 0
    try:
        while time.monotonic() < until:
            producer.send(topic, b"x", partition=0).get(WAIT_S)
            sent += 1
            time.sleep(0.05)
    finally:
        producer.close()
    return sent


def send_with_confluent(access: Access, topic: str, until: float) -> int:
    producer = confluent_kafka.Producer(access.of_confluent())
    sent = 0
    while time.monotonic() < until:
        producer.produce(topic, b"x", partition=0)
        assert producer.flush(WAIT_S) == 0
        sent += 1
        time.sleep(0.05)
    return sent


@pytest.mark.parametrize("send", [send_with_kafka_python, send_with_confluent])
def test_logins_are_renewed_on_the_connection_while_a_client_works(start_server, tmp_path, send):
    """Clients leave themselves little time for it: with more where the machine stood still."""
    for lifetime_s in (2, 8, 30):
        flags = ("--sasl-enabled", "--sasl-session-lifetime", f"{lifetime_s}s")
        users = {"GOQUEUE_SASL_USERS": "alice:secret"}
        server = start_server(*flags, data_dir=tmp_path / str(lifetime_s), environment=users)
        access = Access(server.kafka_address, "SCRAM-SHA-256", "alice", "secret")
        assert send(access, next(topics), time.monotonic() + 2.5 * lifetime_s) > 1
        late = [line for line in server.log if "before authentication" in line]
        if not late:
            break
    assert not late


def test_neither_a_password_nor_a_key_is_logged(servers):
    access = Access(servers["plain"].kafka_address, "PLAIN", "alice", "a-wrong-guess")
    with suppress(PermissionError):
        CLIENTS["aiokafka"](access, next(topics), b"hello")
    for server in servers.values():
        log = "\n".join(server.log)
        assert "ready in" in log
        assert not [word for word in [*USERS.values(), "a-wrong-guess"] if word in log]


def test_a_server_that_nobody_could_log_in_to_does_not_start(start_server):
    with pytest.raises(AssertionError, match=r"there are no users: add one to sasl\.users"):
        start_server("--sasl-enabled")
