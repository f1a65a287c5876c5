"""Tokens that are no good, over HTTP, gRPC and Kafka: past their expiry, or signed by others."""

from __future__ import annotations

import urllib.error
import urllib.request
from functools import partial
from typing import TYPE_CHECKING

import grpc
import pytest

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka
from protocol.test_oauthbearer import make, token_of
from support.oidc_server import Provider, oidc_process
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.server import ServerProcess

WAIT_S = 60.0
LIFETIME_S = 20.0
"""Long enough for it to be shown once on every listener before it is over."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_process(LIFETIME_S) as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuer: str) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("tokens") / "data"
    made = make(folder, issuer)
    made.start()
    yield made
    made.close()


def by_http(server: ServerProcess, token: str) -> bool:
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{server.http_url}/topics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S):
            return True
    except urllib.error.HTTPError as error:
        refused = error
    assert refused.code == 401
    assert token.encode() not in refused.read()
    return False


def by_grpc(server: ServerProcess, token: str) -> bool:
    metadata = (("authorization", f"Bearer {token}"),)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        admin = services.AdminServiceStub(channel)
        try:
            admin.ListTopics(pb.ListTopicsRequest(), metadata=metadata, timeout=WAIT_S)
        except grpc.RpcError as error:
            refused = error
        else:
            return True
    assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
    assert token not in refused.details()
    return False


def by_kafka(server: ServerProcess, token: str) -> bool:
    with RawKafka(server.kafka_port) as raw:
        assert raw.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER").error_code == 0
        message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        answer = raw.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
        return answer.error_code == 0 and not bytes(answer.auth_bytes)


WAYS: dict[str, Callable[[ServerProcess, str], bool]] = {
    "http": by_http,
    "grpc": by_grpc,
    "kafka": by_kafka,
}


def _is_refused(
    way: Callable[[ServerProcess, str], bool], server: ServerProcess, token: str
) -> bool:
    return not way(server, token)


def test_a_token_is_refused_on_every_listener_once_it_has_expired(
    server: ServerProcess, issuer: str
) -> None:
    token = token_of(issuer, "admin-svc")
    assert {name: way(server, token) for name, way in WAYS.items()} == dict.fromkeys(WAYS, True)
    for name, way in WAYS.items():
        eventually(partial(_is_refused, way, server, token), f"{name} refuses it")
    fresh = token_of(issuer, "admin-svc")
    assert {name: way(server, fresh) for name, way in WAYS.items()} == dict.fromkeys(WAYS, True)


@pytest.mark.parametrize("way", list(WAYS))
def test_a_token_signed_with_the_key_of_another_issuer_is_refused(
    server: ServerProcess, issuer: str, way: str
) -> None:
    """Everything that it says is right, also the name of the key; the signature is not."""
    stranger = Provider()
    stranger.issuer = issuer
    assert WAYS[way](server, token_of(issuer, "admin-svc"))
    assert not WAYS[way](server, stranger.token("admin-svc"))


@pytest.mark.parametrize("way", list(WAYS))
def test_a_token_of_another_issuer_is_refused(server: ServerProcess, way: str) -> None:
    with oidc_process() as other:
        assert not WAYS[way](server, token_of(other, "admin-svc"))
