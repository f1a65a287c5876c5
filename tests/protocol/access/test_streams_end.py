"""Streams end with the login that they were opened with; those that need none are few."""

from __future__ import annotations

import base64
import http.client
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from support.http_api import HttpApi
from support.oidc_server import AUDIENCE, Provider, serve
from support.server import make_server, siblings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.server import ServerProcess

ROOT_KEY = "root-key-of-the-test"
ROOT = {"X-API-Key": ROOT_KEY}
TOKEN_S = 4
WAIT_S = 60.0
STREAMS = ("Subscribe", "Consume", "PublishStream")
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    listening = serve(made)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield made
    listening.shutdown()
    thread.join()
    listening.server_close()


def make(folder: Path, provider: Provider, **others: str) -> ServerProcess:
    environment = {
        "GOQUEUE_AUTH_ENABLED": "true",
        "GOQUEUE_API_ROOT_KEY": ROOT_KEY,
        "GOQUEUE_OIDC_ISSUER": provider.issuer,
        "GOQUEUE_OIDC_AUDIENCE": AUDIENCE,
        "GOQUEUE_OIDC_ROLES_CLAIM": "realm_access.roles",
        "GOQUEUE_OIDC_ROLES": "ops=admin",
        "GOQUEUE_OIDC_CLOCK_SKEW": "0s",
    }
    return make_server(folder, "--grpc-reflection", environment=environment | others)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[ServerProcess]:
    made = make(tmp_path_factory.mktemp("streams") / "data", provider)
    made.start()
    ask(made, "POST", "/topics", {"name": "t", "num_partitions": 1})
    yield made
    made.close()


def ask(server: ServerProcess, method: str, path: str, body: Any = None, **headers: str) -> Any:
    api = HttpApi(server.http_port)
    try:
        answer = api.ask(method, path, body, headers=ROOT | headers)
    finally:
        api.close()
    assert answer.status in {200, 201}, answer
    return answer


def a_token(provider: Provider) -> str:
    return provider.token("admin-svc", exp=time.time() + TOKEN_S, jti=str(time.monotonic_ns()))


@contextmanager
def stream(port: int, kind: str, authorization: str) -> Iterator[Any]:
    """A stream that stays open for as long as the server lets it."""
    closed = threading.Event()

    def requests(first: Any) -> Iterator[Any]:
        yield first
        closed.wait()

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        metadata = (("authorization", authorization),)
        if kind == "Subscribe":
            join = pb.SubscribeRequest(join=pb.SubscribeJoin(group="g", topics=["t"]))
            stub: Any = services.ConsumeServiceStub(channel)
            call = stub.Subscribe(requests(join), metadata=metadata, timeout=WAIT_S)
        elif kind == "Consume":
            stub = services.ConsumeServiceStub(channel)
            asked = pb.ConsumeRequest(topic="t", partition=0)
            call = stub.Consume(asked, metadata=metadata, timeout=WAIT_S)
        else:
            stub = services.PublishServiceStub(channel)
            sent = pb.PublishRequest(topic="t", messages=[pb.NewMessage(value=b"x")])
            call = stub.PublishStream(requests(sent), metadata=metadata, timeout=WAIT_S)
        try:
            yield call
        finally:
            call.cancel()
            closed.set()


def end_of(call: Any) -> grpc.RpcError:
    """How the stream ends."""
    with pytest.raises(grpc.RpcError) as caught:
        for _ in call:
            pass
    return caught.value


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_ends_when_its_token_expires(
    server: ServerProcess, provider: Provider, kind: str
) -> None:
    ask(server, "POST", "/topics/t/messages", {"messages": [{"value": "x"}]})
    for port in siblings(server.grpc_port):  # of a cluster, also through other nodes
        with stream(port, kind, f"Bearer {a_token(provider)}") as call:
            ended: Any = end_of(call)
            assert ended.code() == UNAUTHENTICATED, ended
            assert "the token has expired, connect again with a new one" in ended.details()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("kind", ["Consume", "PublishStream"])
@pytest.mark.parametrize("how", ["changed", "deleted"])
def test_a_stream_ends_when_its_password_is_another_one(
    server: ServerProcess, kind: str, how: str
) -> None:
    ask(server, "POST", "/topics/t/messages", {"messages": [{"value": "x"}]})
    body = {"password": "the-first-password", "roles": ["admin"]}
    ask(server, "PUT", "/admin/users/alice", body)
    with stream(server.grpc_port, kind, basic("alice", "the-first-password")) as call:
        next(call)
        if how == "changed":
            ask(server, "PUT", "/admin/users/alice", {"password": "the-second-password"})
        else:
            ask(server, "DELETE", "/admin/users/alice")
        ended: Any = end_of(call)
        expected = UNAUTHENTICATED if how == "changed" else grpc.StatusCode.PERMISSION_DENIED
        assert ended.code() == expected, ended


