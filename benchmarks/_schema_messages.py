"""Messages of about 1 KB with a schema of each type, such as a shop's orders would have."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import fastavro

from goqueue.schemas.formats import parse
from goqueue.schemas.model import Schema, SchemaType

ITEMS: Final = 8
ORDER: Final = {
    "id": 1234567,
    "customer": "customer-0001234567",
    "currency": "EUR",
    "paid": True,
    "total": 1234.5,
    "note": "n" * 450,
    "items": [
        {"sku": f"sku-{number:012d}", "count": number, "price": 9.75 * number}
        for number in range(ITEMS)
    ],
}

_ITEM: Final = {"sku": "string", "count": "integer", "price": "number"}
_FIELDS: Final = {
    "id": "integer",
    "customer": "string",
    "currency": "string",
    "paid": "boolean",
    "total": "number",
    "note": "string",
}
_AVRO: Final = {"integer": "long", "number": "double", "string": "string", "boolean": "boolean"}
_PROTO: Final = {"integer": "int64", "number": "double", "string": "string", "boolean": "bool"}


def _object(fields: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def json_schema() -> str:
    """Every field has a type, all are required, no others are allowed."""
    order = _object(_FIELDS)
    order["properties"]["items"] = {"type": "array", "items": _object(_ITEM), "maxItems": 100}
    order["properties"]["currency"]["pattern"] = "^[A-Z]{3}$"
    order["properties"]["id"]["minimum"] = 0
    return json.dumps(order)


def avro_schema() -> str:
    """The same for Avro."""

    def fields(of: dict[str, str]) -> list[dict[str, Any]]:
        return [{"name": name, "type": _AVRO[kind]} for name, kind in of.items()]

    item = {"type": "record", "name": "Item", "fields": fields(_ITEM)}
    items = {"name": "items", "type": {"type": "array", "items": item}}
    return json.dumps({"type": "record", "name": "Order", "fields": [*fields(_FIELDS), items]})


def proto_schema() -> str:
    """The same for Protobuf."""

    def fields(of: dict[str, str]) -> str:
        named = enumerate(of.items(), 1)
        return " ".join(f"{_PROTO[kind]} {name} = {number};" for number, (name, kind) in named)

    return (
        f'syntax = "proto3"; message Order {{ {fields(_FIELDS)} repeated Item items = 10; }} '
        f"message Item {{ {fields(_ITEM)} }}"
    )


def messages() -> dict[SchemaType, tuple[Schema, bytes]]:
    """A schema of each type, and the order encoded with it."""
    avro = io.BytesIO()
    fastavro.schemaless_writer(avro, fastavro.parse_schema(json.loads(avro_schema())), ORDER)
    return {
        SchemaType.JSON: (Schema(SchemaType.JSON, json_schema()), json.dumps(ORDER).encode()),
        SchemaType.AVRO: (Schema(SchemaType.AVRO, avro_schema()), avro.getvalue()),
        SchemaType.PROTOBUF: (Schema(SchemaType.PROTOBUF, proto_schema()), _proto_order()),
    }


def _proto_order() -> bytes:
    from google.protobuf import json_format, message_factory  # noqa: PLC0415 - only here

    from goqueue.schemas.protobuf.schema import ProtobufSchema  # noqa: PLC0415 - only here

    file = ProtobufSchema(proto_schema()).file
    kind = message_factory.GetMessageClass(file.message_types_by_name["Order"])
    return json_format.ParseDict(ORDER, kind()).SerializeToString()


def checked() -> dict[SchemaType, tuple[Any, bytes]]:
    """A validator of each type, and a message that fits it."""
    return {
        kind: (parse(schema, ()).validator(), data) for kind, (schema, data) in messages().items()
    }
