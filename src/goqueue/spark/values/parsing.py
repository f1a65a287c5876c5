"""The parser of a task's values, and the type that they come in."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute

from goqueue.schemas.model import Schema, SchemaType
from goqueue.spark.errors import ValueFormatError
from goqueue.spark.http_client import Http
from goqueue.spark.values.avro_values import avro_loader, avro_parser, parsed_schema
from goqueue.spark.values.ddl import ddl_problem
from goqueue.spark.values.json_values import one_by_one, parse_json
from goqueue.spark.values.registry import RegisteredSchema, SchemaRegistry
from goqueue.spark.values.value_types import avro_type, json_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType

    from goqueue.spark.kafka.ranges import OffsetRange
    from goqueue.spark.options.read_options import ReadOptions, ValueOptions


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


_MAX_SHOWN: Final = 5
_TYPES: Final = {"json": SchemaType.JSON, "protobuf": SchemaType.PROTOBUF}


def value_type(options: ReadOptions) -> StructType | str:
    """The type of `value`, as Spark has it; a given DDL is left for Spark to read.

    Raises:
        ValueFormatError: there is no schema, or none that can be a column.
    """
    value = options.value
    if value.format == "json" and value.schema is not None and not _is_json(value.schema):
        problem = ddl_problem(value.schema)
        if problem is not None:
            raise ValueFormatError(f"valueSchema: {problem}")
        return f"struct<{value.schema}>"
    found = find_schema(options)
    kind, text = found.schema.type, found.schema.text
    if kind is SchemaType.PROTOBUF:
        from goqueue.spark.values import protobuf_values  # noqa: PLC0415 - few queries need it

        return protobuf_values.protobuf_type(protobuf_values.message_of(found, value.message))
    return json_type(text) if kind is SchemaType.JSON else avro_type(text)


def find_schema(options: ReadOptions) -> RegisteredSchema:
    """The schema that values are read by: the one given, or the newest of the subject.

    Raises:
        ValueFormatError: there is none.
    """
    value = options.value
    if value.schema is not None:
        kind = _TYPES.get(value.format, SchemaType.AVRO)
        return RegisteredSchema(Schema(kind, value.schema))
    return _registry(value).latest(_subject(options))


def _subject(options: ReadOptions) -> str:
    if options.value.subject is not None:
        return options.value.subject
    names = options.subscription.names or ()
    if len(names) != 1:
        raise ValueFormatError("valueSubject is needed: the query reads several topics")
    return f"{names[0]}-value"


def _registry(value: ValueOptions) -> SchemaRegistry:
    if value.registry_url is None:
        raise ValueFormatError("schema.registry.url is missing")
    return SchemaRegistry(Http(value.registry_url))


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{")


def parser_of(options: ReadOptions, kind: Any) -> Callable[[Any, OffsetRange, Any], Any]:
    """What makes an Arrow column of stored bytes; told the offsets, to name what is wrong."""
    parse = _parser(options)
    fails = options.value.fails

    def parse_column(values: Any, source: OffsetRange, offsets: Any) -> Any:
        present = pyarrow.compute.is_valid(values)
        rows = values.drop_null() if values.null_count else values
        found, bad = parse(rows, kind)
        if bad and fails:
            at = offsets.filter(present).take(pa.array(bad[:_MAX_SHOWN])).to_pylist()
            raise ValueFormatError(
                f"{len(bad)} values of {source.topic}-{source.partition} are no "
                f"{options.value.format} of the schema, the first at offsets {at}"
            )
        return _spread(found, present) if values.null_count else found

    return parse_column


def _spread(found: Any, present: Any) -> Any:
    """The rows where a value was, and nulls where none was."""
    places: list[int | None] = []
    count = 0
    for is_there in present.to_pylist():
        places.append(count if is_there else None)
        count += is_there
    return found.take(pa.array(places, pa.int64()))


def _parser(options: ReadOptions) -> Callable[[Any, Any], tuple[Any, list[int]]]:
    if options.value.format == "json":
        return parse_json
    schema = find_schema(options)
    if options.value.format == "avro":
        return avro_parser(schema.schema.text)
    if schema.schema.type is SchemaType.PROTOBUF:
        return _protobuf_parser(options, schema)
    return confluent_parser(_registry(options.value), schema)


def _protobuf_parser(
    options: ReadOptions, schema: RegisteredSchema
) -> Callable[[Any, Any], tuple[Any, list[int]]]:
    from goqueue.spark.values import protobuf_values  # noqa: PLC0415 - few queries need it

    message = protobuf_values.message_of(schema, options.value.message)
    if options.value.format == "protobuf":
        return protobuf_values.protobuf_parser(message)
    return protobuf_values.framed_protobuf_parser(_registry(options.value), message)
