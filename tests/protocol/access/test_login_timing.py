"""Whether a name is that of a user cannot be told by how long a wrong login takes."""

from __future__ import annotations

import base64
import http.client
import secrets
import statistics
import time
from typing import TYPE_CHECKING

import grpc
import pytest

from goqueue.access.keys import Mechanism, keys_from_password
from goqueue.protocols.kafka.settings import SaslSettings
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka
from support.guarded import OUTSIDERS, ROLES
from support.server import HOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.guarded import GuardedServer

PAIRS = 15
ATTEMPTS = 8
"""One of them within noise is enough: a check that derives no key for an unknown name takes less
than a tenth of the time in all of them."""
NOISE = 1.5


ITERATIONS = 16_384
SALT_BYTES = 40


@pytest.fixture(scope="module", autouse=True)
def _slow_users(server: GuardedServer) -> None:
    """Users whose keys an administrator's client has made, with values of its own."""
    for role in (*ROLES, *OUTSIDERS):
        keys = {
            mechanism: keys_from_password(
                mechanism, server.passwords[role], secrets.token_bytes(SALT_BYTES), ITERATIONS
            )
            for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
        }
        server.run(server.broker.users.alter(role, keys))


def _ratio(check: Callable[[str], object], always_s: float) -> float:
    """How many times longer a wrong login of a known name takes than of an unknown one.

    Without what every answer is delayed by, beside which the rest would be noise.
    """
    known: list[float] = []
    unknown: list[float] = []
    for number in range(PAIRS):
        for name, times in (("admin", known), (f"nobody-{number}", unknown)):
            began = time.perf_counter()
            check(name)
            times.append(time.perf_counter() - began)
    return (statistics.median(known) - always_s) / (statistics.median(unknown) - always_s)


def _check(check: Callable[[str], object], always_s: float = 0.0) -> None:
    check("admin")
    found: list[float] = []
    for _ in range(ATTEMPTS):
        found.append(_ratio(check, always_s))
        if 1 / NOISE < found[-1] < NOISE:
            return
    raise AssertionError(f"a known name takes {found} times as long as an unknown one")


def test_by_password(server: GuardedServer) -> None:
    """What PLAIN, HTTP and gRPC ask; without the delay of many wrong logins, which is longer."""

    def check(name: str) -> None:
        assert not server.run(server.broker.users.has_password(name, "wrong"))

    _check(check)


def test_over_kafka_by_plain(server: GuardedServer) -> None:
    port = server.kafka_port

    def check(name: str) -> None:
        with RawKafka(port) as raw:
            assert raw.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
            token = f"\0{name}\0wrong".encode()
            assert raw.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token).error_code != 0

    _check(check, SaslSettings().failure_delay_s)


def _basic(name: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:wrong".encode()).decode()


def test_over_http_by_basic(server: GuardedServer) -> None:
    port = server.http_port

    def check(name: str) -> None:
        connection = http.client.HTTPConnection(HOST, port, timeout=60)
        try:
            connection.request("GET", "/topics", headers={"Authorization": _basic(name)})
            with connection.getresponse() as answer:
                assert answer.status == 401
        finally:
            connection.close()

    _check(check)


def test_over_grpc_by_metadata(server: GuardedServer) -> None:
    with grpc.insecure_channel(f"{HOST}:{server.grpc_port}") as channel:
        stub = services.AdminServiceStub(channel)

        def check(name: str) -> None:
            with pytest.raises(grpc.RpcError) as caught:
                stub.ListTopics(
                    pb.ListTopicsRequest(), metadata=(("authorization", _basic(name)),), timeout=60
                )
            assert isinstance(caught.value, grpc.Call)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

        _check(check)


def test_by_the_salt_and_iterations_that_scram_tells(server: GuardedServer) -> None:
    """A decoy has as many iterations as users have, a salt as long, and the same each time."""

    for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512):
        users = server.broker.users
        known, unknown = (users.keys_for_login(mechanism, name) for name in ("admin", "nobody"))
        assert (known.iterations, len(known.salt)) == (unknown.iterations, len(unknown.salt))
        assert users.keys_for_login(mechanism, "nobody").salt == unknown.salt
