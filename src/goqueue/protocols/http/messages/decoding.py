"""Values decoded by the schema registry, beside the messages that are read."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from goqueue.insight.decoding import decode_values
from goqueue.protocols.http.api.rights import TOPIC_DESCRIBE
from goqueue.protocols.http.messages.message_shapes import DecodedOut, MessageOut
from goqueue.schemas.contexts import topic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.protocols.permissions import Permissions
    from goqueue.records import Record
    from goqueue.schemas.service import Schemas

_MAX_ERROR_CHARS: Final = 1000
"""A longer reason why a value cannot be decoded is cut."""

_Shown = TypeVar("_Shown", bound=MessageOut)


class _Stored(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def record(self) -> Record: ...


def sees_subject(may: Permissions) -> Callable[[str], bool]:
    """Tells whether a client may see a subject."""
    return lambda subject: may.allows(TOPIC_DESCRIBE, topic_of(subject))


async def decoded_by_schema(
    schemas: Schemas, may: Permissions, found: Sequence[_Stored], shown: list[_Shown]
) -> list[_Shown]:
    """The same messages, each with its value as JSON or with why that cannot be had.

    A value that names no schema gets neither.
    """
    sees = sees_subject(may)
    pairs = list(zip(found, shown, strict=True))
    for topic, group in groupby(pairs, lambda pair: pair[0].topic):
        some = list(group)
        values = await decode_values(schemas, topic, [stored.record for stored, _ in some], sees)
        for (_, message), value in zip(some, values, strict=True):
            if isinstance(value, str):
                message.decode_error = value[:_MAX_ERROR_CHARS]
            elif value is not None:
                message.decoded = DecodedOut(*value)
    return shown
