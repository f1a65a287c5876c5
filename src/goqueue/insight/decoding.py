"""Stored values made readable through the schema registry, for people who look at messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import SchemaError
from goqueue.model.tuples import NamedTuple
from goqueue.schemas.decoded import DecodeFault
from goqueue.schemas.engine import Message
from goqueue.schemas.frames import Frame, FrameFault, frame_of, indexes_of
from goqueue.schemas.model import SchemaType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.records import Record
    from goqueue.schemas.registry import Registry
    from goqueue.schemas.service import Schemas

    Sees = Callable[[str], bool]
    """Whether a reader may see a subject."""

_MAX_DECODED_BYTES: Final = 256 * 1024
"""Larger values are not decoded: whoever wants them whole decodes them on their side."""


class Decoded(NamedTuple):
    """A value as its schema says it."""

    schema_id: int
    subject: str | None
    version: int | None
    format: str
    json: str


async def decode_values(
    schemas: Schemas, topic: str, records: Sequence[Record], sees: Sees
) -> list[Decoded | str | None]:
    """Of each message its value decoded, or why it cannot be, or None if it names no schema.

    Anybody may write the id of any schema into a message: one with no subject that the reader
    `sees` is as if it did not exist.
    """
    generation = schemas.registry.generation
    found = await _all_decoded(schemas, topic, records, sees)
    if any(isinstance(each, str) for each in found) and await schemas.has_changed(generation):
        found = await _all_decoded(schemas, topic, records, sees)
    return found


async def _all_decoded(
    schemas: Schemas, topic: str, records: Sequence[Record], sees: Sees
) -> list[Decoded | str | None]:
    if not schemas.registry.state.schemas:
        return [None] * len(records)
    return await schemas.ask(
        lambda registry: [_decoded(registry, topic, record, sees) for record in records]
    )


def _decoded(registry: Registry, topic: str, record: Record, sees: Sees) -> Decoded | str | None:
    value = record.value
    if value is None:
        return None
    try:
        frame = frame_of(value, record.headers)
        schema_id = _schema_id(registry, frame, sees)
        if schema_id is None:
            return None
        if len(value) > _MAX_DECODED_BYTES:
            return f"the value has {len(value)} bytes, up to {_MAX_DECODED_BYTES} are decoded"
        schema = registry.schema(schema_id)
        begin, indexes = frame.begin, [0]
        if schema.type is SchemaType.PROTOBUF and frame.indexes_at is not None:
            indexes, after = indexes_of(frame.in_header or value, frame.indexes_at)
            begin = frame.begin if frame.in_header else after
        text = registry.engine.decoded(registry.whole(schema_id), Message(value[begin:], indexes))
    except (DecodeFault, FrameFault, SchemaError, RecursionError) as error:
        return str(error) or "the value is nested too deeply"
    subject, version = _home(registry, topic, schema_id, sees)
    return Decoded(schema_id, subject, version, schema.type.value, text)


def _schema_id(registry: Registry, frame: Frame, sees: Sees) -> int | None:
    """The schema that a message names, if it is one of ours: any bytes may begin with a zero."""
    if frame.guid is not None:
        found = registry.state.guids.get(frame.guid)
        if found is None or not _seen_uses(registry, found, sees):
            raise DecodeFault(f"the registry has no schema {frame.guid}")
        return found
    named = frame.schema_id
    if named is not None and not _seen_uses(registry, named, sees):
        is_guess = frame.in_header is None and frame.begin > 0
        condition = "if it names a schema, then" if is_guess else "it names schema"
        raise DecodeFault(f"{condition} {named}, which is not registered")
    return named


def _seen_uses(registry: Registry, schema_id: int, sees: Sees) -> list[tuple[str, int]]:
    """The subjects and versions that have a schema, of those that the reader may see."""
    return [each for each in sorted(registry.state.uses.get(schema_id, ())) if sees(each[0])]


def _home(
    registry: Registry, topic: str, schema_id: int, sees: Sees
) -> tuple[str | None, int | None]:
    """A subject and version that have the schema: the topic's own, if it is among them."""
    uses = _seen_uses(registry, schema_id, sees)
    for own in (f"{topic}-value", topic):
        for subject, number in uses:
            if subject == own:
                return subject, number
    return uses[0] if uses else (None, None)
