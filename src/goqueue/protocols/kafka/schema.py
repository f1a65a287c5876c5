"""What each version of each message looks like, taken from kio's tables and made plain.

kio describes every version of every message as a class of its own. Here they become `Schema`
values with Kafka's own field names (times end in `_ms` and are integers), from which `reading` and
`writing` derive their code. kio's native parser is not used on what clients send: it reserves
memory for as many elements as an array claims to have, and fifteen bytes are enough to make it
abort the process.

A version is imported when it is first used: a few milliseconds, once, instead of five seconds for
all of them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

from goqueue.protocols.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

Direction = Literal["request", "response"]

_LOADERS: Final = {"request": load_request_schema, "response": load_response_schema}
_TIMES: Final = ("timedelta_i32", "timedelta_i64", "datetime_i64")
_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": None,
    "bool": False,
    "float64": 0.0,
}

OWN_FROM: Final = 20_000
"""APIs of our own have numbers from here on, far from what Kafka may come to use, and no versions
but 0 so far."""

FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "bool": "?",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""Kinds of fixed width and their `struct` letters. Times are integers of milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of one version of a message."""

    name: str
    kind: str
    """kio's name of the type, or "struct"."""
    is_array: bool
    nullable: bool
    tag: int | None
    schema: Schema | None
    """Of a struct, or of an array's elements."""
    has_default: bool
    """The schema names a default, so an answer may leave the field out."""
    default: Any
    """The declared default; otherwise null where allowed, otherwise zero or empty."""

    @property
    def is_fixed(self) -> bool:
        """The field has the same width whatever its value."""
        return self.kind in FIXED and not self.is_array


@dataclass(frozen=True, eq=False)
class Schema:
    """One version of a message, or of a struct inside it."""

    api_key: int
    version: int
    direction: Direction
    path: tuple[str, ...]
    """The fields that lead from the message to this struct; empty for the message itself."""
    flexible: bool
    has_flexible_header: bool
    """Whether the header before this message carries tagged fields."""
    fields: tuple[Field, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The fields by their names."""
        return {field.name: field for field in self.fields}

    @property
    def label(self) -> str:
        """For messages to people."""
        name = api_key_map.get(self.api_key) or ApiKey(self.api_key).name.lower()
        where = ".".join((name, self.direction, *self.path))
        return f"{where} v{self.version}"

    def elsewhere(self, name: str) -> Field | None:
        """The field of this name in the newest other version that has it, if there is one.

        This is what tells "this version lacks the field" from a misspelt name.
        """
        return _field_of_any_version(self.api_key, self.direction, self.path, name)


def versions(api_key: int) -> range:
    """The versions of an API that there are schemas for."""
    if api_key >= OWN_FROM:
        return range(1)
    known = schema_name_map[api_key_map[api_key]]
    return range(min(known), max(known) + 1)


@cache
def schema_of(api_key: int, version: int, direction: Direction) -> Schema:
    """The schema of one message; loaded on first use, then kept."""
    if api_key >= OWN_FROM:
        from goqueue.protocols.kafka.own_schemas import own_schema  # noqa: PLC0415 - it needs us

        return own_schema(api_key, direction)
    entity: Any = _LOADERS[direction](api_key, version)
    return _convert(entity, (), api_key, direction)


@cache
def _field_of_any_version(
    api_key: int, direction: Direction, path: tuple[str, ...], name: str
) -> Field | None:
    for version in reversed(versions(api_key)):
        schema: Schema | None = schema_of(api_key, version, direction)
        for step in path:
            parent = schema.by_name.get(step) if schema else None
            schema = parent.schema if parent else None
        if schema and name in schema.by_name:
            return schema.by_name[name]
    return None


def _convert(entity: Any, path: tuple[str, ...], api_key: int, direction: Direction) -> Schema:
    return Schema(
        api_key=api_key,
        version=int(entity.__version__),
        direction=direction,
        path=path,
        flexible=entity.__flexible__,
        has_flexible_header=entity.__header_schema__.__flexible__,
        fields=tuple(
            _convert_field(field, path, api_key, direction) for field in dataclasses.fields(entity)
        ),
    )


def _convert_field(
    field: dataclasses.Field[Any], path: tuple[str, ...], api_key: int, direction: Direction
) -> Field:
    kind: str = field.metadata.get("kafka_type", "struct")
    name = f"{field.name}_ms" if kind in _TIMES else field.name
    inner, is_array, nullable = _unwrap(field.type)
    schema = _convert(inner, (*path, name), api_key, direction) if kind == "struct" else None
    return Field(
        name=name,
        kind=kind,
        is_array=is_array,
        nullable=nullable,
        tag=field.metadata.get("tag"),
        schema=schema,
        has_default=field.default is not dataclasses.MISSING,
        default=_default(field.default, kind, schema, is_array=is_array, nullable=nullable),
    )


def _unwrap(annotation: Any) -> tuple[Any, bool, bool]:
    """The innermost type of an annotation, whether it is an array, and whether it may be null."""
    nullable = NoneType in get_args(annotation)
    if nullable:
        annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
    if get_origin(annotation) is not tuple:
        return annotation, False, nullable
    inner = get_args(annotation)[0]
    if NoneType in get_args(inner):
        inner = next(kind for kind in get_args(inner) if kind is not NoneType)
    return inner, True, nullable


def _default(
    declared: Any, kind: str, schema: Schema | None, *, is_array: bool, nullable: bool
) -> Any:
    """A default of kio's as the plain value that handlers see, or what Kafka takes without one."""
    if isinstance(declared, timedelta):
        return declared // timedelta(milliseconds=1)
    # A struct's default is made of its fields' defaults; kio has no other.
    is_given = declared is not dataclasses.MISSING and not dataclasses.is_dataclass(declared)
    if is_given and declared is not None:
        return declared
    if is_array:
        return None if nullable else ()
    if kind == "datetime_i64":
        return -1 if nullable else 0
    if nullable:
        return None
    if schema is not None:
        return {field.name: field.default for field in schema.fields}
    return _ZEROS.get(kind, 0)
