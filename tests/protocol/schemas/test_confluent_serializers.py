"""Confluent's own client and serializers, unmodified, against one goqueue process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2 as pb, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.http_api import HttpApi
    from support.server import ServerProcess

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
    }
)
ORDER_JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "who": {"type": "string"}},
        "required": ["id"],
    }
)


@pytest.fixture
def registry(broker: ServerProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.http_url}) as client:
        yield client


@pytest.fixture
def topic(api: HttpApi, name: Callable[[str], str]) -> str:
    """A topic that takes nothing without a schema of its own."""
    made = name("orders")
    settings = {"goqueue.schema.validation": "id"}
    api.post("/topics", {"name": made, "num_partitions": 1, "settings": settings})
    return made


def order_types() -> tuple[Any, Any]:
    """A message type with an imported one, as generated code would have them."""
    item = pb.FileDescriptorProto(name="shop/item.proto", package="shop", syntax="proto3")
    field = item.message_type.add(name="Item").field.add(name="sku", number=1, label=1)
    field.type = pb.FieldDescriptorProto.TYPE_STRING
    order = pb.FileDescriptorProto(
        name="shop/order.proto", package="shop", syntax="proto3", dependency=["shop/item.proto"]
    )
    order.message_type.add(name="Other")
    message = order.message_type.add(name="Order")
    number = message.field.add(name="id", number=1, label=1)
    number.type = pb.FieldDescriptorProto.TYPE_INT64
    items = message.field.add(name="items", number=2, label=3, type_name=".shop.Item")
    items.type = pb.FieldDescriptorProto.TYPE_MESSAGE
    pool = descriptor_pool.DescriptorPool()
    pool.Add(item)
    pool.Add(order)
    order_class, item_class = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(each))
        for each in ("shop.Order", "shop.Item")
    )
    return order_class, item_class


def send(broker: ServerProcess, topic: str, *values: bytes | None) -> list[Any]:
    """The error of each message; None where there is none."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address})
    errors: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
    return errors


def receive(broker: ServerProcess, topic: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.kafka_address,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        found: list[bytes] = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            found.append(message.value())
        return found
    finally:
        consumer.close()


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_goes_there_and_back(
    broker: ServerProcess, registry: SchemaRegistryClient, topic: str
) -> None:
    serialize = AvroSerializer(registry, ORDER)
    sent = [{"id": number, "who": "ada"} for number in range(3)]
    assert send(broker, topic, *(serialize(each, context(topic)) for each in sent)) == [None] * 3
    deserialize = AvroDeserializer(registry)
    got = receive(broker, topic, 3)
    assert [deserialize(each, context(topic)) for each in got] == sent
    assert registry.get_latest_version(f"{topic}-value").version == 1


def test_json_goes_there_and_back(
    broker: ServerProcess, registry: SchemaRegistryClient, topic: str
) -> None:
    serialize = JSONSerializer(ORDER_JSON, registry)
    sent = [{"id": number, "who": "ada"} for number in range(3)]
    assert send(broker, topic, *(serialize(each, context(topic)) for each in sent)) == [None] * 3
    deserialize = JSONDeserializer(ORDER_JSON, schema_registry_client=registry)
    got = receive(broker, topic, 3)
    assert [deserialize(each, context(topic)) for each in got] == sent


def test_protobuf_goes_there_and_back_with_what_it_imports(
    broker: ServerProcess, registry: SchemaRegistryClient, topic: str
) -> None:
    order_type, item_type = order_types()
    serialize = ProtobufSerializer(order_type, registry, {"use.deprecated.format": False})
    sent = [order_type(id=number, items=[item_type(sku="x")]) for number in range(3)]
    assert send(broker, topic, *(serialize(each, context(topic)) for each in sent)) == [None] * 3
    deserialize = ProtobufDeserializer(
        order_type, {"use.deprecated.format": False}, schema_registry_client=registry
    )
    got = receive(broker, topic, 3)
    assert [deserialize(each, context(topic)) for each in got] == sent
    version = registry.get_latest_version(f"{topic}-value")
    assert version.schema.schema_type == "PROTOBUF"
    assert [each.name for each in version.schema.references] == ["shop/item.proto"]
    assert version.schema.schema_str.startswith('syntax = "proto3";\npackage shop;')


def test_a_message_that_fits_no_schema_of_the_topic_is_refused(
    broker: ServerProcess, registry: SchemaRegistryClient, topic: str
) -> None:
    good = AvroSerializer(registry, ORDER)({"id": 1, "who": "ada"}, context(topic))
    assert good is not None
    errors = send(broker, topic, good, good[:-1], b"plain", None)
    assert [error is None for error in errors] == [True, False, False, True]
    for error in errors[1:3]:
        assert error.code() == confluent_kafka.KafkaError.INVALID_RECORD


# --- The client of the registry -------------------------------------------------------------------


def test_the_client_registers_finds_and_deletes(
    registry: SchemaRegistryClient, name: Callable[[str], str]
) -> None:
    subject = name("subject")
    schema = Schema(ORDER, "AVRO")
    schema_id = registry.register_schema(subject, schema)
    assert registry.register_schema(subject, schema) == schema_id
    assert json.loads(registry.get_schema(schema_id).schema_str) == json.loads(ORDER)
    found = registry.lookup_schema(subject, schema)
    assert (found.subject, found.version, found.schema_id) == (subject, 1, schema_id)
    assert registry.get_schema_by_guid(found.guid).schema_str == found.schema.schema_str
    assert subject in registry.get_subjects()
    assert registry.get_versions(subject) == [1]
    assert registry.get_version(subject, 1).schema_id == schema_id
    assert subject in registry.get_subjects_by_schema_id(schema_id)
    assert (subject, 1) in [
        (each.subject, each.version) for each in registry.get_schema_versions(schema_id)
    ]
    assert set(registry.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert registry.delete_version(subject, 1) == 1
    with pytest.raises(SchemaRegistryError) as refused:
        registry.get_versions(subject)
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)
    assert registry.delete_subject(subject, permanent=True) == [1]


def test_the_client_asks_and_sets_compatibility(
    registry: SchemaRegistryClient, name: Callable[[str], str]
) -> None:
    subject = name("subject")
    registry.register_schema(subject, Schema(ORDER, "AVRO"))
    changed = Schema(ORDER.replace('"long"', '"string"'), "AVRO")
    assert registry.get_compatibility() == "BACKWARD"
    assert not registry.test_compatibility(subject, changed)
    assert not registry.test_compatibility_all_versions(subject, changed)
    with pytest.raises(SchemaRegistryError) as refused:
        registry.register_schema(subject, changed)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    told: Any = registry.set_compatibility(subject, "NONE")
    assert told == {"compatibility": "NONE"}
    assert registry.get_compatibility(subject) == "NONE"
    assert registry.test_compatibility(subject, changed)
    registry.register_schema(subject, changed)


def test_the_client_uses_references(
    registry: SchemaRegistryClient, name: Callable[[str], str]
) -> None:
    item, order = name("item"), name("order")
    registry.register_schema(item, Schema('{"type":"fixed","name":"Item","size":4}', "AVRO"))
    using = '{"type":"record","name":"O","fields":[{"name":"i","type":"Item"}]}'
    schema = Schema(using, "AVRO", [SchemaReference("Item", item, 1)])
    schema_id = registry.register_schema(order, schema)
    assert registry.get_referenced_by(item, 1) == [schema_id]
    with pytest.raises(SchemaRegistryError) as refused:
        registry.delete_subject(item)
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42206)
