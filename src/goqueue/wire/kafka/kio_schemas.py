"""Kafka's own messages: kio's tables, made plain.

kio describes every version of every message as a class of its own. Here they become `Schema`
values with Kafka's own field names (times end in `_ms` and are integers), from which `reading` and
`writing` derive their code. kio's native parser is not used on what arrives: it reserves memory for
as many elements as an array claims to have, and fifteen bytes are enough to make it abort the
process.

A version is imported when it is first used: a few milliseconds, once, instead of five seconds for
all of them.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from types import NoneType
from typing import Any, Final, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

from goqueue.wire.kafka.schema import Direction, Field, Schema

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


def kio_versions(api_key: int) -> range:
    """The versions of an API of Kafka's that kio has tables for."""
    known = schema_name_map[api_key_map[api_key]]
    return range(min(known), max(known) + 1)


def kio_schema(api_key: int, version: int, direction: Direction) -> Schema:
    """The schema of one message of Kafka's."""
    entity: Any = _LOADERS[direction](api_key, version)
    return _convert(entity, (), api_key, direction)


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
