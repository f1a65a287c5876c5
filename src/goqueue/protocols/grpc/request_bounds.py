"""How many elements a request may hold, looked at before it is parsed.

Parsing makes an object of 40 bytes and more of every element, however few bytes it has: 2 million
empty messages fit into the 4 MB of a request, cost 230 MB and hold the event loop for 300 ms.

Almost every request is let through by its size, or by how often the byte occurs that elements of
repeated fields begin with, which is never less than there are elements. Only where that byte is
frequent (many elements, or values of random bytes) the fields are walked over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from goqueue.model.limits import MAX_PUBLISHED_MESSAGES
from goqueue.protocols.grpc.errors import InvalidRequestError
from goqueue.protocols.grpc.limits import MAX_ELEMENTS

if TYPE_CHECKING:
    from goqueue.runtime.tasks import Turns


_MAX_IN_ONE: Final = MAX_PUBLISHED_MESSAGES
"""The same for those of one message: messages of a request, headers of a message. Requests of up to
`MAX_ELEMENTS` are parsed without a look at this, since that is quick."""

_QUICK_BYTES: Final = 512 * 1024
"""Requests of this size are parsed at once, in a millisecond; larger ones have to wait for a turn
of the event loop."""
_STEPS_A_TURN: Final = 5000
"""Fields: some milliseconds."""
_LEAST_ELEMENT_BYTES: Final = 2
_MORE: Final = 0x80
_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
_MAX_VARINT_BYTES: Final = 10

_M = TypeVar("_M", bound=Message)


class _Shape:
    """What a walk has to know of a kind of message."""

    def __init__(self) -> None:
        self.repeated: set[int] = set()
        """The numbers of its repeated fields."""
        self.packed: set[int] = set()
        """Those of numbers, which may stand in a row behind one tag."""
        self.nested: dict[int, _Shape] = {}
        """The fields that are messages with repeated fields, or hold some."""

    @property
    def is_flat(self) -> bool:
        return not (self.repeated or self.nested)


_Shapes: TypeAlias = "dict[str, _Shape]"


def _shape_of(kind: Any, known: _Shapes) -> _Shape:
    """Of a descriptor; there are two classes of them, which share nothing but their methods."""
    if kind.full_name in known:
        return known[kind.full_name]
    shape = known[kind.full_name] = _Shape()
    for field in kind.fields:
        if field.is_repeated:
            shape.repeated.add(field.number)
            if field.is_packed:
                shape.packed.add(field.number)
        if field.message_type is not None:
            nested = _shape_of(field.message_type, known)
            if not nested.is_flat:
                shape.nested[field.number] = nested
    return shape


class BoundedParser(Generic[_M]):
    """Parses the requests of one method."""

    def __init__(self, kind: type[_M], turns: Turns) -> None:
        self._kind = kind
        self._turns = turns
        known: _Shapes = {}
        self._shape = _shape_of(kind.DESCRIPTOR, known)
        tags = {
            number << 3 & 0x7F | _DELIMITED for shape in known.values() for number in shape.repeated
        }
        # A tag may also be written with more bytes than it needs, or need two.
        self._first_bytes = [bytes([tag | more]) for tag in tags for more in (0, _MORE)]
        has_packed = any(shape.packed for shape in known.values())
        least_bytes = 1 if has_packed else _LEAST_ELEMENT_BYTES
        self._unchecked_bytes = MAX_ELEMENTS * least_bytes
        self._has_packed = has_packed

    def parse_quickly(self, data: bytes) -> _M | None:
        """The request, or None when that may take long: then `parse` does it in turns.

        Raises:
            InvalidRequestError: the bytes are not the message that the method takes.
        """
        if len(data) <= self._unchecked_bytes or (
            len(data) <= _QUICK_BYTES and self._surely_has_few(data)
        ):
            return self._parse(data)
        return None

    def _surely_has_few(self, data: bytes) -> bool:
        """No more elements than are allowed, whatever the bytes mean."""
        return not self._has_packed and sum(map(data.count, self._first_bytes)) <= MAX_ELEMENTS

    async def parse(self, data: bytes) -> _M:
        """The request, however long it takes to look at.

        Raises:
            InvalidRequestError: it has too many elements, or it is not what the method takes.
        """
        async with self._turns.turn():
            is_over = self._surely_has_few(data)
        walk = Walk(data, self._shape)
        while not is_over:
            async with self._turns.turn():
                is_over = walk.advance(_STEPS_A_TURN)
        async with self._turns.turn():
            return self._parse(data)

    def _parse(self, data: bytes) -> _M:
        try:
            return self._kind.FromString(data)
        except DecodeError as error:
            name = self._kind.DESCRIPTOR.full_name
            raise InvalidRequestError(
                f"the request is not a {name}: {error}; send one of the contract's version 1"
            ) from error


class Walk:
    """Counts elements by walking over the fields that can hold some.

    What is damaged is left to the parser, which stops there as well.
    """

    def __init__(self, data: bytes, shape: _Shape) -> None:
        self._data = data
        self._waiting = [(0, len(data), shape, 0)]
        """Messages to be walked over: where they begin and end, and their elements so far."""
        self.element_count = 0

    def advance(self, steps: int) -> bool:
        """Walk over so many fields; says whether that was all.

        Raises:
            InvalidRequestError: there are more elements than a request may have.
        """
        while self._waiting and steps > 0:
            steps = self._advance_in(*self._waiting.pop(), steps)
        return not self._waiting

    def _advance_in(self, at: int, end: int, shape: _Shape, count: int, steps: int) -> int:
        """Walk over fields of one message; how many steps are left."""
        data, repeated, nested = self._data, shape.repeated, shape.nested
        before = count
        while at < end and steps:
            steps -= 1
            tag, at = (data[at], at + 1) if data[at] < _MORE else _varint(data, at)
            number, kind, size = tag >> 3, tag & 7, 0
            if kind == _DELIMITED:
                size, at = _varint(data, at)
            elif kind == 0:
                _, at = _varint(data, at)
            else:
                at += _FIXED_BYTES.get(kind, end)
            if number in repeated:
                count += size if kind == _DELIMITED and number in shape.packed else 1
                if count > _MAX_IN_ONE:
                    break
            if size and number in nested:
                self._waiting.append((at, min(at + size, end), nested[number], 0))
            at += size
        self.element_count += count - before
        if count > _MAX_IN_ONE or self.element_count > MAX_ELEMENTS:
            raise InvalidRequestError(
                f"the request has more than {_MAX_IN_ONE} elements in one field, or {MAX_ELEMENTS} "
                "in all (messages, headers, offsets): send several smaller ones; nothing of this "
                "one was done"
            )
        if at < end:
            self._waiting.append((at, end, shape, count))
        return steps


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; one that is cut off ends with the data."""
    if at < len(data) and data[at] < _MORE:
        return data[at], at + 1
    value = shift = 0
    for byte in data[at : at + _MAX_VARINT_BYTES]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, at
        shift += 7
    return value, len(data)


def parser_of(method: Any, turns: Turns) -> BoundedParser[Any]:
    """The parser of a method, of which gRPC knows the function that parses its message."""
    return BoundedParser(method.__self__, turns)
