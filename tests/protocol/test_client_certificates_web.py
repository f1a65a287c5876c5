"""HTTP and gRPC clients that are known by their certificates, and the audit log of gRPC calls."""

from __future__ import annotations

import http.client
import json
import ssl

import grpc
import pytest

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from protocol.test_audit import events
from support.certificates import Authority
from support.server import make_server

ADMIN = "Müller, friend"
"""Letters beyond ASCII, and one that subjects escape."""
RULES = r"RULE:^CN=([^,]+)\\, ([^,]+)$/$1-$2/L,RULE:^CN=([^,]+)$/$1/L"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def start(folder, authority, client_auth):
    cert_file, key_file = authority.issue("server")
    made = make_server(
        folder / "data",
        environment={
            "GOQUEUE_AUTH_ENABLED": "true",
            "GOQUEUE_API_ROOT_KEY": "root-key-of-the-test",
            "GOQUEUE_AUTH_SUPER_USERS": "müller-friend",
            "GOQUEUE_AUTH_CERTIFICATE_RULES": RULES,
            "GOQUEUE_TLS_ENABLED": "true",
            "GOQUEUE_TLS_CERT_FILE": str(cert_file),
            "GOQUEUE_TLS_KEY_FILE": str(key_file),
            "GOQUEUE_TLS_CA_FILE": str(authority.ca_file),
            "GOQUEUE_TLS_CLIENT_AUTH": client_auth,
        },
    )
    made.start()
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority):
    made = start(tmp_path_factory.mktemp("certified"), authority, "require-verify")
    yield made
    made.close()


@pytest.fixture(scope="module")
def optional(tmp_path_factory, authority):
    made = start(tmp_path_factory.mktemp("optional"), authority, "verify")
    yield made
    made.close()


def ask(server, authority, name, method, path, *, body=None, **headers):
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    if name is not None:
        context.load_cert_chain(*authority.issue(name))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", server.http_port, context=context, timeout=60
    )
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def channel_of(server, authority, name):
    cert_file, key_file = authority.issue(name)
    credentials = grpc.ssl_channel_credentials(
        authority.ca_file.read_bytes(), key_file.read_bytes(), cert_file.read_bytes()
    )
    return grpc.secure_channel(f"localhost:{server.grpc_port}", credentials)


@pytest.mark.parametrize("mode", ["server", "optional"])
def test_an_http_client_has_the_rights_of_its_certificate(request, authority, mode) -> None:
    server = request.getfixturevalue(mode)
    made = ask(server, authority, ADMIN, "POST", "/topics", body={"name": "by-certificate"})
    assert made[0] == 201, made
    logins = events(server, "--event", "auth_success", "--principal", "User:müller-friend")
    assert ("listener:http", "certificate", "127.0.0.1") in {
        (each["resource"], each["details"]["mechanism"], each["client"]) for each in logins
    }
    refused = ask(server, authority, "stranger", "DELETE", "/topics/by-certificate")
    assert refused[0] == 403, refused
    assert b"stranger" in refused[1]


def test_an_http_client_without_a_certificate_logs_in_otherwise(optional, authority) -> None:
    assert ask(optional, authority, None, "GET", "/topics")[0] == 401
    key = {"X-API-Key": "root-key-of-the-test"}
    assert ask(optional, authority, None, "GET", "/topics", **key)[0] == 200
    # A credential of the request counts in place of the certificate, and a wrong one is refused.
    assert ask(optional, authority, "stranger", "GET", "/admin/users", **key)[0] == 200
    assert ask(optional, authority, ADMIN, "GET", "/topics", **{"X-API-Key": "gq_no"})[0] == 401


def test_a_grpc_client_has_the_rights_of_its_certificate(server, authority) -> None:
    with channel_of(server, authority, ADMIN) as channel:
        admin = services.AdminServiceStub(channel)
        wanted = pb.CreateTopicRequest(name="by-grpc")
        admin.CreateTopic(wanted, timeout=60, metadata=(("x-request-id", "r-1"),))
        with pytest.raises(grpc.RpcError) as failed:
            admin.CreateTopic(wanted, timeout=60)
        assert failed.value.code() is grpc.StatusCode.ALREADY_EXISTS
    with channel_of(server, authority, "stranger") as channel:
        admin = services.AdminServiceStub(channel)
        with pytest.raises(grpc.RpcError) as failed:
            admin.DeleteTopic(pb.TopicRequest(name="by-grpc"), timeout=60)
        assert failed.value.code() is grpc.StatusCode.PERMISSION_DENIED
        wrong = (("x-api-key", "gq_wrong"),)
        with pytest.raises(grpc.RpcError) as failed:
            admin.ListTopics(pb.ListTopicsRequest(), timeout=60, metadata=wrong)
        assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED

    logins = events(server, "--event", "auth_success", "--principal", "User:müller-friend")
    by_grpc = [each for each in logins if each["resource"] == "listener:grpc"]
    assert [each["details"]["mechanism"] for each in by_grpc] == ["certificate"], "once"
    made = events(server, "--resource", "topic:by-grpc", "--event", "topic_created", least=2)
    assert [each["outcome"] for each in made] == ["success", "failure"]
    assert {each["principal"] for each in made} == {"User:müller-friend"}
    assert {each["client"] for each in made} == {"127.0.0.1"}
    assert made[0]["request_id"] == "r-1"
    denied = events(server, "--event", "acl_denied", "--principal", "User:stranger", least=1)
    said = denied[-1]
    assert said["resource"] == "topic:by-grpc"
    assert said["details"]["request"] == "/goqueue.v1.AdminService/DeleteTopic"
    unknown = events(server, "--event", "auth_failure", least=1)[-1]
    assert unknown["resource"] == "/goqueue.v1.AdminService/ListTopics"
    assert "gq_wrong" not in json.dumps(unknown)
