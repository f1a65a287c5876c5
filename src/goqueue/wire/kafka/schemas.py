"""Every message by its API, version and direction: Kafka's from kio's tables, and our own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from goqueue.wire.kafka.kio_schemas import kio_schema, kio_versions
from goqueue.wire.kafka.own_schemas import own_schema

if TYPE_CHECKING:
    from goqueue.wire.kafka.schema import Direction, Field, Schema

OWN_FROM: Final = 20_000
"""APIs of our own have numbers from here on, far from what Kafka may come to use, and no versions
but 0 so far."""


def versions(api_key: int) -> range:
    """The versions of an API that there are schemas for."""
    return range(1) if api_key >= OWN_FROM else kio_versions(api_key)


@cache
def schema_of(api_key: int, version: int, direction: Direction) -> Schema:
    """The schema of one message; loaded on first use, then kept."""
    if api_key >= OWN_FROM:
        return own_schema(api_key, direction)
    return kio_schema(api_key, version, direction)


def field_of_any_version(schema: Schema, name: str) -> Field | None:
    """The field of this name in the newest version of a message that has it, if there is one.

    This is what tells "this version lacks the field" from a misspelt name.
    """
    return _find_field(schema.api_key, schema.direction, schema.path, name)


@cache
def _find_field(
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
