"""What one version of a message looks like: its fields, their kinds and their defaults."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Direction = Literal["request", "response"]

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


class Field(msgspec.Struct, frozen=True, eq=False):
    """One field of one version of a message."""

    name: str
    kind: str
    """What `primitives` reads and writes, or "struct"."""
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


class Schema(msgspec.Struct, frozen=True, eq=False, dict=True):
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

    def runs(self) -> Iterator[list[Field]]:
        """The fields without tags: neighbours of fixed width together, every other one alone."""
        run: list[Field] = []
        for field in self.fields:
            if field.tag is not None:
                continue
            if field.is_fixed:
                run.append(field)
                continue
            if run:
                yield run
                run = []
            yield [field]
        if run:
            yield run

    @property
    def label(self) -> str:
        """For messages to people."""
        where = ".".join((ApiKey(self.api_key).name.lower(), self.direction, *self.path))
        return f"{where} v{self.version}"
