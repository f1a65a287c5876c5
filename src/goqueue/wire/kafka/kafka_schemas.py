"""Kafka's own messages, out of `messages.txt`.

A line of the file is a message: the API's number and name, the direction, the first and the last
version, the first version that is flexible and the first whose header is (-1: none), and the
fields with the versions that they are in. The file is made from kio's classes, which are what a
test holds the schemas against; it is read when a message is first looked up, and a line of it when
that message is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.schema import Direction, Field, Schema

_FILE: Final = Path(__file__).with_name("messages.txt")
_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": None,
    "bool": False,
    "float64": 0.0,
}


class _Line(NamedTuple):
    """One message, in all its versions."""

    versions: range
    flexible_from: int
    flexible_header_from: int
    fields: str
    """As JSON."""


class _Stored(msgspec.Struct, frozen=True, rename={"first": "from", "last": "to"}):
    """One field, the same in some of the versions."""

    name: str
    kind: str
    first: int
    last: int
    array: bool = False
    nullable: bool = False
    tag: int | None = None
    default: int | str | bool | tuple[()] | msgspec.UnsetType | None = msgspec.UNSET
    """Null stands for the defaults of a struct's fields too."""
    fields: tuple[_Stored, ...] = ()


def kafka_versions(api_key: int) -> range:
    """The versions of an API of Kafka's."""
    return _lines()[api_key, "request"].versions


def kafka_schema(api_key: int, version: int, direction: Direction) -> Schema:
    """The schema of one message of Kafka's.

    Raises:
        KeyError: there is no such message, or not in this version.
    """
    line = _lines()[api_key, direction]
    if version not in line.versions:
        raise KeyError(f"{direction} {api_key} has no version {version}")
    fields = _fields_of(api_key, direction)
    return _Schemas(api_key, version, direction, line).schema((), fields)


@cache
def _lines() -> dict[tuple[int, str], _Line]:
    lines = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines()[1:]:
        key, _, direction, first, last, flexible, header, fields = line.split(" ", 7)
        versions = range(int(first), int(last) + 1)
        lines[int(key), direction] = _Line(versions, int(flexible), int(header), fields)
    return lines


@cache
def _fields_of(api_key: int, direction: Direction) -> tuple[_Stored, ...]:
    return msgspec.json.decode(_lines()[api_key, direction].fields, type=tuple[_Stored, ...])


class _Schemas(NamedTuple):
    """Makes the schemas of one version of a message and of the structs inside it."""

    api_key: int
    version: int
    direction: Direction
    line: _Line

    def schema(self, path: tuple[str, ...], fields: tuple[_Stored, ...]) -> Schema:
        return Schema(
            api_key=self.api_key,
            version=self.version,
            direction=self.direction,
            path=path,
            flexible=0 <= self.line.flexible_from <= self.version,
            has_flexible_header=0 <= self.line.flexible_header_from <= self.version,
            fields=tuple(
                self._field(path, each)
                for each in fields
                if each.first <= self.version <= each.last
            ),
        )

    def _field(self, path: tuple[str, ...], stored: _Stored) -> Field:
        schema = None
        if stored.kind == "struct":
            schema = self.schema((*path, stored.name), stored.fields)
        return Field(
            name=stored.name,
            kind=stored.kind,
            is_array=stored.array,
            nullable=stored.nullable,
            tag=stored.tag,
            schema=schema,
            has_default=stored.default is not msgspec.UNSET,
            default=_default(stored, schema),
        )


def _default(stored: _Stored, schema: Schema | None) -> Any:
    """The default that is declared, or what Kafka takes without one."""
    if stored.default is not msgspec.UNSET and stored.default is not None:
        return stored.default
    if stored.array:
        return None if stored.nullable else ()
    if stored.kind == "datetime_i64":
        return -1 if stored.nullable else 0
    if stored.nullable:
        return None
    if schema is not None:
        return {field.name: field.default for field in schema.fields}
    return _ZEROS.get(stored.kind, 0)
