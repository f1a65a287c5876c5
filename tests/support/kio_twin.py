"""kio as the independent twin: random messages of every version, in kio's own encoding."""

from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer

from goqueue.wire.kafka.own_fields import FIRST_TAG
from goqueue.wire.kafka.reading import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

LOADERS = {"request": load_request_schema, "response": load_response_schema}
WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")


def every_message() -> Iterator[tuple[int, int, str]]:
    for key, name in api_key_map.items():
        for version, kinds in schema_name_map[name].items():
            for direction in ("request", "response"):
                if any(kind.name == direction for kind in kinds):
                    yield key, version, direction


def random_message(rng: Random, key: int, version: int, direction: str) -> Any:
    return random_entity(rng, LOADERS[direction](key, version))


def kio_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def random_entity(rng: Random, entity: Any) -> Any:
    return entity(**{f.name: random_field(rng, f) for f in dataclasses.fields(entity)})


def random_field(rng: Random, field: dataclasses.Field[Any]) -> Any:
    kind = field.metadata.get("kafka_type", "struct")
    is_tagged = "tag" in field.metadata
    if is_tagged and field.default is not dataclasses.MISSING and rng.random() < 0.5:
        return field.default
    annotation, nullable = unwrap_optional(field.type)
    # kio cannot write a null that is tagged and not the default.
    if nullable and not is_tagged and rng.random() < 0.3:
        return None
    if get_origin(annotation) is tuple:
        inner, _ = unwrap_optional(get_args(annotation)[0])
        return tuple(random_value(rng, kind, inner) for _ in range(rng.randrange(4)))
    return random_value(rng, kind, annotation)


def unwrap_optional(annotation: Any) -> tuple[Any, bool]:
    args = get_args(annotation)
    if NoneType not in args:
        return annotation, False
    return next(arg for arg in args if arg is not NoneType), True


def random_value(rng: Random, kind: str, annotation: Any) -> Any:
    if kind == "struct":
        return random_entity(rng, annotation)
    if kind in WIDTHS:
        bits = rng.randrange(1, WIDTHS[kind])
        return rng.randrange(-(1 << bits), 1 << bits)
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 5, 130, 20_000)))
    made: dict[str, Callable[[], Any]] = {
        "uint16": lambda: rng.randrange(1 << 16),
        "float64": rng.random,
        "bool": lambda: rng.random() < 0.5,
        "string": lambda: "".join(rng.choices("abc-é漢😀", k=rng.choice((0, 1, 7, 200)))),
        "uuid": lambda: UUID(int=rng.getrandbits(128) | 1),
        "error_code": lambda: rng.choice(list(ErrorCode)),
        "timedelta_i32": lambda: timedelta(milliseconds=rng.randrange(-1, 1 << 31)),
        "timedelta_i64": lambda: timedelta(milliseconds=rng.randrange(-1, 1 << 40)),
        "datetime_i64": lambda: datetime.fromtimestamp(rng.randrange(1 << 31), UTC),
    }
    return made[kind]()


def plain(value: Any, *, is_time: bool = False) -> Any:
    """A kio value as our codec shows it: dictionaries, plain numbers, times in milliseconds."""
    if dataclasses.is_dataclass(value):
        return {
            f.name + ("_ms" if f.metadata.get("kafka_type") in TIMES else ""): plain(
                getattr(value, f.name), is_time=f.metadata.get("kafka_type") in TIMES
            )
            for f in dataclasses.fields(value)
        }
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if is_time and value is None:
        return -1
    return value


def unstruct(value: Any) -> Any:
    """The same of a `Struct` of ours, without our own fields, which kio never sends."""
    if isinstance(value, Struct):
        own = {each.name for each in value._schema.fields if (each.tag or 0) >= FIRST_TAG}
        assert not any(value.as_dict()[name] for name in own)
        return {k: unstruct(inner) for k, inner in value.as_dict().items() if k not in own}
    if isinstance(value, tuple):
        return [unstruct(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value
