"""What clients nobody here wrote do, in the audit log of a real server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from itertools import count
from typing import Any

import grpc
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from protocol.secure_clients import CLIENTS, Access, admin_of
from support.server import make_server
from support.waiting import eventually

ROOT_KEY = "gq_root_key_of_the_test"
topics = (f"audited-{number}" for number in count())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    environment = {
        "GOQUEUE_SASL_ENABLED": "true",
        "GOQUEUE_SASL_MECHANISMS": "PLAIN,SCRAM-SHA-256",
        "GOQUEUE_SASL_USERS": "alice:wonderland",
        "GOQUEUE_AUDIT_TOPIC": "true",
    }
    with_audit = make_server(tmp_path_factory.mktemp("broker") / "data", environment=environment)
    with_audit.start()
    yield with_audit
    with_audit.close()


def folders_of(server):
    return sorted(server.data_dir.parent.rglob("audit"))


def audit(*words: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "goqueue.cli", "audit", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def events(server, *filters: str, least: int = 1) -> list[dict[str, Any]]:
    """Events that the filters want, once there are so many: they are written a moment later."""
    deadline = time.monotonic() + 30
    while True:
        lines = [
            json.loads(line)
            for folder in folders_of(server)
            for line in audit("show", folder, "-o", "json", "-n", 10_000, *filters).splitlines()
        ]
        if len(lines) >= least or time.monotonic() > deadline:
            return sorted(lines, key=lambda each: each["time"])
        time.sleep(0.05)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_logins_good_and_bad_are_in_the_log(server, mechanism) -> None:
    access = Access(server.kafka_address, mechanism, "alice", "wonderland")
    CLIENTS["confluent"](access, next(topics), b"hello")
    good = events(server, "--event", "auth_success", "--principal", "User:alice")
    assert {each["client"] for each in good} == {"127.0.0.1"}
    assert mechanism in {each["details"]["mechanism"] for each in good}

    wrong = Access(server.kafka_address, mechanism, "alice\nroot", "guess")
    with pytest.raises(PermissionError):
        CLIENTS["confluent"](wrong, next(topics), b"hello")
    bad = events(server, "--event", "auth_failure", "--outcome", "failure")
    assert bad[-1]["principal"] == "User:alice\nroot"
    assert "guess" not in json.dumps(bad)
    for folder in folders_of(server):
        assert "as it was written" in audit("verify", folder)


def test_a_kill_leaves_a_log_that_verifies_and_a_changed_one_does_not(tmp_path) -> None:
    environment = {"GOQUEUE_SASL_ENABLED": "true", "GOQUEUE_SASL_USERS": "alice:wonderland"}
    server = make_server(tmp_path / "data", environment=environment)
    try:
        for _ in range(3):
            server.start()
            access = Access(server.kafka_address, "SCRAM-SHA-256", "alice", "wonderland")
            CLIENTS["confluent"](access, next(topics), b"hello")
            events(server, "--event", "auth_success")
            server.kill()
        for folder in folders_of(server):
            (path,) = folder.glob("audit-*.log")
            with path.open("ab") as file:
                file.write(b'{"seq":99,"time":"2026-')
        server.start()
        server.stop()
    finally:
        server.close()
    for folder in folders_of(server):
        assert "as it was written" in audit("verify", folder)
        (path,) = folder.glob("audit-*.log")
        lines = path.read_bytes().splitlines(keepends=True)
        assert sum(b'"audit_started"' in line for line in lines) == 4
        path.write_bytes(b"".join(lines[:2] + lines[3:]))
        assert "line 3 is missing" in audit("verify", folder, code=1)
        path.write_bytes(b"".join(lines).replace(b"User:alice", b"User:mallo", 1))
        assert "was changed" in audit("verify", folder, code=1)


def test_events_are_in_the_topic_too(server) -> None:
    from confluent_kafka import Consumer  # noqa: PLC0415 - for this test alone

    access = Access(server.kafka_address, "PLAIN", "alice", "wonderland")
    CLIENTS["confluent"](access, next(topics), b"hello")
    stored = events(server, "--event", "auth_success")
    settings = {"group.id": "auditors", "auto.offset.reset": "earliest"}
    consumer = Consumer({**access.of_confluent(), **settings})
    found: list[dict[str, Any]] = []
    try:
        consumer.subscribe(["__audit"])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append(json.loads(message.value()))
                if found[-1]["seq"] == stored[-1]["seq"]:
                    break
    finally:
        consumer.close()
    assert stored[-1]["seq"] in {each["seq"] for each in found}
    assert {"previous", "hash"} <= found[-1].keys()


def test_a_server_without_logins_writes_none_unless_it_is_told_to(tmp_path) -> None:
    server = make_server(tmp_path / "off")
    try:
        server.start()
        assert not folders_of(server)
    finally:
        server.close()
    server = make_server(tmp_path / "on", "--audit-enabled")
    try:
        server.start()
        assert folders_of(server)
    finally:
        server.close()


def test_what_administrators_do_over_kafka_is_in_the_log(server) -> None:
    admin = admin_of(Access(server.kafka_address, "PLAIN", "alice", "wonderland"))
    name = next(topics)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    admin.create_partitions([NewPartitions(name, 3)])[name].result(60)
    entry = ConfigEntry("retention.ms", "1000000", incremental_operation=AlterConfigOpType.SET)
    config = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([config])[config].result(60)
    admin.delete_topics([name])[name].result(60)
    found = events(server, "--resource", f"topic:{name}", least=5)
    assert [(each["event"], each["outcome"]) for each in found] == [
        ("topic_created", "success"),
        ("topic_created", "failure"),
        ("partitions_added", "success"),
        ("config_changed", "success"),
        ("topic_deleted", "success"),
    ]
    assert {each["principal"] for each in found} == {"User:alice"}
    assert "exists" in found[1]["details"]["reason"]


def test_what_is_changed_over_http_is_in_the_log_with_the_id_of_the_request(tmp_path) -> None:
    server = make_server(tmp_path / "data", "--audit-enabled")
    try:
        server.start()
        for method, path, body in (
            ("POST", "/topics", {"name": "made", "num_partitions": 1}),
            ("PATCH", "/topics/made", {"settings": {"retention.ms": "1000000"}}),
            ("GET", "/topics/made", None),
            ("DELETE", "/topics/made", None),
            ("DELETE", "/topics/made", None),
        ):
            request = urllib.request.Request(
                f"{server.http_url}{path}",
                None if body is None else json.dumps(body).encode(),
                {"X-Request-ID": f"{method}-1", "Content-Type": "application/json"},
                method=method,
            )
            with suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=60):
                pass
        found = events(server, "--resource", "topic:made", least=4)
        assert [(each["event"], each["outcome"], each["request_id"]) for each in found] == [
            ("topic_created", "success", "POST-1"),
            ("config_changed", "success", "PATCH-1"),
            ("topic_deleted", "success", "DELETE-1"),
            ("topic_deleted", "failure", "DELETE-1"),
        ]
        assert {each["client"] for each in found} == {"127.0.0.1"}
    finally:
        server.close()


def test_a_refusal_over_kafka_is_in_the_log(tmp_path) -> None:
    environment = {
        "GOQUEUE_AUTH_ENABLED": "true",
        "GOQUEUE_SASL_USERS": "root:wonderland,eve:apple",
        "GOQUEUE_AUTH_SUPER_USERS": "root",
    }
    server = make_server(tmp_path / "data", environment=environment)
    try:
        server.start()
        eve = admin_of(Access(server.kafka_address, "SCRAM-SHA-256", "eve", "apple"))
        with pytest.raises(KafkaException):
            eve.delete_topics(["secret"])["secret"].result(60)
        found = events(server, "--event", "acl_denied", "--principal", "User:eve")
        assert found[-1]["resource"] == "topic:secret"
        assert found[-1]["outcome"] == "denied"
    finally:
        server.close()


def test_logins_over_http_and_grpc_are_in_the_log_once_and_expired_keys_by_name(tmp_path) -> None:
    environment = {"GOQUEUE_AUTH_ENABLED": "true", "GOQUEUE_API_ROOT_KEY": ROOT_KEY}
    server = make_server(tmp_path / "data", environment=environment)
    try:
        server.start()
        made, short = (
            call(server, ROOT_KEY, "POST", "/admin/keys", {"name": "made", "expires_in": left})
            for left in ("1h", "1s")
        )
        key, key_id = made["key"], made["id"]
        channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        admin = services.AdminServiceStub(channel)

        def by_grpc(key: str) -> None:
            metadata = (("authorization", f"Bearer {key}"),)
            admin.ListTopics(pb.ListTopicsRequest(), metadata=metadata, timeout=60)

        for _ in range(3):
            call(server, key, "GET", "/topics")
            by_grpc(key)
        good = events(server, "--event", "auth_success", "--principal", f"User:{key_id}", least=2)
        ways = [each["resource"] for each in good]
        assert set(ways) == {"listener:http", "listener:grpc"}
        assert ways.count("listener:http") <= len(server.data_dirs)  # once on each node
        assert ways.count("listener:grpc") == 1
        assert {each["details"]["mechanism"] for each in good} == {"bearer"}
        assert eventually(lambda: refused(server, short["key"]))
        with pytest.raises(grpc.RpcError):
            by_grpc(short["key"])
        channel.close()
        late = events(server, "--event", "auth_expired", least=2)
        assert {each["outcome"] for each in late} == {"failure"}
        told = json.dumps([*good, *late])
        assert key not in told
        assert short["key"] not in told
    finally:
        server.close()


def refused(server, key: str) -> bool:
    try:
        call(server, key, "GET", "/topics")
    except urllib.error.HTTPError as error:
        code = error.code
    else:
        return False
    assert code == 401
    return True


def call(server, key: str, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"{server.http_url}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
