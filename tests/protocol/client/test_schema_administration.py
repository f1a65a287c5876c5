"""Schemas and traces through the client's administration."""

from __future__ import annotations

import json

import pytest

from goqueue import Client
from goqueue.client.administration.schemas import Reference
from goqueue.model.errors import (
    IncompatibleSchemaError,
    InvalidCompatibilityError,
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaOperationNotPermittedError,
    SchemaVersionNotFoundError,
    SubjectNotFoundError,
    SubjectNotSoftDeletedError,
    UnknownTopicError,
    UnknownTraceError,
)
from support.http_api import HttpApi
from support.server import start_server
from support.waiting import eventually

__all__ = ["start_server"]


def record(*fields):
    """An Avro record with fields of strings."""
    return json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": each, "type": "string"} for each in fields],
        }
    )


@pytest.fixture
def subject(name):
    return f"{name('subject')}/ä-value"


# --- Schemas --------------------------------------------------------------------------------------


def test_schemas_are_registered_looked_up_and_deleted(client, subject):
    registered = client.schemas.register(subject, record("a", "b"))
    assert registered.version == 1
    assert client.schemas.register(subject, record("a", "b")) == registered
    assert client.schemas.register(subject, record("a")).version == 2
    assert client.schemas.versions(subject) == [1, 2]
    assert subject in client.schemas.subjects()
    assert client.schemas.subjects(subject) == [subject]
    first = client.schemas.get(subject, 1)
    assert (first.subject, first.id, first.version) == (subject, registered.id, 1)
    assert (first.schema_type, first.is_deleted) == ("AVRO", False)
    assert json.loads(first.schema)["name"] == "Order"
    assert client.schemas.get(subject).version == 2
    assert client.schemas.look_up(subject, record("a", "b")).version == 1
    assert client.schemas.by_id(registered.id).schema == first.schema
    assert client.schemas.delete_version(subject, 1) == 1
    assert client.schemas.versions(subject) == [2]
    assert client.schemas.versions(subject, deleted=True) == [1, 2]
    assert client.schemas.get(subject, 1, deleted=True).is_deleted
    assert client.schemas.delete(subject) == [2]
    assert client.schemas.delete(subject, permanent=True) == [1, 2]
    assert client.schemas.subjects(subject, deleted=True) == []
    assert client.schemas.stats().next_id > registered.id


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        ("JSON", '{"type": "object", "properties": {"a": {"type": "string"}}}'),
        ("PROTOBUF", 'syntax = "proto3"; message Order { string a = 1; }'),
    ],
)
def test_schemas_have_types(client, subject, schema_type, text):
    made = client.schemas.register(subject, text, schema_type=schema_type)
    assert client.schemas.by_id(made.id).schema_type == schema_type


def test_a_schema_refers_to_another(client, subject):
    client.schemas.register(subject, record("a"))
    text = json.dumps(
        {"type": "record", "name": "Box", "fields": [{"name": "order", "type": "Order"}]}
    )
    reference = Reference("Order", subject, 1)
    made = client.schemas.register(f"{subject}-box", text, references=[reference])
    assert client.schemas.by_id(made.id).references == (reference,)


def test_compatibility_is_checked_by_the_level_of_the_subject(client, subject):
    client.schemas.register(subject, record("a"))
    assert client.schemas.level(subject) == client.schemas.level() == "BACKWARD"
    verdict = client.schemas.check(subject, record("a", "b"))
    assert not verdict.is_compatible
    assert verdict.messages
    assert not client.schemas.check(subject, record("a", "b"), version=1).is_compatible
    with pytest.raises(IncompatibleSchemaError):
        client.schemas.register(subject, record("a", "b"))
    client.schemas.set_level("NONE", subject)
    assert client.schemas.level(subject) == "NONE"
    assert client.schemas.check(subject, record("a", "b")).is_compatible
    client.schemas.clear_level(subject)
    assert client.schemas.level(subject) == "BACKWARD"


def test_a_subject_may_be_read_only(client, subject):
    assert client.schemas.mode(subject) == client.schemas.mode() == "READWRITE"
    client.schemas.set_mode("READONLY", subject)
    assert client.schemas.mode(subject) == "READONLY"
    with pytest.raises(SchemaOperationNotPermittedError):
        client.schemas.register(subject, record("a"))
    client.schemas.clear_mode(subject)
    client.schemas.register(subject, record("a"))


def test_what_counts_for_all_subjects_is_set_and_taken_back(client):
    client.schemas.set_level("FULL")
    client.schemas.set_mode("READONLY")
    assert (client.schemas.level(), client.schemas.mode()) == ("FULL", "READONLY")
    client.schemas.clear_mode()
    client.schemas.clear_level()
    assert (client.schemas.level(), client.schemas.mode()) == ("BACKWARD", "READWRITE")


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda c: c.schemas.versions("absent"), SubjectNotFoundError),
        (lambda c: c.schemas.get("absent"), SubjectNotFoundError),
        (lambda c: c.schemas.get("absent", 7), SubjectNotFoundError),
        (lambda c: c.schemas.delete("absent"), SubjectNotFoundError),
        (lambda c: c.schemas.by_id(999_999), SchemaNotFoundError),
        (lambda c: c.schemas.register("broken", "{"), InvalidSchemaError),
        (lambda c: c.schemas.set_level("SIDEWAYS"), InvalidCompatibilityError),
    ],
)
def test_a_refusal_is_the_error_of_the_registry(client, ask, error):
    with pytest.raises(error) as caught:
        ask(client)
    assert str(caught.value)


def test_what_was_not_deleted_is_not_deleted_for_good(client, subject):
    client.schemas.register(subject, record("a"))
    with pytest.raises(SubjectNotSoftDeletedError):
        client.schemas.delete(subject, permanent=True)
    with pytest.raises(SchemaVersionNotFoundError):
        client.schemas.get(subject, 9)


# --- Traces ---------------------------------------------------------------------------------------


def test_traces_are_found_by_message_by_key_and_by_what_is_known_of_them(start_server):
    server = start_server("--tracing-sampling", "1")
    api = HttpApi(server.http_port)
    with Client(server.kafka_address) as client:
        client.topics.create("t", partitions=1)
        api.publish("t", "one", key="k")
        api.publish("t", "two", key="another")
        trace = eventually(lambda: found(client))
        assert (trace.topic, trace.partition, trace.offset) == ("t", 0, 0)
        assert trace.span_count == len(trace.spans) >= 3
        assert trace.spans[0].event == "publish.received"
        assert trace.start_ms <= trace.end_ms
        assert client.traces.get(trace.trace_id) == trace
        assert client.traces.key("t", "k") == [trace]
        assert client.traces.key("t", "nobody") == []
        assert trace.trace_id in [each.trace_id for each in client.traces.recent()]
        (summary,) = [
            each
            for each in client.traces.search(topic="t", partition=0, since=0, max_duration=3600)
            if each.trace_id == trace.trace_id
        ]
        assert (summary.span_count, summary.status) == (trace.span_count, trace.status)
        assert client.traces.search(topic="t", until=1) == []
        stats = client.traces.stats()
        assert (stats.is_enabled, stats.sampling) == (True, 1.0)
        with pytest.raises(UnknownTraceError):
            client.traces.get("0" * 31 + "1")
        with pytest.raises(UnknownTopicError):
            client.traces.key("absent", "k")
    api.close()


def found(client):
    """The trace of the first message, once it is there."""
    try:
        return client.traces.message("t", 0, 0)
    except UnknownTraceError:
        return None
