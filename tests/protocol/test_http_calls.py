"""Requests of the HTTP API over a connection of Kafka's: our own API CallHttp."""

from __future__ import annotations

import json
import ssl
import time

import pytest

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka
from protocol.secure_clients import AT_ONCE
from support.certificates import Authority
from support.http_api import HttpApi
from support.server import make_server, start_server

__all__ = ["start_server"]


def fields(method, target, body=None, headers=()):
    return {
        "method": method,
        "target": target,
        "headers": [{"name": name, "value": value} for name, value in headers],
        "body": b"" if body is None else json.dumps(body).encode(),
    }


def call(raw, method, target, body=None, headers=()):
    return raw.ask(ApiKey.CALL_HTTP, 0, **fields(method, target, body, headers))


def headers_of(answer):
    return {each.name: each.value for each in answer.headers}


def test_a_topic_is_made_described_and_deleted(raw, name):
    topic = name("topic")
    made = call(raw, "POST", "/v1/topics", {"name": topic, "num_partitions": 3})
    assert (made.status, made.error_code, made.error_name) == (201, 0, "")
    found = call(raw, "GET", f"/v1/topics/{topic}?verbose")
    assert (found.status, headers_of(found)["content-type"]) == (200, "application/json")
    assert len(json.loads(found.body)["partitions"]) == 3
    assert call(raw, "DELETE", f"/v1/topics/{topic}").status == 200


def test_an_answer_is_what_http_answers(raw, broker, name):
    api = HttpApi(broker.http_port)
    topic = name("topic")
    call(raw, "POST", "/topics", {"name": topic})
    for target in (f"/topics/{topic}", f"/topics/{topic}/settings", "/nowhere", "/subjects/no"):
        over_http, over_kafka = api.ask("GET", target), call(raw, "GET", target)
        assert over_kafka.status == over_http.status
        assert headers_of(over_kafka)["content-type"] == over_http.headers["content-type"]
        ours, theirs = json.loads(over_kafka.body), over_http.json
        if isinstance(ours, dict):
            for each in (ours, theirs):
                each.pop("request_id", None)
        assert ours == theirs
    api.close()


@pytest.mark.parametrize(
    ("asked", "status", "error"),
    [
        (("GET", "/v1/topics/absent", None), 404, "UnknownTopicError"),
        (("GET", "/v1/groups/absent", None), 404, "GroupNotFoundError"),
        (("POST", "/v1/topics", {"name": "a/b"}), 400, "InvalidTopicNameError"),
        (("POST", "/v1/topics", {"name": 1}), 400, "FieldError"),
        (("POST", "/v1/messages/ack", {"receipt_handle": "?"}), 400, "MalformedReceiptError"),
        (("GET", "/v1/schemas/subjects/absent/versions", None), 404, "SubjectNotFoundError"),
        (("GET", "/v1/nowhere", None), 404, "NoSuchPathError"),
        (("BREW", "/v1/topics", None), 405, "MethodNotAllowedError"),
        (("GET", "/v1/events", None), 400, "HttpOnlyError"),
        (("GET", "/console", None), 400, "HttpOnlyError"),
        (("GET", "/docs", None), 400, "HttpOnlyError"),
        (("GET", "topics", None), 400, "MalformedRequestError"),
    ],
)
def test_a_refusal_names_the_class_of_its_error(raw, asked, status, error):
    answer = call(raw, *asked)
    assert (answer.status, answer.error_name) == (status, error)


def test_a_refusal_carries_what_its_error_carried(raw, name):
    topic = name("topic")
    call(raw, "POST", "/v1/topics", {"name": topic})
    answer = call(raw, "GET", f"/v1/topics/{topic}/partitions/0/messages?offset=7")
    assert (answer.status, answer.error_name) == (416, "OffsetOutOfRangeError")
    details = {each.name: each.value for each in answer.error_details}
    assert details["offset"] == "7"


def test_a_long_poll_waits_and_ends_with_its_connection(broker, name):
    topic, group = name("topic"), name("group")
    with RawKafka(broker.kafka_port) as raw:
        call(raw, "POST", "/v1/topics", {"name": topic})
        joined = call(raw, "POST", f"/v1/groups/{group}/join", {"topics": [topic]})
        member = json.loads(joined.body)["member_id"]
        poll = f"/v1/groups/{group}/poll?member_id={member}&timeout="
        began = time.monotonic()
        assert call(raw, "GET", f"{poll}200ms").status == 200
        assert time.monotonic() - began >= 0.2
        raw.send(ApiKey.CALL_HTTP, 0, **fields("GET", f"{poll}60s"))
    with RawKafka(broker.kafka_port) as raw:
        left = call(raw, "POST", f"/v1/groups/{group}/leave", {"member_id": member})
        assert left.status == 200


def test_a_stopping_server_does_not_wait_for_a_long_poll(start_server):
    server = start_server()
    with RawKafka(server.kafka_port) as raw:
        call(raw, "POST", "/v1/topics", {"name": "t"})
        member = json.loads(call(raw, "POST", "/v1/groups/g/join", {"topics": ["t"]}).body)
        target = f"/v1/groups/g/poll?member_id={member['member_id']}&timeout=60s"
        raw.send(ApiKey.CALL_HTTP, 0, **fields("GET", target))
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 30
        assert raw.is_closed_by_server()


def test_a_body_beyond_the_routes_bound_is_refused_and_the_connection_stays(raw):
    answer = call(raw, "POST", "/v1/topics", {"name": "x" * 1_100_000})
    assert (answer.status, answer.error_name) == (413, "BodyTooLargeError")
    assert call(raw, "GET", "/v1/healthz").status == 200


def test_a_request_with_very_many_headers_is_refused_and_holds_nobody_up(raw):
    headers = [("same", "")] * 2000
    answer = call(raw, "GET", "/v1/healthz", headers=headers)
    assert (answer.status, answer.error_name) == (431, "HeadTooLargeError")


def test_it_is_advertised(raw):
    answer = raw.ask(ApiKey.API_VERSIONS, 3, client_software_name="t", client_software_version="1")
    (found,) = [each for each in answer.api_keys if each.api_key == ApiKey.CALL_HTTP]
    assert (found.min_version, found.max_version) == (0, 0)


# --- With a login, and over TLS -----------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, authority):
    """A server with TLS that wants a login."""
    cert_file, key_file = authority.issue("server")
    flags = ("--tls-enabled", "--tls-cert-file", str(cert_file), "--tls-key-file", str(key_file))
    users = {"GOQUEUE_SASL_ENABLED": "true", "GOQUEUE_SASL_USERS": "alice:secret"}
    folder = tmp_path_factory.mktemp("broker") / "data"
    server = make_server(folder, *flags, environment=AT_ONCE | users)
    server.start()
    yield server
    server.close()


@pytest.fixture
def secure(guarded, authority):
    """A connection over TLS, before the login."""
    with RawKafka(guarded.kafka_port) as raw:
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        context.check_hostname = False
        raw.socket = context.wrap_socket(raw.socket)
        yield raw


def test_nothing_is_answered_before_the_login(secure):
    secure.send(ApiKey.CALL_HTTP, 0, **fields("GET", "/v1/topics"))
    assert secure.is_closed_by_server()


def test_it_is_answered_after_the_login(secure):
    secure.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    answer = secure.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0secret")
    assert answer.error_code == 0
    assert call(secure, "POST", "/v1/topics", {"name": "guarded"}).status == 201
    assert "guarded" in json.loads(call(secure, "GET", "/v1/topics").body)["topics"]
