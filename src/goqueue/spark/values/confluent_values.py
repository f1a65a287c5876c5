"""Values as Confluent's serialisers write them: a zero, the schema's id, the bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from goqueue.schemas.model import SchemaType
from goqueue.spark.errors import ValueFormatError
from goqueue.spark.values.avro_values import avro_loader, parsed_schema
from goqueue.spark.values.json_values import one_by_one, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.spark.values.registry import RegisteredSchema, SchemaRegistry

_PREFIX: Final = struct.Struct(">bi")


def confluent_parser(
    registry: SchemaRegistry, reader: RegisteredSchema
) -> Callable[[Any, Any], tuple[Any, list[int]]]:
    """A parser of Avro or JSON values that say by which schema they were written."""
    if reader.schema.type is SchemaType.JSON:
        return _json
    target = parsed_schema(reader.schema.text)
    load_record = avro_loader(target)
    writers: dict[int, Any] = {}

    def load(value: bytes) -> Any:
        schema_id = _id_of(value)
        if schema_id not in writers:
            writers[schema_id] = _writer(registry, schema_id)
        if writers[schema_id] is None:
            raise ValueError(f"{schema_id} is the id of no Avro schema")
        return load_record(value[_PREFIX.size :], writers[schema_id], target)

    return lambda values, kind: one_by_one(values.to_pylist(), kind, load)


def _writer(registry: SchemaRegistry, schema_id: int) -> Any | None:
    """The schema of an id; None where there is none: any five bytes can look like an id."""
    try:
        return parsed_schema(registry.by_id(schema_id).schema.text)
    except ValueFormatError:
        return None


def _json(values: Any, kind: Any) -> tuple[Any, list[int]]:
    """JSON says itself what it is: the id is only looked at."""
    bodies = [value[_PREFIX.size :] if value[:1] == b"\0" else b"" for value in values.to_pylist()]
    return parse_json(pa.array(bodies, pa.binary()), kind)


def _id_of(value: bytes) -> int:
    if len(value) < _PREFIX.size or value[0] != 0:
        raise ValueError("no schema id in front")
    schema_id: int = _PREFIX.unpack_from(value)[1]
    return schema_id
