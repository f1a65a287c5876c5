"""Which schema a message names, and where in it the message itself begins.

Confluent's serializers put a zero, the schema's id in four bytes and, for Protobuf, the place of
the message type in its file before the message. Or all of that goes into a header, which may also
hold the id that a schema has in every registry. Anyone else may write the id into a header as text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final
from uuid import UUID

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.records import Headers

ID_HEADER: Final = "schema-id"
"""Names the schema of the value, never that of the key."""
_ID_MAGIC: Final = 0
_GUID_MAGIC: Final = 1
_ID_BYTES: Final = 5
_GUID_BYTES: Final = 17
_MAX_INDEXES: Final = 100
"""How deep a message type may be nested in its file; a longer list is no list of indexes."""


class Part(StrEnum):
    """Of a message, each with a schema of its own."""

    KEY = "key"
    VALUE = "value"

    @property
    def header(self) -> str:
        """The header in which Confluent's serializers name its schema."""
        return f"__{self.value}_schema_id"


class Frame(NamedTuple):
    """What a message says of itself."""

    schema_id: int | None
    """None where the message names no schema."""
    guid: UUID | None = None
    indexes_at: int | None = None
    """Where the place of its type begins, if it is a Protobuf message and says so."""
    begin: int = 0
    """Where the message begins, unless there are indexes before it."""
    in_header: bytes | None = None
    """The header that names the schema, where the value does not."""


UNNAMED: Final = Frame(None)


class FrameFault(Exception):  # noqa: N818 - it never leaves this product
    """A message names its schema in a way that cannot be read."""


def frame_of(value: bytes, headers: Headers, part: Part = Part.VALUE) -> Frame:
    """Which schema the value of a message names, or its key.

    Raises:
        FrameFault: a header that should name it does not.
    """
    for name, content in headers:
        if name == ID_HEADER and part is Part.VALUE:
            return _named_in_text(content, value)
        if name == part.header and content:
            return _named_in_header(content, name)
    if len(value) >= _ID_BYTES and value[0] == _ID_MAGIC:
        return Frame(int.from_bytes(value[1:_ID_BYTES]), indexes_at=_ID_BYTES, begin=_ID_BYTES)
    return UNNAMED


def _named_in_text(content: bytes | None, value: bytes) -> Frame:
    text = (content or b"").decode("latin-1")
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise FrameFault(f"header {ID_HEADER!r} is {text[:40]!r}, expected a schema's id")
    schema_id = int(text)
    if len(value) >= _ID_BYTES and value[:_ID_BYTES] == b"\0" + schema_id.to_bytes(5)[1:]:
        return Frame(schema_id, indexes_at=_ID_BYTES, begin=_ID_BYTES)
    return Frame(schema_id)


def _named_in_header(content: bytes, name: str) -> Frame:
    if content[0] == _ID_MAGIC and len(content) >= _ID_BYTES:
        schema_id = int.from_bytes(content[1:_ID_BYTES])
        return Frame(schema_id, indexes_at=_ID_BYTES, in_header=content)
    if content[0] == _GUID_MAGIC and len(content) >= _GUID_BYTES:
        guid = UUID(bytes=content[1:_GUID_BYTES])
        return Frame(None, guid, indexes_at=_GUID_BYTES, in_header=content)
    raise FrameFault(f"header {name!r} names no schema")


def indexes_of(data: bytes, at: int) -> tuple[list[int], int]:
    """The place of a Protobuf message's type in its file, and where the message begins.

    Raises:
        FrameFault: there are no such indexes.
    """
    count, at = _zigzag(data, at)
    if count == 0:
        return [0], at
    if not 0 < count <= _MAX_INDEXES:
        raise FrameFault(f"{count} message indexes after the schema id")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        indexes.append(index)
    return indexes, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    result = 0
    for number, byte in enumerate(data[at : at + 5]):
        result |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at + number + 1
    raise FrameFault("no message indexes after the schema id")
