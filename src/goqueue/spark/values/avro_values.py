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


def parsed_schema(text: str) -> Any:
    """A schema as fastavro wants it.

    Raises:
        ValueFormatError: the text is no Avro schema.
    """
    try:
        return fastavro.parse_schema(json.loads(text))
    except (ValueError, fastavro.schema.SchemaParseException, KeyError, TypeError) as error:
        raise ValueFormatError(f"no Avro schema: {error}") from error


def avro_loader(reader: Any) -> Callable[[bytes, Any, Any], Any]:
    """What reads records into rows of the reader's schema; see `load_avro`."""
    shape = shaper_of(reader)
    if shape is None:
        return load_avro
    return lambda value, writer, target: shape(load_avro(value, writer, target))


def load_avro(value: bytes, writer: Any, reader: Any) -> Any:
    """One record, written with one schema and read with another.

    Raises:
        ValueError: the bytes are something else.
    """
    stream = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(stream, writer, reader)
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
