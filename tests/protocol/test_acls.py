"""Rules made, listed and deleted by the admin clients of confluent-kafka and kafka-python.

aiokafka's admin client has no requests for rules.
"""

from __future__ import annotations

from typing import Any

import kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation as PythonOperation,
    ACLPermissionType as PythonPermission,
    ACLResourcePatternType as PythonPattern,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType as PythonType,
)

from protocol.secure_clients import Access
from support.server import make_server, start_server

__all__ = ["start_server"]

WAIT_S = 30.0
SECURITY_DISABLED = 54
INVALID_REQUEST = 42


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    environment = {
        "GOQUEUE_AUTH_ENABLED": "true",
        "GOQUEUE_SASL_USERS": "root:secret",
        "GOQUEUE_AUTH_SUPER_USERS": "User:root",
    }
    made = make_server(tmp_path_factory.mktemp("acls") / "data", environment=environment)
    made.start()
    yield made
    made.close()


@pytest.fixture
def access(server) -> Access:
    return Access(server.kafka_address, "SCRAM-SHA-512", "root", "secret")


def binding(name: str, **others) -> AclBinding:
    parts: dict[str, Any] = {
        "restype": ResourceType.TOPIC,
        "name": name,
        "resource_pattern_type": ResourcePatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermissionType.ALLOW,
    } | others
    return AclBinding(*parts.values())


def any_rule(**others) -> AclBindingFilter:
    parts: dict[str, Any] = {
        "restype": ResourceType.ANY,
        "name": None,
        "resource_pattern_type": ResourcePatternType.ANY,
        "principal": None,
        "host": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermissionType.ANY,
    } | others
    return AclBindingFilter(*parts.values())


def described(admin: AdminClient, **wanted) -> set[tuple[str, str]]:
    found = admin.describe_acls(any_rule(**wanted), request_timeout=WAIT_S).result(WAIT_S)
    return {(each.name, each.operation.name) for each in found}


def test_confluent_kafka_makes_lists_and_deletes_rules(access) -> None:
    admin = AdminClient(access.of_confluent())
    prefix = {"resource_pattern_type": ResourcePatternType.PREFIXED}
    rules = [
        binding("c-orders"),
        binding("c-ord", **prefix, operation=AclOperation.WRITE),
        binding("c-group", restype=ResourceType.GROUP),
        binding("c-orders", permission_type=AclPermissionType.DENY, host="10.0.0.9"),
        binding("kafka-cluster", restype=ResourceType.BROKER, operation=AclOperation.ALTER),
        binding("c-tx", restype=ResourceType.TRANSACTIONAL_ID, operation=AclOperation.WRITE),
    ]
    for _ in range(2):  # making a rule again changes nothing
        for made in admin.create_acls(rules, request_timeout=WAIT_S).values():
            made.result(WAIT_S)
    everything = admin.describe_acls(any_rule(principal="User:alice")).result(WAIT_S)
    assert len(everything) == len(rules)
    assert set(everything) == set(rules)
    match = {"resource_pattern_type": ResourcePatternType.MATCH, "restype": ResourceType.TOPIC}
    assert described(admin, **match, name="c-orders") == {("c-orders", "READ"), ("c-ord", "WRITE")}
    assert described(admin, **match, name="c-orderly") == {("c-ord", "WRITE")}
    assert described(admin, **prefix, name="c-ord") == {("c-ord", "WRITE")}
    assert described(admin, permission_type=AclPermissionType.DENY) == {("c-orders", "READ")}
    wanted = [any_rule(name="c-orders"), any_rule(name="unheard-of")]
    deleted = admin.delete_acls(wanted, request_timeout=WAIT_S)
    assert len(deleted[wanted[0]].result(WAIT_S)) == 2
    assert deleted[wanted[1]].result(WAIT_S) == []
    assert len(admin.describe_acls(any_rule(principal="User:alice")).result(WAIT_S)) == 4
    admin.delete_acls([any_rule(principal="User:alice")])[any_rule(principal="User:alice")].result(
        WAIT_S
    )


def test_a_rule_that_cannot_be_is_refused_with_kafkas_code(access) -> None:
    admin = AdminClient(access.of_confluent())
    rule = binding("g", restype=ResourceType.GROUP, operation=AclOperation.ALTER)
    with pytest.raises(KafkaException) as refused:
        admin.create_acls([rule], request_timeout=WAIT_S)[rule].result(WAIT_S)
    assert refused.value.args[0].code() == INVALID_REQUEST
    assert "expected" in refused.value.args[0].str()


def test_kafka_python_makes_lists_and_deletes_rules(access) -> None:
    admin = kafka.KafkaAdminClient(**access.of_python())
    try:
        rule = ACL(
            "User:zoë",
            "*",
            PythonOperation.READ,
            PythonPermission.ALLOW,
            ResourcePattern(PythonType.TOPIC, "p-orders", PythonPattern.LITERAL),
        )
        made = admin.create_acls([rule])
        assert made["succeeded"] == [rule]
        wanted = ACLFilter(
            "User:zoë",
            None,
            PythonOperation.ANY,
            PythonPermission.ANY,
            ResourcePatternFilter(PythonType.ANY, None, PythonPattern.ANY),
        )
        assert admin.describe_acls(wanted)[0] == [rule]
        deleted = admin.delete_acls([wanted])
        assert deleted[0][1] == [rule]
        assert admin.describe_acls(wanted)[0] == []
    finally:
        admin.close()


def test_rules_survive_a_restart(access, server) -> None:
    admin = AdminClient(access.of_confluent())
    rule = binding("kept")
    admin.create_acls([rule])[rule].result(WAIT_S)
    server.kill()
    server.restart()
    assert described(AdminClient(access.of_confluent()), name="kept") == {("kept", "READ")}


def test_a_server_that_checks_no_rights_stores_no_rules(start_server) -> None:
    admin = AdminClient({"bootstrap.servers": start_server().kafka_address})
    rule = binding("t")
    with pytest.raises(KafkaException) as refused:
        admin.create_acls([rule])[rule].result(WAIT_S)
    assert refused.value.args[0].code() == SECURITY_DISABLED
