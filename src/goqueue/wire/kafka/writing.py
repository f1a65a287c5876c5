"""From a tree of plain values to bytes, for whatever version was asked.

A handler answers with dictionaries that use Kafka's field names: integers for error codes and for
times in milliseconds, None for a missing id. The writer

- leaves out the fields that the version lacks, and refuses names that no version has;
- fills in what the handler left out: the declared default, zero for the throttle time and the error
  code, null where allowed; and, in a struct that carries an error, zero or empty for the rest.

Anything else left out is a `SchemaMismatchError`: a forgotten field is a bug, not a zero.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.wire.kafka.errors import SchemaMismatchError
from goqueue.wire.kafka.primitives import NULL, put_length, put_string, put_uuid, put_uvarint
from goqueue.wire.kafka.reading import Struct
from goqueue.wire.kafka.schema import FIXED, Field, Schema
from goqueue.wire.kafka.schemas import field_of_any_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Fields: TypeAlias = Mapping[str, Any]
    Write: TypeAlias = Callable[[bytearray, Any], None]
    Step: TypeAlias = Callable[[bytearray, Fields], None]

_MISSING: Final = object()
_ALWAYS_OPTIONAL: Final = frozenset({"throttle_time_ms", "error_code"})
_MAX_SHAPES: Final = 64
"""Sets of names remembered as checked, for each schema. Beyond it they are checked every time."""


@cache
def writer_of(schema: Schema) -> Callable[[bytearray, Fields | Struct], None]:
    """A function that appends one struct of this schema to a buffer."""
    steps = [_step(schema, run) for run in schema.runs()]
    if schema.flexible:
        steps.append(tags_writer_of(schema))
    checked: set[tuple[str, ...]] = set()

    def write(out: bytearray, value: Fields | Struct) -> None:
        fields = value.as_dict() if isinstance(value, Struct) else value
        shape = tuple(fields)
        if shape not in checked:
            _check_names(schema, shape)
            if len(checked) < _MAX_SHAPES:
                checked.add(shape)
        for step in steps:
            step(out, fields)

    return write


@cache
def sliced_writer_of(schema: Schema) -> Callable[[bytearray, Fields], Iterator[None]]:
    """The same as a generator that stops after each struct of an array, at every depth."""
    steps: list[tuple[Step, Field | None]] = [
        (_step(schema, run), run[0] if _is_struct_array(run[0]) else None) for run in schema.runs()
    ]
    if schema.flexible:
        steps.append((tags_writer_of(schema), None))

    def write(out: bytearray, fields: Fields) -> Iterator[None]:
        _check_names(schema, tuple(fields))
        for step, array in steps:
            elements = None if array is None else fields.get(array.name)
            if array is None or elements is None:
                step(out, fields)
                continue
            put_length(out, len(elements), compact=schema.flexible)
            for element in elements:
                yield from _sliced_element(array, out, element)
                yield

    return write


def _is_struct_array(field: Field) -> bool:
    return field.is_array and field.schema is not None


def _sliced_element(array: Field, out: bytearray, element: Any) -> Iterator[None]:
    assert array.schema is not None
    if isinstance(element, dict) and any(_is_struct_array(f) for f in array.schema.fields):
        yield from sliced_writer_of(array.schema)(out, element)
    else:
        writer_of(array.schema)(out, element)


def _check_names(schema: Schema, shape: tuple[str, ...]) -> None:
    for name in shape:
        if name not in schema.by_name and field_of_any_version(schema, name) is None:
            raise SchemaMismatchError(f"{schema.label} has no field {name!r}, in any version")


def _left_out(schema: Schema, field: Field, fields: Fields) -> Any:
    if (
        field.has_default
        or field.nullable
        or field.name in _ALWAYS_OPTIONAL
        or fields.get("error_code")
    ):
        return field.default
    raise SchemaMismatchError(f"{schema.label}: the field {field.name!r} was left out")


def _step(schema: Schema, run: list[Field]) -> Step:
    return _fixed_step(schema, run) if run[0].is_fixed else _single_step(schema, run[0])


def _fixed_step(schema: Schema, run: list[Field]) -> Step:
    names = [field.name for field in run]
    layout = struct.Struct(">" + "".join(FIXED[field.kind] for field in run))

    def step(out: bytearray, fields: Fields) -> None:
        try:
            values = [fields[name] for name in names]
        except KeyError:
            values = [
                fields[field.name] if field.name in fields else _left_out(schema, field, fields)
                for field in run
            ]
        try:
            out += layout.pack(*values)
        except struct.error as error:
            given = dict(zip(names, values, strict=True))
            raise SchemaMismatchError(f"{schema.label}: {given} does not fit: {error}") from error

    return step


def _single_step(schema: Schema, field: Field) -> Step:
    name, write = field.name, _write_field(schema, field, compact=schema.flexible)

    def step(out: bytearray, fields: Fields) -> None:
        value = fields.get(name, _MISSING)
        write(out, _left_out(schema, field, fields) if value is _MISSING else value)

    return step


@cache
def tags_writer_of(schema: Schema) -> Step:
    """A function that appends the tagged fields of a struct that differ from their defaults."""
    tagged = [field for field in schema.fields if field.tag is not None]
    if not tagged:
        return lambda out, _fields: out.append(0)
    writers = [
        (field, _write_tagged(field)) for field in sorted(tagged, key=lambda field: field.tag or 0)
    ]

    def step(out: bytearray, fields: Fields) -> None:
        count, body = 0, bytearray()
        for field, write in writers:
            value = fields.get(field.name)
            if value is None or is_default(field, value):
                continue
            content = bytearray()
            write(content, value)
            put_uvarint(body, field.tag or 0)
            put_uvarint(body, len(content))
            body += content
            count += 1
        put_uvarint(out, count)
        out += body

    return step


def is_default(field: Field, value: Any) -> bool:
    """Whether a tagged field says nothing new, so that it is not sent."""
    if field.is_array:
        return field.default is not None and len(value) == len(field.default) == 0
    if field.schema is None or not isinstance(field.default, dict):
        return bool(value == field.default)
    fields = value.as_dict() if isinstance(value, Struct) else value
    return all(
        is_default(inner, fields[inner.name])
        for inner in field.schema.fields
        if inner.name in fields
    )


def _write_tagged(field: Field) -> Write:
    if field.schema is not None and not field.is_array:
        return writer_of(field.schema)
    return _write_value(field, compact=True)


def _write_field(schema: Schema, field: Field, *, compact: bool) -> Write:
    """A writer that knows null: written where it is allowed, a handler's bug where not."""
    write = _write_value(field, compact=compact)
    if field.kind == "uuid" and not field.is_array:
        return write
    null = _null_of(field, compact=compact) if field.nullable else None
    is_struct = field.kind == "struct" and not field.is_array

    def write_or_null(out: bytearray, value: Any) -> None:
        if value is None:
            if null is None:
                raise SchemaMismatchError(f"{schema.label}: {field.name} may not be null")
            out += null
            return
        if is_struct and null is not None:
            out.append(1)
        write(out, value)

    return write_or_null


def _null_of(field: Field, *, compact: bool) -> bytes:
    out = bytearray()
    if field.is_array or field.kind in ("bytes", "records"):
        put_length(out, NULL, compact=compact)
    elif field.kind == "string":
        put_string(out, None, compact=compact)
    else:
        out += b"\xff"
    return bytes(out)


def _write_value(field: Field, *, compact: bool) -> Write:
    one = _write_one(field, compact=compact)
    if not field.is_array:
        return one

    def write(out: bytearray, values: Any) -> None:
        put_length(out, len(values), compact=compact)
        for value in values:
            one(out, value)

    return write


def _write_one(field: Field, *, compact: bool) -> Write:
    if field.schema is not None:
        return writer_of(field.schema)
    if field.kind in FIXED:
        layout = struct.Struct(">" + FIXED[field.kind])

        def write_fixed(out: bytearray, value: Any) -> None:
            out += layout.pack(value)

        return write_fixed
    if field.kind == "uuid":
        return put_uuid
    if field.kind == "string":
        return lambda out, value: put_string(out, value, compact=compact)

    def write_blob(out: bytearray, value: Any) -> None:
        put_length(out, len(value), compact=compact)
        out += value

    return write_blob
