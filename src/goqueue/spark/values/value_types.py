"""From a schema to the Spark type of its values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.spark.errors import ValueFormatError
from goqueue.spark.values.avro_values import parsed_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

_AVRO: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
}
_AVRO_LOGICAL: Final[Mapping[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
}
_NARROW: Final[Mapping[str, DataType]] = {"long": IntegerType(), "double": FloatType()}
"""What a column of the wider type holds as well."""
_JSON: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "integer": LongType(),
    "number": DoubleType(),
    "string": StringType(),
}
_IN_JSON: Final = (
    BooleanType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    StringType,
    DateType,
    DecimalType,
    TimestampType,
)


def avro_type(text: str) -> StructType:
    """The type of the records of an Avro schema.

    Raises:
        ValueFormatError: it is no schema, no record, or has what a column cannot hold.
    """
    found = _avro(parsed_schema(text), {})
    if not isinstance(found, StructType):
        raise ValueFormatError("the Avro schema is no record")
    return found


def _avro(schema: Any, named: dict[str, DataType]) -> DataType:
    if isinstance(schema, list):
        return _avro_union([each for each in schema if each != "null"], named)
    if isinstance(schema, str):
        found = _AVRO.get(schema) or named.get(schema)
        if found is None:
            raise ValueFormatError(f"the Avro type {schema!r} is not known here")
        return found
    return _avro_logical(schema) or _avro_complex(schema, named)


def _avro_union(branches: list[Any], named: dict[str, DataType]) -> DataType:
    """One type or none: a column of it. Several: a struct with a field for each, as Spark's own."""
    kinds = [_avro(each, named) for each in branches]
    if not kinds:
        raise ValueFormatError("a union of nothing but null cannot be a column")
    if len(kinds) == 1:
        return kinds[0]
    for wide in (LongType(), DoubleType()):
        if wide in kinds and all(each in (wide, _NARROW[wide.typeName()]) for each in kinds):
            return wide
    return StructType([StructField(f"member{at}", kind) for at, kind in enumerate(kinds)])


def _avro_logical(schema: Any) -> DataType | None:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    return _AVRO_LOGICAL.get(logical)


def _avro_complex(schema: Any, named: dict[str, DataType]) -> DataType:
    kind = schema.get("type")
    if kind == "record":
        return _avro_record(schema, named)
    if kind == "array":
        return ArrayType(_avro(schema["items"], named))
    if kind == "map":
        return MapType(StringType(), _avro(schema["values"], named))
    found = _avro(kind, named)
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _avro_record(schema: Any, named: dict[str, DataType]) -> StructType:
    fields = [StructField(each["name"], _avro(each["type"], named)) for each in schema["fields"]]
    named[schema["name"]] = record = StructType(fields)
    return record


def json_type(text: str) -> StructType:
    """The type of the objects that a JSON Schema describes; what it leaves open is a string.

    Raises:
        ValueFormatError: it describes no objects.
    """
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise ValueFormatError(f"no JSON Schema: {error}") from error
    found = _json(tree)
    if not isinstance(found, StructType):
        raise ValueFormatError("the JSON Schema describes no object with properties")
    return found


def _json(schema: Any) -> DataType:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "object" and schema.get("properties"):
        properties = schema["properties"].items()
        return StructType([StructField(name, _json(each)) for name, each in properties])
    if kind == "array" and "items" in schema:
        return ArrayType(_json(schema["items"]))
    if kind is not None and kind in _JSON:
        return _JSON[kind]
    raise ValueFormatError(
        f"{json.dumps(schema)[:100]} cannot be a column: give valueSchema with the fields wanted"
    )


def check_json_type(kind: DataType, name: str = "value") -> None:
    """Refuse types that JSON has no values of, and no strings that mean one.

    Raises:
        ValueFormatError: with the field.
    """
    if isinstance(kind, StructType):
        for field in kind.fields:
            check_json_type(field.dataType, f"{name}.{field.name}")
    elif isinstance(kind, ArrayType):
        check_json_type(kind.elementType, f"{name}[]")
    elif not isinstance(kind, _IN_JSON):
        raise ValueFormatError(
            f"{name} cannot be {kind.simpleString()} in JSON: make it a string, and cast it"
        )
