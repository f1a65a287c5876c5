"""Avro records as a struct column: one schema for all, or each value with the id of its own."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Final

import fastavro

from goqueue.spark.errors import ValueFormatError
from goqueue.spark.values.avro_unions import shaper_of
from goqueue.spark.values.json_values import one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable

_REFUSALS: Final = (EOFError, IndexError, KeyError, TypeError, fastavro.schema.SchemaParseException)
"""What fastavro raises on bytes that are something else, beside `ValueError`."""
_LOGICAL: Final = frozenset(
    {
        "date",
        "decimal",
        "local-timestamp-micros",
        "local-timestamp-millis",
        "timestamp-micros",
        "timestamp-millis",
    }
)
"""Logical types that columns have types for. Of others (`uuid`, times of day) a column holds what
is stored: a string, a number."""


def parsed_schema(text: str) -> Any:
    """A schema as fastavro wants it.

    Raises:
        ValueFormatError: the text is no Avro schema.
    """
    try:
        return fastavro.parse_schema(_as_stored(json.loads(text)))
    except (ValueError, fastavro.schema.SchemaParseException, KeyError, TypeError) as error:
        raise ValueFormatError(f"no Avro schema: {error}") from error


def _as_stored(schema: Any) -> Any:
    """The schema without the logical types that no column has."""
    if isinstance(schema, list):
        return [_as_stored(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"logicalType"} if schema.get("logicalType") not in _LOGICAL else set()
    return {
        name: _as_stored(each) if name in {"type", "items", "values", "fields"} else each
        for name, each in schema.items()
        if name not in left_out
    }


def avro_loader(reader: Any) -> Callable[[bytes, Any, Any], Any]:
    """What reads records into rows of the reader's schema; see `load_avro`."""
    shape = shaper_of(reader)
    if shape is None:
        return load_avro
    return lambda value, writer, target: shape(load_avro(value, writer, target, names_types=True))


def load_avro(value: bytes, writer: Any, reader: Any, *, names_types: bool = False) -> Any:
    """One record, written with one schema and read with another; for `names_types` see `shaper_of`.

    Raises:
        ValueError: the bytes are something else.
    """
    stream = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(stream, writer, reader, return_named_type=names_types)
    except _REFUSALS as error:
        raise ValueError(f"no Avro record: {error}") from error
    if stream.tell() != len(value):
        raise ValueError(f"{len(value) - stream.tell()} bytes behind the record")
    return found


def avro_parser(reader_text: str) -> Callable[[Any, Any], tuple[Any, list[int]]]:
    """A parser of bare Avro records, all of one schema."""
    schema = parsed_schema(reader_text)
    load = avro_loader(schema)

    def parse(values: Any, kind: Any) -> tuple[Any, list[int]]:
        return one_by_one(values.to_pylist(), kind, lambda value: load(value, schema, None))

    return parse
