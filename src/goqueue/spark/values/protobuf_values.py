"""Protobuf messages as a struct column: bare ones of one type, or each with its schema's id.

Fields that a message may leave out (of proto3's `optional`, of a `oneof`, other messages) are null
where it does; the others have their default values, as every reader of Protobuf has it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.model.errors import InvalidSchemaError
from goqueue.schemas.frames import FrameFault, indexes_of
from goqueue.schemas.protobuf.schema import ProtobufSchema
from goqueue.spark.errors import ValueFormatError
from goqueue.spark.values.json_values import one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from goqueue.spark.values.registry import RegisteredSchema, SchemaRegistry

_F = FieldDescriptor
_UNSIGNED_LONG: Final = DecimalType(20, 0)
_SCALARS: Final[Mapping[int, DataType]] = {
    _F.TYPE_DOUBLE: DoubleType(),
    _F.TYPE_FLOAT: FloatType(),
    _F.TYPE_INT32: IntegerType(),
    _F.TYPE_SINT32: IntegerType(),
    _F.TYPE_SFIXED32: IntegerType(),
    _F.TYPE_INT64: LongType(),
    _F.TYPE_SINT64: LongType(),
    _F.TYPE_SFIXED64: LongType(),
    _F.TYPE_UINT32: LongType(),
    _F.TYPE_FIXED32: LongType(),
    _F.TYPE_UINT64: _UNSIGNED_LONG,
    _F.TYPE_FIXED64: _UNSIGNED_LONG,
    _F.TYPE_BOOL: BooleanType(),
    _F.TYPE_STRING: StringType(),
    _F.TYPE_BYTES: BinaryType(),
    _F.TYPE_ENUM: StringType(),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def message_of(schema: RegisteredSchema, name: str | None) -> Descriptor:
    """The type of message to read: the one of this name, or the first of the file.

    Raises:
        ValueFormatError: the schema does not parse, or has no such message.
    """
    file = _parsed(schema).file
    messages = list(_messages(file.message_types_by_name.values()))
    if not messages:
        raise ValueFormatError("the Protobuf schema has no message")
    if name is None:
        return messages[0]
    for each in messages:
        if name in {each.name, each.full_name}:
            return each
    known = ", ".join(each.full_name for each in messages)
    raise ValueFormatError(f"the Protobuf schema has no message {name!r}; it has {known}")


def _messages(found: Iterable[Any]) -> Iterable[Descriptor]:
    for each in found:
        if not each.GetOptions().map_entry:
            yield each
            yield from _messages(each.nested_types)


def _parsed(schema: RegisteredSchema) -> ProtobufSchema:
    try:
        return ProtobufSchema(schema.schema.text, schema.dependencies)
    except InvalidSchemaError as error:
        raise ValueFormatError(f"no Protobuf schema: {error}") from error


# --- The type ------------------------------------------------------------------------------------


def protobuf_type(message: Descriptor, inside: tuple[str, ...] = ()) -> StructType:
    """The type of a message's rows.

    Raises:
        ValueFormatError: it holds itself, which no column can.
    """
    if message.full_name in inside:
        path = " > ".join((*inside, message.full_name))
        raise ValueFormatError(f"a message that holds itself cannot be a column: {path}")
    inside = (*inside, message.full_name)
    return StructType([StructField(each.name, _field(each, inside)) for each in message.fields])


def _field(field: Any, inside: tuple[str, ...]) -> DataType:
    if _is_map(field):
        names = field.message_type.fields_by_name
        return MapType(_single(names["key"], inside), _single(names["value"], inside))
    kind = _single(field, inside)
    return ArrayType(kind) if field.is_repeated else kind


def _single(field: Any, inside: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return _SCALARS[field.type]
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return TimestampType()
    if name in _WRAPPERS:
        return _SCALARS[field.message_type.fields_by_name["value"].type]
    return protobuf_type(field.message_type, inside)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# --- The rows ------------------------------------------------------------------------------------


def protobuf_parser(message: Descriptor) -> Callable[[Any, Any], tuple[Any, list[int]]]:
    """A parser of bare messages of one type."""
    load = _loader(message)
    return lambda values, kind: one_by_one(values.to_pylist(), kind, load)


def framed_protobuf_parser(
    registry: SchemaRegistry, message: Descriptor
) -> Callable[[Any, Any], tuple[Any, list[int]]]:
    """A parser of messages behind a schema's id and the place of their type in it.

    The wire format carries the numbers of fields, so a message of any version is read by the type
    asked for. One of another type is none of these.
    """
    load_body = _loader(message)
    names: dict[tuple[int, tuple[int, ...]], str | None] = {}

    def load(value: bytes) -> Any:
        if len(value) < 6 or value[0] != 0:
            raise ValueError("no schema id in front")
        try:
            indexes, begin = indexes_of(value, 5)
        except FrameFault as error:
            raise ValueError(str(error)) from error
        written = int.from_bytes(value[1:5]), tuple(indexes)
        if written not in names:
            names[written] = _name_at(registry, *written)
        if names[written] != message.full_name:
            raise ValueError(f"a {names[written] or 'nothing known'}, not a {message.full_name}")
        return load_body(value[begin:])

    return lambda values, kind: one_by_one(values.to_pylist(), kind, load)


def _name_at(registry: SchemaRegistry, schema_id: int, indexes: tuple[int, ...]) -> str | None:
    """The message at a place in the schema of an id; None where there is none."""
    try:
        inside: Any = list(_parsed(registry.by_id(schema_id)).file.message_types_by_name.values())
    except ValueFormatError:
        return None
    found: Any = None
    for index in indexes:
        if not 0 <= index < len(inside):
            return None
        found = inside[index]
        inside = found.nested_types
    return None if found is None else str(found.full_name)


def _loader(message: Descriptor) -> Callable[[bytes], Any]:
    kind = message_factory.GetMessageClass(message)

    def load(value: bytes) -> Any:
        try:
            return _row(kind.FromString(value))
        except (DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"no {message.full_name}: {error}") from error

    return load


def _row(message: Any) -> dict[str, Any]:
    return {each.name: _value(message, each) for each in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        held = field.message_type.fields_by_name["value"]
        return [(key, _plain(each, held)) for key, each in value.items()]
    if field.is_repeated:
        return [_plain(each, field) for each in value]
    return _plain(value, field)


def _plain(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is None:
        return value
    if field.message_type.full_name == _TIMESTAMP:
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if field.message_type.full_name in _WRAPPERS:
        return value.value
    return _row(value)
