"""From bytes to a `Struct`, by a reader derived from the schema. Unknown tagged fields are skipped.

Neighbouring fields of fixed width are read by one `struct` call; the rest by one closure each.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.primitives import NULL, Cursor, not_null
from goqueue.wire.kafka.schema import FIXED, Field, Schema
from goqueue.wire.kafka.schemas import field_of_any_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read: TypeAlias = Callable[[Cursor], Any]
    Step: TypeAlias = Callable[[Cursor, dict[str, Any]], None]


class Struct:
    """A message, or a struct inside it, with Kafka's field names as attributes.

    A field that the version asked for lacks has the default that Kafka gives it, so a handler
    never asks which version it serves. A name that no version has raises `AttributeError`.
    """

    __slots__ = ("__dict__", "_schema")

    _schema: Schema

    def __init__(self, schema: Schema, values: dict[str, Any]) -> None:
        object.__setattr__(self, "_schema", schema)
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        # Reached only when the version has no such field.
        found = None if name.startswith("_") else field_of_any_version(self._schema, name)
        if found is None:
            raise AttributeError(f"{self._schema.label} has no field {name!r}, in any version")
        return absent(found)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a request is read-only: {name} may not be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]  # it holds lists and views; nothing keys by it

    def __repr__(self) -> str:
        return f"<{self._schema.label} {self.as_dict()!r}>"

    def as_dict(self) -> dict[str, Any]:
        """The fields that this version has, with structs inside left as they are."""
        return self.__dict__

    def replaced(self, **values: Any) -> Struct:
        """The same with other values of some fields."""
        return Struct(self._schema, {**self.__dict__, **values})


def absent(field: Field) -> Any:
    """What a reader gives for a field that was not sent."""
    if field.schema is not None and isinstance(field.default, dict):
        return Struct(field.schema, {inner.name: absent(inner) for inner in field.schema.fields})
    return field.default


@cache
def reader_of(schema: Schema) -> Callable[[Cursor], Struct]:
    """A function that reads one struct of this schema at a cursor."""
    steps = list(_steps(schema))
    tagged = {field.tag: field for field in schema.fields if field.tag is not None}
    if schema.flexible:
        steps.append(_tags_step({tag: (f.name, _read_tagged(f)) for tag, f in tagged.items()}))

    def read(cursor: Cursor) -> Struct:
        values: dict[str, Any] = {}
        for field in tagged.values():
            values[field.name] = absent(field)
        for step in steps:
            step(cursor, values)
        return Struct(schema, values)

    return read


def _steps(schema: Schema) -> Iterator[Step]:
    for run in schema.runs():
        if run[0].is_fixed:
            yield _fixed_step(run)
        else:
            yield _single_step(run[0].name, _read_field(run[0], compact=schema.flexible))


def _fixed_step(run: list[Field]) -> Step:
    names = [field.name for field in run]
    layout = struct.Struct(">" + "".join(FIXED[field.kind] for field in run))

    def step(cursor: Cursor, values: dict[str, Any]) -> None:
        values.update(zip(names, cursor.unpack(layout), strict=True))

    return step


def _single_step(name: str, read: Read) -> Step:
    def step(cursor: Cursor, values: dict[str, Any]) -> None:
        values[name] = read(cursor)

    return step


def _tags_step(known: dict[int, tuple[str, Read]]) -> Step:
    def step(cursor: Cursor, values: dict[str, Any]) -> None:
        for _ in range(cursor.tag_count()):
            found = known.get(cursor.uvarint())
            size = cursor.uvarint()
            stop = cursor.position + size
            if found is None:
                cursor.view(size)
                continue
            name, read = found
            values[name] = read(cursor)
            if cursor.position != stop:
                raise MalformedRequestError(f"the tagged field {name} is not {size} bytes long")

    return step


def _read_tagged(field: Field) -> Read:
    # What is null is not sent, so a tagged field's bytes never say null by a marker of their own.
    if field.schema is not None and not field.is_array:
        return reader_of(field.schema)
    return _read_field(field, compact=True)


def _read_field(field: Field, *, compact: bool) -> Read:
    if not field.is_array:
        return _read_one(field, compact=compact, nullable=field.nullable)
    element = _read_one(field, compact=compact, nullable=False)
    nullable = field.nullable

    def read(cursor: Cursor) -> tuple[Any, ...] | None:
        length = cursor.array_length(compact=compact)
        if length == NULL:
            if nullable:
                return None
            not_null(length)
        return tuple([element(cursor) for _ in range(length)])

    return read


def _read_one(field: Field, *, compact: bool, nullable: bool) -> Read:
    if field.schema is not None:
        return _read_struct(field.schema, nullable=nullable)
    if field.kind in FIXED:
        layout = struct.Struct(">" + FIXED[field.kind])
        return lambda cursor: cursor.unpack(layout)[0]
    if field.kind == "uuid":
        return Cursor.uuid
    if field.kind == "string":
        return _read_string(compact=compact, nullable=nullable)
    return _read_blob(compact=compact, nullable=nullable, is_view=field.kind == "records")


def _read_struct(schema: Schema, *, nullable: bool) -> Read:
    read = reader_of(schema)
    if not nullable:
        return read

    def read_nullable(cursor: Cursor) -> Struct | None:
        return None if cursor.int8() < 0 else read(cursor)

    return read_nullable


def _read_string(*, compact: bool, nullable: bool) -> Read:
    if nullable:
        return lambda cursor: cursor.nullable_string(compact=compact)
    return lambda cursor: cursor.required_string(compact=compact)


def _read_blob(*, compact: bool, nullable: bool, is_view: bool) -> Read:
    def read(cursor: Cursor) -> bytes | memoryview | None:
        length = cursor.bytes_length(compact=compact)
        if length == NULL:
            if nullable:
                return None
            not_null(length)
        view = cursor.view(length)
        return view if is_view else bytes(view)

    return read
