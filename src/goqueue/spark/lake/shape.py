"""The columns of a table: what may be in it, how they grow, and what they are called in Arrow.

Columns are compared in Spark's types, which is what users see. Everything may be null: a file that
was written before a column came has none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.spark.errors import ColumnsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.spark.lake.address import TableFormat

_PLAIN: Final = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)
_PARTITION_TYPES: Final = (
    BooleanType,
    ByteType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)


def table_schema(
    schema: StructType, partition_by: Sequence[str], table_format: TableFormat
) -> StructType:
    """The columns of a write as those of a table.

    Raises:
        ColumnsError: with everything that is wrong.
    """
    problems = _name_problems(schema)
    fields = []
    for field in schema.fields:
        try:
            fields.append(StructField(field.name, _kept(field.dataType, table_format)))
        except TypeError as error:
            problems.append(f"{field.name} is {error}: no table can hold that, cast it")
    problems += _partition_problems(schema, partition_by)
    if problems:
        raise ColumnsError("\n".join(["these columns cannot be written:", *_listed(problems)]))
    return StructType(fields)


def merged_schema(existing: StructType, new: StructType) -> StructType:
    """The columns of a table once these rows are in it: new ones come last.

    Raises:
        ColumnsError: a column is of another type than before; all such columns are named.
    """
    by_name = {field.name.lower(): field for field in existing.fields}
    problems, added = [], []
    for field in new.fields:
        old = by_name.get(field.name.lower())
        if old is None:
            added.append(field)
        elif old.name != field.name:
            problems.append(f"{field.name} is called {old.name} in the table")
        elif old.dataType != field.dataType:
            problems.append(
                f"{field.name} is {field.dataType.simpleString()}, "
                f"and {old.dataType.simpleString()} in the table: cast it"
            )
    if problems:
        raise ColumnsError(
            "\n".join(["the table has other columns than these rows:", *_listed(problems)])
        )
    return StructType([*existing.fields, *added])


def check_partitions(existing: Sequence[str], wanted: Sequence[str] | None) -> None:
    """Nothing said is fine; something else is not."""
    if wanted is not None and tuple(wanted) != tuple(existing):
        there = f"partitioned by {', '.join(existing)}" if existing else "not partitioned"
        raise ColumnsError(
            f"partitionBy={','.join(wanted)}: the table is {there}, and stays so: leave the option "
            "out, or write to another folder"
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    """In Arrow: times in microseconds, those that are points in time in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the columns of a table: times in UTC; columns that they lack are null."""
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    columns: list[Any] = [
        batch.column(each.name).cast(each.type)
        if each.name in names
        else pa.nulls(batch.num_rows, each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def from_arrow(schema: pa.Schema, table_format: TableFormat) -> StructType:
    """The columns that a library tells in Arrow."""
    bare = pa.schema([pa.field(each.name, each.type) for each in schema])
    found = from_arrow_schema(bare, prefer_timestamp_ntz=True)
    return StructType(
        [StructField(each.name, _kept(each.dataType, table_format)) for each in found.fields]
    )


def without(schema: StructType, names: Iterable[str]) -> StructType:
    """The other columns."""
    left_out = set(names)
    return StructType([field for field in schema.fields if field.name not in left_out])


def _kept(kind: DataType, table_format: TableFormat) -> DataType:
    """The type in a table of this format; `TypeError` with its name if there is none."""
    if isinstance(kind, (ByteType, ShortType)) and table_format == "iceberg":
        return IntegerType()
    if isinstance(kind, StringType):
        return StringType()  # a collation, a length: none of the formats keeps them
    if isinstance(kind, ArrayType):
        return ArrayType(_kept(kind.elementType, table_format))
    if isinstance(kind, MapType):
        return MapType(_kept(kind.keyType, table_format), _kept(kind.valueType, table_format))
    if isinstance(kind, StructType) and kind.fields:
        return StructType(
            [StructField(each.name, _kept(each.dataType, table_format)) for each in kind.fields]
        )
    if isinstance(kind, _PLAIN):
        return kind
    raise TypeError(kind.simpleString())


def _name_problems(schema: StructType) -> list[str]:
    seen: dict[str, str] = {}
    problems = []
    for name in schema.names:
        if name.lower() in seen:
            problems.append(f"{name} is there twice, as {seen[name.lower()]} too")
        seen[name.lower()] = name
    return problems


def _partition_problems(schema: StructType, partition_by: Sequence[str]) -> list[str]:
    types: dict[str, Any] = {field.name: field.dataType for field in schema.fields}
    problems = []
    for name in partition_by:
        if name not in types:
            problems.append(
                f"partitionBy names {name}, which is no column; there are {', '.join(types)}"
            )
        elif not isinstance(types[name], _PARTITION_TYPES):
            problems.append(
                f"partitionBy names {name}, which is {types[name].simpleString()}: expected a "
                "string, a whole number, a boolean or a date"
            )
    if not set(types) - set(partition_by):
        problems.append("there is no column beside those of partitionBy")
    return problems


def _listed(problems: Iterable[str]) -> list[str]:
    return [f"  - {each}" for each in problems]
