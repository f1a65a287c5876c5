"""SASL OAUTHBEARER with unmodified clients, against an OIDC provider in a process of its own."""

from __future__ import annotations

import asyncio
import base64
import time
import urllib.error
import urllib.parse
import urllib.request

import confluent_kafka
import kafka
import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from goqueue import Client, ClientSettings
from goqueue.client.errors import LoginError
from protocol.secure_clients import AT_ONCE, collect_leaks
from support.certificates import Authority
from support.oidc_server import AUDIENCE, oidc_process
from support.server import make_server

WAIT_S = 60.0
ROOT_KEY = "a-root-key-for-tests-only"


@pytest.fixture(scope="module")
def issuer():
    with oidc_process() as found:
        yield found


def make(folder, issuer: str, **more: str):
    environment = (
        AT_ONCE
        | more
        | {
            "GOQUEUE_AUTH_ENABLED": "true",
            "GOQUEUE_API_ROOT_KEY": ROOT_KEY,
            "GOQUEUE_OIDC_ISSUER": issuer,
            "GOQUEUE_OIDC_AUDIENCE": AUDIENCE,
            "GOQUEUE_OIDC_ROLES_CLAIM": "realm_access.roles",
            "GOQUEUE_OIDC_ROLES": "ops=admin,writers=producer,readers=consumer",
            "GOQUEUE_OIDC_CLOCK_SKEW": "0s",
        }
    )
    return make_server(folder, environment=environment)


@pytest.fixture(scope="module")
def server(tmp_path_factory, issuer):
    made = make(tmp_path_factory.mktemp("oidc") / "data", issuer)
    made.start()
    yield made
    made.close()


def token_of(issuer: str, client: str) -> str:
    body = urllib.parse.urlencode({"grant_type": "client_credentials", "client_id": client})
    with urllib.request.urlopen(f"{issuer}/token", body.encode()) as answer:
        return msgspec.json.decode(answer.read())["access_token"]


def of_confluent(server, issuer: str, client: str) -> dict[str, str]:
    """librdkafka's own OIDC: it fetches and renews the token itself."""
    return {
        "bootstrap.servers": server.kafka_address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": f"{issuer}/token",
        "sasl.oauthbearer.client.id": client,
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.scope": "goqueue",
    }


def test_confluent_kafka_with_its_own_oidc(server, issuer) -> None:
    there_and_back(of_confluent(server, issuer, "admin-svc"))


def test_confluent_kafka_with_its_own_oidc_over_tls(tmp_path, issuer) -> None:
    authority = Authority(tmp_path)
    cert_file, key_file = authority.issue("server")
    secure = make(
        tmp_path / "data",
        issuer,
        GOQUEUE_TLS_ENABLED="true",
        GOQUEUE_TLS_CERT_FILE=str(cert_file),
        GOQUEUE_TLS_KEY_FILE=str(key_file),
    )
    try:
        secure.start()
        there_and_back(
            of_confluent(secure, issuer, "admin-svc")
            | {"security.protocol": "SASL_SSL", "ssl.ca.location": str(authority.ca_file)}
        )
    finally:
        secure.close()


def there_and_back(options: dict[str, str]) -> None:
    producer = confluent_kafka.Producer(options)
    failed = []
    producer.produce("c", b"hello", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(WAIT_S) == 0
    assert failed == [None]
    consumer = confluent_kafka.Consumer(
        options | {"group.id": "c", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["c"])
        assert consumer.poll(WAIT_S).value() == b"hello"
    finally:
        consumer.close()


def test_a_refused_token_fails_the_login_of_confluent_kafka(server, issuer) -> None:
    said: list[str] = []

    def forged(_: object) -> tuple[str, float]:
        return token_of(issuer, "admin-svc")[:-8] + "AAAAAAAA", time.time() + 300

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": server.kafka_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": forged,
            "error_cb": lambda error: said.append(error.str()),
        }
    )
    deadline = time.monotonic() + WAIT_S
    while not any("uthentication" in each for each in said) and time.monotonic() < deadline:
        producer.poll(0.1)
    assert any("uthentication" in each for each in said)


