"""The columns that a query gets: checked against what a topic has, and as Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.spark.errors import ColumnsError
from goqueue.spark.reading.columns import ARROW_TYPES, SPARK_TYPES, default_columns
from goqueue.spark.wording import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.spark.options.read_options import ReadOptions

_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
    "priority": StringType(),
    "rawValue": BinaryType(),
}
_ALWAYS_THERE: Final = frozenset(
    {"topic", "partition", "offset", "timestamp", "timestamptype", "priority"}
)
_BY_LOWER_NAME: Final = {name.lower(): name for name in _TYPES}


@dataclass(frozen=True)
class Shape:
    """What rows look like; travels to the tasks."""

    columns: tuple[str, ...]
    """Which of our columns each field is; a schema may write their names in another case."""
    schema: pa.Schema

    def value_parser(self, options: ReadOptions) -> Callable[..., Any] | None:
        """What makes `value` of stored bytes; None where they stay bytes."""
        if options.value.format == "binary" or "value" not in self.columns:
            return None
        from goqueue.spark.values.parsing import parser_of  # noqa: PLC0415 - few queries need it

        return parser_of(options, self.schema.field(self.columns.index("value")).type)


def default_schema(options: ReadOptions) -> StructType | str:
    """What a query sees that names no schema: all columns, or those of the option `columns`.

    Raises:
        ColumnsError: a topic has no such column.
        ValueFormatError: the type of its values cannot be found.
    """
    names = _known(options.columns or default_columns(include_headers=options.include_headers))
    value: DataType | str = _TYPES["value"]
    if options.value.format != "binary" and "value" in names:
        from goqueue.spark.values.parsing import value_type  # noqa: PLC0415 - as above

        value = value_type(options)
    if isinstance(value, str):
        types = SPARK_TYPES | {"value": value}
        return ", ".join(f"{name} {types[name]}" for name in names)
    fields = _TYPES | {"value": value}
    return StructType([StructField(name, fields[name]) for name in names])


def shape_of(schema: StructType, options: ReadOptions) -> Shape:
    """The shape for a schema that a query names, or that we named ourselves.

    Raises:
        ColumnsError: it has columns that a topic has not, or other types; says all of them.
        ValueFormatError: values cannot be of the type that it says.
    """
    columns = _known(schema.names)
    problems = []
    fields = []
    for column, field in zip(columns, schema.fields, strict=True):
        kind: Any = ARROW_TYPES[column]
        if column == "value" and options.value.format != "binary":
            kind = _parsed_type(field.dataType, options)
        elif field.dataType.simpleString() != _TYPES[column].simpleString():
            problems.append(
                f"{field.name} is {SPARK_TYPES[column]}, not {field.dataType.simpleString()}"
            )
        fields.append(pa.field(field.name, kind, field.nullable))
    if problems:
        raise ColumnsError(f"{'; '.join(problems)}. Cast in the query, not in the schema")
    required = [name for name in _required(schema) if name.lower() not in _ALWAYS_THERE]
    if required:
        raise ColumnsError(
            f"NOT NULL: messages may lack {', '.join(required)}. Filter in the query, not in the "
            "schema"
        )
    return Shape(tuple(columns), pa.schema(fields))


def _parsed_type(kind: DataType, options: ReadOptions) -> Any:
    """The Arrow type of parsed values."""
    if not isinstance(kind, StructType):
        raise ColumnsError(f"with valueFormat={options.value.format} value is a struct")
    if options.value.format == "json":
        from goqueue.spark.values.value_types import check_json_type  # noqa: PLC0415 - as above

        check_json_type(kind)
    return to_arrow_type(kind, timezone="UTC")


def _required(kind: DataType, name: str = "") -> Iterator[str]:
    """What a type says is never null; Spark does not look twice, and ends the query at a null."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            path = f"{name}.{field.name}" if name else field.name
            if not field.nullable:
                yield path
            yield from _required(field.dataType, path)
    elif isinstance(kind, ArrayType):
        if not kind.containsNull:
            yield f"{name}[]"
        yield from _required(kind.elementType, f"{name}[]")
    elif isinstance(kind, MapType):
        if not kind.valueContainsNull:
            yield f"{name}{{}}"
        yield from _required(kind.valueType, f"{name}{{}}")


def _known(names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name.lower() not in _BY_LOWER_NAME]
    if unknown:
        said = ", ".join(f"{name}{nearest(name, _TYPES)}" for name in unknown)
        raise ColumnsError(f"a topic has no column {said}; it has {', '.join(_TYPES)}")
    return [_BY_LOWER_NAME[name.lower()] for name in names]
