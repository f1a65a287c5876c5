"""Which schema a message is to be held against: the one it names, or the latest of its subject.

The subject of a topic's values is `{topic}-value`, as Confluent's serializers call it, or where
that has no version the topic's own name; that of its keys is `{topic}-key`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.model.tuples import NamedTuple
from goqueue.schemas.engine import Message
from goqueue.schemas.frames import Frame, Part, frame_of, indexes_of
from goqueue.schemas.model import SchemaType
from goqueue.topics.setting_table import SchemaValidation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.records import Headers
    from goqueue.schemas.registry import Registry
    from goqueue.schemas.state import RegistryState
    from goqueue.topics.catalogue import Topic


class Checkable(Protocol):
    """A message: one that is stored, or on its way to it."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Headers:
        """Its headers."""


class Subject(NamedTuple):
    """What the keys or the values of a topic are held against."""

    part: Part
    name: str
    latest_id: int | None
    """None where the subject has no version."""
    ids: frozenset[int]
    """The schemas that may be named."""
    needs_id: bool
    """Each message must name one of them."""


class Misnamed(Exception):  # noqa: N818 - it never leaves the broker
    """A message does not name a schema that it may have."""


def subjects_of(registry: Registry, topic: Topic) -> list[Subject]:
    """What the messages of a topic are held against; nothing where all of them are taken."""
    wanted = {
        Part.KEY: topic.settings.key_schema_validation,
        Part.VALUE: topic.settings.schema_validation,
    }
    found = [
        _subject(registry.state, topic.name, part, needs_id=validation is SchemaValidation.ID)
        for part, validation in wanted.items()
        if validation is not SchemaValidation.NONE
    ]
    return [each for each in found if each.latest_id is not None or each.needs_id]


def _subject(state: RegistryState, topic: str, part: Part, *, needs_id: bool) -> Subject:
    own = f"{topic}-{part}"
    for name in (own, topic) if part is Part.VALUE else (own,):
        living = [each for each in state.subjects.get(name, {}).values() if not each.is_deleted]
        if living:
            ids = frozenset(each.schema_id for each in living)
            return Subject(part, name, living[-1].schema_id, ids, needs_id)
    return Subject(part, own, None, frozenset(), needs_id)


def named_by(
    state: RegistryState, subject: Subject, message: Checkable
) -> tuple[int, Message] | None:
    """The schema that a message is to be held against, and what of it; None where all fit.

    Raises:
        Misnamed, FrameFault: it names none that it may have.
    """
    data = message.key if subject.part is Part.KEY else message.value
    if data is None:
        return None  # a tombstone, or a message without a key
    frame = frame_of(data, message.headers, subject.part)
    schema_id = frame.schema_id
    if frame.guid is not None:
        schema_id = state.guids.get(frame.guid, -1)
    if schema_id is None:
        if subject.needs_id or subject.latest_id is None:
            raise Misnamed(f"the {subject.part} names no schema: no id before it, none in a header")
        return subject.latest_id, Message(data)
    if schema_id in subject.ids:
        return schema_id, _unframed(state, schema_id, frame, data)
    if subject.latest_id is not None and _may_be_bare(state, subject, frame, schema_id):
        return subject.latest_id, Message(data)
    raise Misnamed(f"schema {frame.guid or schema_id} is not one of subject {subject.name!r}")


def _unframed(state: RegistryState, schema_id: int, frame: Frame, data: bytes) -> Message:
    indexes: Sequence[int] = (0,)
    begin = frame.begin
    if state.schemas[schema_id].type is SchemaType.PROTOBUF and frame.indexes_at is not None:
        indexes, after = indexes_of(frame.in_header or data, frame.indexes_at)
        begin = frame.begin if frame.in_header else after
    return Message(data[begin:] if begin else data, indexes)


def _may_be_bare(state: RegistryState, subject: Subject, frame: Frame, schema_id: int) -> bool:
    """An Avro message without an id may begin with a zero, too. Others never do."""
    is_guess = frame.in_header is None and frame.begin > 0
    if subject.needs_id or not is_guess or schema_id in state.schemas:
        return False
    latest = state.schemas.get(subject.latest_id or 0)
    return latest is not None and latest.type is SchemaType.AVRO
