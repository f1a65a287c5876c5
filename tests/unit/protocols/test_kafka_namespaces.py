"""Which fields of Kafka's messages are names: held against the types in Kafka's own definitions."""

from __future__ import annotations

import dataclasses
import importlib
import typing

import pytest
from hypothesis import given, strategies as st
from kio.schema.types import GroupId, TopicName, TransactionalId

from goqueue.access.tenants.namespace import Namespace
from goqueue.groups.consumer.protocol import (
    assigned_partitions,
    encode_assignment,
    read_subscription,
    renamed_assignment,
    renamed_subscription,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.namespaces import is_name
from goqueue.protocols.kafka.served import SERVED
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schemas import OWN_FROM, schema_of, versions

if typing.TYPE_CHECKING:
    from goqueue.wire.kafka.schema import Schema

TYPED = (TopicName, GroupId, TransactionalId)
NOT_TYPED = {
    # Kafka's definitions call these strings, and they are names all the same.
    "find_coordinator.request.key", "find_coordinator.request.coordinator_keys",
    "find_coordinator.response.coordinators.key",
    "streams_group_heartbeat.response.partitions_by_user_endpoint.active_partitions.topic",
    "streams_group_heartbeat.response.partitions_by_user_endpoint.standby_partitions.topic",
}  # fmt: skip
LEFT = {ApiKey.DESCRIBE_QUORUM}  # about the log of Kafka's controllers


def typed(kind: object) -> bool:
    return kind in TYPED or any(typed(each) for each in typing.get_args(kind))


def structs(kind: object):
    if dataclasses.is_dataclass(kind):
        yield kind
    for each in typing.get_args(kind):
        yield from structs(each)


def kafka_names(message: object, path: str):
    for name, kind in typing.get_type_hints(message).items():
        if typed(kind):
            yield f"{path}.{name}"
        for inner in structs(kind):
            yield from kafka_names(inner, f"{path}.{name}")


def our_names(schema: Schema, path: str):
    for field in schema.fields:
        if field.schema is not None:
            yield from our_names(field.schema, f"{path}.{field.name}")
        elif field.kind == "string" and is_name(schema, field.name):
            yield f"{path}.{field.name}"


@pytest.mark.parametrize("key", [key for key in SERVED if key < OWN_FROM and key not in LEFT])
def test_the_names_are_those_of_kafkas_definitions(key: ApiKey) -> None:
    api = key.name.lower()
    for version in versions(key):
        for direction in ("request", "response"):
            module = importlib.import_module(f"kio.schema.{api}.v{version}.{direction}")
            title = "".join(part.title() for part in api.split("_"))
            message = getattr(module, f"{title}{direction.title()}")
            path = f"{api}.{direction}"
            theirs = set(kafka_names(message, path))
            ours = set(our_names(schema_of(key, version, direction), path))
            assert ours - NOT_TYPED == theirs - NOT_TYPED, version


TENANT = Namespace("acme")
PARTS = st.frozensets(
    st.builds(TopicPartition, st.text(st.sampled_from("ab.é"), min_size=1), st.integers(0, 9))
)


@given(PARTS, st.binary(max_size=8))
def test_assignments_are_renamed_and_everything_else_in_them_stays(parts, user_data) -> None:
    sent = encode_assignment(parts)[:-4] + len(user_data).to_bytes(4) + user_data
    inside = renamed_assignment(sent, TENANT.inside)
    expected = {TopicPartition(f"acme.{each.topic}", each.partition) for each in parts}
    assert assigned_partitions(inside) == expected
    assert renamed_assignment(inside, TENANT.outside) == sent


@given(PARTS, st.integers(0, 3), st.binary(max_size=8))
def test_subscriptions_are_renamed_and_everything_else_in_them_stays(parts, version, data) -> None:
    topics = sorted({each.topic for each in parts})
    sent = version.to_bytes(2) + len(topics).to_bytes(4)
    for topic in topics:
        sent += len(topic.encode()).to_bytes(2) + topic.encode()
    sent += len(data).to_bytes(4) + data
    if version >= 1:
        sent += encode_assignment(parts)[2:-4]
    sent += b"\0\0\0\7" if version >= 2 else b""
    sent += b"\0\1r" if version >= 3 else b""
    inside = renamed_subscription(sent, TENANT.inside)
    read = read_subscription(inside)
    assert read is not None
    assert read.topics == {f"acme.{each}" for each in topics}
    if version >= 1:
        assert {each.topic for each in read.owned} == read.topics
    assert renamed_subscription(inside, TENANT.outside) == sent


@given(st.binary(max_size=40))
def test_whatever_members_write_comes_out_as_it_went_in(data: bytes) -> None:
    assert renamed_subscription(renamed_subscription(data, TENANT.inside), TENANT.outside) == data
    assert renamed_assignment(renamed_assignment(data, TENANT.inside), TENANT.outside) == data