@pytest.mark.parametrize("kind", ["Consume", "PublishStream"])
def test_a_stream_ends_when_its_key_is_revoked(server: ServerProcess, kind: str) -> None:
    ask(server, "POST", "/topics/t/messages", {"messages": [{"value": "x"}]})
    made = ask(server, "POST", "/admin/keys", {"name": "k", "roles": ["admin"]}).json
    with stream(server.grpc_port, kind, f"Bearer {made['key']}") as call:
        next(call)
        ask(server, "DELETE", f"/admin/keys/{made['id']}")
        ended: Any = end_of(call)
        assert ended.code() == grpc.StatusCode.PERMISSION_DENIED, ended


# --- Server-sent events ---------------------------------------------------------------------------


@contextmanager
def events(server: ServerProcess, **headers: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=WAIT_S)
    try:
        connection.request("GET", "/events?topics=overview", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.readline() == b"retry: 2000\n"
        yield answer
        answer.close()
    finally:
        connection.close()


def is_ended(answer: http.client.HTTPResponse) -> None:
    """Reads what comes; every two seconds something would, for ever."""
    deadline_s = time.monotonic() + WAIT_S
    while answer.readline():
        assert time.monotonic() < deadline_s


def test_events_end_with_the_session(server: ServerProcess) -> None:
    ask(server, "PUT", "/admin/users/eve", {"password": "a-password", "roles": ["admin"]})
    for how in ("sign-out", "password"):
        api = HttpApi(server.http_port)
        signed_in = api.ask("POST", "/session", {"user": "eve", "password": "a-password"})
        api.close()
        cookie = signed_in.headers["set-cookie"].partition(";")[0]
        with events(server, Cookie=cookie) as answer:
            assert answer.readline()
            if how == "password":
                ask(server, "PUT", "/admin/users/eve", {"password": "another-one"})
            else:
                connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
                connection.request("DELETE", "/session", headers={"Cookie": cookie})
                assert connection.getresponse().status == 200
                connection.close()
            is_ended(answer)


def test_events_end_with_the_token(server: ServerProcess, provider: Provider) -> None:
    with events(server, Authorization=f"Bearer {a_token(provider)}") as answer:
        is_ended(answer)


# --- Health ---------------------------------------------------------------------------------------


def test_streams_without_a_login_are_few_from_one_address(server: ServerProcess) -> None:
    port = siblings(server.grpc_port)[0]
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ours: Any = services.HealthServiceStub(channel)
        theirs: Any = health_pb2_grpc.HealthStub(channel)
        calls = [ours.Watch(pb.HealthCheckRequest(), timeout=WAIT_S) for _ in range(3)]
        calls += [theirs.Watch(health_pb2.HealthCheckRequest(), timeout=WAIT_S) for _ in range(2)]
        for call in calls:
            next(call)
        for refused in (
            ours.Watch(pb.HealthCheckRequest(), timeout=WAIT_S),
            theirs.Watch(health_pb2.HealthCheckRequest(), timeout=WAIT_S),
        ):
            ended: Any = end_of(refused)
            assert ended.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert ours.Check(pb.HealthCheckRequest(), timeout=WAIT_S).status
        for call in calls:
            call.cancel()


def test_health_is_closed_to_strangers_on_every_listener(
    tmp_path: Path, provider: Provider
) -> None:
    server = make(tmp_path / "data", provider, GOQUEUE_AUTH_ALLOW_HEALTH="false")
    server.start()
    try:
        api = HttpApi(server.http_port)
        for path in ("/health", "/healthz", "/livez", "/readyz", "/version"):
            assert api.ask("GET", path).status == 401, path
            assert api.ask("GET", path, headers=ROOT).status == 200, path
        api.close()
        with grpc.insecure_channel(server.grpc_address) as channel:
            ours: Any = services.HealthServiceStub(channel)
            theirs: Any = health_pb2_grpc.HealthStub(channel)
            reflected: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            listed = [reflection_pb2.ServerReflectionRequest(list_services="")]
            known = {"metadata": (("x-api-key", ROOT_KEY),), "timeout": WAIT_S}
            for ask_it in (
                lambda **said: ours.Check(pb.HealthCheckRequest(), **said),
                lambda **said: theirs.Check(health_pb2.HealthCheckRequest(), **said),
                lambda **said: next(ours.Watch(pb.HealthCheckRequest(), **said)),
                lambda **said: next(theirs.Watch(health_pb2.HealthCheckRequest(), **said)),
                lambda **said: next(reflected.ServerReflectionInfo(iter(listed), **said)),
            ):
                with pytest.raises(grpc.RpcError) as caught:
                    ask_it(timeout=WAIT_S)
                refused: Any = caught.value
                assert refused.code() == UNAUTHENTICATED
                assert ask_it(**known)
    finally:
        server.close()
