"""Kafka's primitive types: a cursor that reads them out of untrusted bytes, and their writers.

Nothing here trusts a length. A string, a blob or an array that claims more than is left raises
before anything is allocated, and the array elements and tagged fields of one request share a bound:
a hundred megabytes of two-byte elements must not become fifteen gigabytes of objects.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias
from uuid import UUID

from goqueue.wire.kafka.errors import (
    MalformedRequestError,
    TooManyElementsError,
    TruncatedRequestError,
)
from goqueue.wire.kafka.limits import MAX_ELEMENTS, MAX_STRING_BYTES

Buffer: TypeAlias = bytes | bytearray | memoryview


NULL: Final = -1
_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ZERO_UUID: Final = bytes(16)
_MAX_VARINT_SHIFT: Final = 28


class Cursor:
    """A place in the bytes of one request. Every method reads one value and moves on."""

    __slots__ = ("buffer", "elements_left", "end", "position")

    def __init__(self, buffer: memoryview, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        self.end = len(buffer)
        self.elements_left = MAX_ELEMENTS
        """How many more array elements and tagged fields may be read."""

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Fields of fixed width, all in one go."""
        start = self.position
        stop = start + layout.size
        if stop > self.end:
            raise TruncatedRequestError(
                f"{layout.size} bytes expected at byte {start}, {self.end - start} are left"
            )
        self.position = stop
        return layout.unpack_from(self.buffer, start)

    def view(self, size: int) -> memoryview:
        """The next `size` bytes, not copied."""
        start = self.position
        stop = start + size
        if stop > self.end:
            raise TruncatedRequestError(
                f"{size} bytes expected at byte {start}, {self.end - start} are left"
            )
        self.position = stop
        return self.buffer[start:stop]

    def int8(self) -> int:
        """A signed byte."""
        return self.unpack(_INT8)[0]  # type: ignore[no-any-return]  # what struct gives for "b"

    def int16(self) -> int:
        """Two bytes, signed."""
        return self.unpack(_INT16)[0]  # type: ignore[no-any-return]  # what struct gives for "h"

    def int32(self) -> int:
        """Four bytes, signed."""
        return self.unpack(_INT32)[0]  # type: ignore[no-any-return]  # what struct gives for "i"

    def uvarint(self) -> int:
        """An unsigned number in groups of seven bits, at most 32 bits of it."""
        position, value, shift = self.position, 0, 0
        while position < self.end:
            byte = self.buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > _MAX_VARINT_SHIFT:
                raise MalformedRequestError(f"a varint before byte {position} has no end")
        else:
            raise TruncatedRequestError(f"a varint runs over the end at byte {position}")
        if value > 0xFFFF_FFFF:
            raise MalformedRequestError(f"a varint before byte {position} is over 32 bits")
        self.position = position
        return value

    def string(self, size: int) -> str:
        """`size` bytes of UTF-8."""
        if size > MAX_STRING_BYTES:
            raise MalformedRequestError(
                f"a string of {size} bytes before byte {self.position}; at most "
                f"{MAX_STRING_BYTES} are accepted"
            )
        try:
            return str(self.view(size), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequestError(
                f"the string before byte {self.position} is not UTF-8"
            ) from error

    def uuid(self) -> UUID | None:
        """An id; all zeros means none."""
        raw = bytes(self.view(16))
        return None if raw == _ZERO_UUID else UUID(bytes=raw)

    # --- Lengths: -1 is null, in both of Kafka's encodings ---------------------------------------

    def string_length(self, *, compact: bool) -> int:
        """Of a string: an int16, or (compact) a varint that is one more."""
        return self._checked(self.uvarint() - 1 if compact else self.int16())

    def bytes_length(self, *, compact: bool) -> int:
        """Of a blob: an int32, or (compact) a varint that is one more."""
        return self._checked(self.uvarint() - 1 if compact else self.int32())

    def array_length(self, *, compact: bool) -> int:
        """Of an array; counted against the bound that all arrays of a request share."""
        length = self._checked(self.uvarint() - 1 if compact else self.int32())
        if length > 0:
            self._count(length)
        return length

    def tag_count(self) -> int:
        """How many tagged fields follow; counted against the same bound as array elements."""
        count = self._checked(self.uvarint())
        if count:
            self._count(count)
        return count

    def _count(self, elements: int) -> None:
        self.elements_left -= elements
        if self.elements_left < 0:
            raise TooManyElementsError(
                f"{-self.elements_left} array elements or tagged fields more than are accepted"
            )

    def _checked(self, length: int) -> int:
        """Every element takes a byte or more, so no honest length is larger than what is left."""
        if length < NULL:
            raise MalformedRequestError(f"length {length} before byte {self.position}")
        if length > self.end - self.position:
            raise TruncatedRequestError(
                f"{length} bytes or elements claimed at byte {self.position}, "
                f"{self.end - self.position} bytes are left"
            )
        return length

    # --- Whole values that the hand-written parsers share --------------------------------------

    def nullable_string(self, *, compact: bool) -> str | None:
        """A string that may be null."""
        length = self.string_length(compact=compact)
        return None if length == NULL else self.string(length)

    def required_string(self, *, compact: bool) -> str:
        """A string that may not."""
        return self.string(not_null(self.string_length(compact=compact)))

    def required_array_length(self, *, compact: bool) -> int:
        """The length of an array that may not be null."""
        return not_null(self.array_length(compact=compact))

    def skip_tags(self) -> None:
        """Tagged fields, known or not: stepped over."""
        position = self.position
        if position < self.end and not self.buffer[position]:  # as a rule there are none
            self.position = position + 1
            return
        for _ in range(self.tag_count()):
            self.uvarint()
            self.view(self.uvarint())


def not_null(length: int) -> int:
    """The length, unless it says null."""
    if length == NULL:
        raise MalformedRequestError("null where the schema has none")
    return length


def put_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_length(out: bytearray, length: int, *, compact: bool) -> None:
    """Append the length of an array or a blob; -1 for null."""
    if compact:
        put_uvarint(out, length + 1)
    else:
        out += _INT32.pack(length)


def put_string(out: bytearray, value: str | None, *, compact: bool) -> None:
    """Append a string or null."""
    if value is None:
        out += b"\0" if compact else b"\xff\xff"
        return
    raw = value.encode()
    if compact:
        put_uvarint(out, len(raw) + 1)
    else:
        out += _INT16.pack(len(raw))
    out += raw


def put_uuid(out: bytearray, value: UUID | None) -> None:
    """Append an id; none is all zeros."""
    out += _ZERO_UUID if value is None else value.bytes