def _part(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def _claims(token: str) -> dict[str, object]:
    body = token.split(".")[1]
    return msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


FORGED = {
    "cut": lambda token, _: token[:-8],
    "without a signature": lambda token, _: token.rpartition(".")[0] + ".",
    "alg none": lambda token, _: f"{_part({'alg': 'none'})}.{_part(_claims(token))}.",
    "the claims of another": lambda token, other: ".".join(
        (token.split(".")[0], other.split(".")[1], token.split(".")[2])
    ),
    "more roles": lambda token, _: ".".join(
        (
            token.split(".")[0],
            _part({**_claims(token), "realm_access": {"roles": ["ops"]}}),
            token.split(".")[2],
        )
    ),
    "another audience": lambda token, _: ".".join(
        (token.split(".")[0], _part({**_claims(token), "aud": "x"}), token.split(".")[2])
    ),
    "twice": lambda token, _: f"{token} {token}",
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=list(FORGED))
def test_a_forged_token_opens_nothing_over_http(server, issuer, forge) -> None:
    writer, admin = token_of(issuer, "writer"), token_of(issuer, "admin-svc")
    assert _topics_status(server, admin) == 200
    assert _topics_status(server, forge(writer, admin)) == 401


def _topics_status(server, token: str) -> int:
    request = urllib.request.Request(
        f"{server.http_url}/topics", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class AioToken(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def aiokafka_there_and_back(server, token: str, topic: str) -> bytes:
    async def run() -> bytes:
        options = {
            "bootstrap_servers": server.kafka_address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": AioToken(token),
        }
        producer = AIOKafkaProducer(**options)
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"hello")
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **options, group_id=topic, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return (await asyncio.wait_for(consumer.getone(), WAIT_S)).value
        finally:
            await consumer.stop()

    return asyncio.run(run())


def test_aiokafka_with_a_token(server, issuer) -> None:
    assert aiokafka_there_and_back(server, token_of(issuer, "admin-svc"), "a") == b"hello"
    collect_leaks()


def test_an_api_key_is_as_good_as_a_token(server) -> None:
    assert aiokafka_there_and_back(server, ROOT_KEY, "k") == b"hello"
    collect_leaks()


class PythonToken(PythonTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def test_kafka_python_with_a_token(server, issuer) -> None:
    options = {
        "bootstrap_servers": server.kafka_address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": PythonToken(token_of(issuer, "admin-svc")),
    }
    producer = kafka.KafkaProducer(**options)
    producer.send("p", b"hello").get(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "p", **options, group_id="p", auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )  # fmt: skip
    try:
        assert next(consumer).value == b"hello"
    finally:
        consumer.close()
    collect_leaks()


def test_the_python_client_with_a_key_and_with_tokens(server, issuer) -> None:
    for number, settings in enumerate(
        (
            ClientSettings(api_key=ROOT_KEY),
            ClientSettings(token=token_of(issuer, "admin-svc")),
            ClientSettings(token=lambda: token_of(issuer, "admin-svc")),
        )
    ):
        with Client(server.kafka_address, settings) as client:
            topic = client.topics.create(f"ours-{number}").name
            assert topic in [each.name for each in client.topics.list()]
    forged = ClientSettings(token=token_of(issuer, "admin-svc")[:-8] + "AAAAAAAA")
    assert "AAAAAAAA" not in repr(forged)
    with Client(server.kafka_address, forged) as client, pytest.raises(LoginError):
        client.topics.list()


def test_a_client_renews_its_login_before_the_token_expires(tmp_path) -> None:
    with oidc_process(lifetime_s=6.0) as short:
        server = make(tmp_path / "data", short)
        server.start()
        try:
            said: list[str] = []
            options = of_confluent(server, short, "admin-svc")
            producer = confluent_kafka.Producer(
                options | {"error_cb": lambda error: said.append(error.str())}
            )
            failed = []
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline:
                producer.produce("r", b"x", on_delivery=lambda error, _: failed.append(error))
                assert producer.flush(WAIT_S) == 0
                time.sleep(0.5)
            assert set(failed) == {None}
            assert not [each for each in said if "uthentication" in each]
        finally:
            server.close()
