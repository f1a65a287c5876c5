"""Where in a Protobuf message the trouble is. Asked once the library has refused a message.

Walks the bytes of the wire as the schema says; what the schema does not know is trouble, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf import descriptor_pb2 as pb

from goqueue.schemas.decoded import MisfitAt

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_Type = pb.FieldDescriptorProto
_VARINT, _FIXED64, _BYTES, _START, _END, _FIXED32 = range(6)
_NAMES: Final = ("a varint", "64 bits", "bytes", "a group", "the end of a group", "32 bits")
_WIRE: Final[dict[int, int]] = {
    _Type.TYPE_DOUBLE: _FIXED64,
    _Type.TYPE_FIXED64: _FIXED64,
    _Type.TYPE_SFIXED64: _FIXED64,
    _Type.TYPE_FLOAT: _FIXED32,
    _Type.TYPE_FIXED32: _FIXED32,
    _Type.TYPE_SFIXED32: _FIXED32,
    _Type.TYPE_STRING: _BYTES,
    _Type.TYPE_BYTES: _BYTES,
    _Type.TYPE_MESSAGE: _BYTES,
    _Type.TYPE_GROUP: _START,
}
_MAX_DEPTH: Final = 100
_VARINT_BYTES: Final = 10


def fault_in(message: Descriptor, data: bytes) -> str | None:
    """What is wrong with a message and where; None when nothing is."""
    try:
        _message(message, data, "", 0)
    except MisfitAt as fault:
        return str(fault)
    return None


def _message(message: Descriptor, data: bytes, path: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise MisfitAt(path, f"nested deeper than {_MAX_DEPTH}")
    at = 0
    seen: set[int] = set()
    while at < len(data):
        tag, at = _varint(data, at, path)
        number, wire = tag >> 3, tag & 7
        field = message.fields_by_number.get(number)
        if number == 0 or wire > _FIXED32 or wire == _END:
            raise MisfitAt(path, f"byte {at - 1} begins no field: these are no Protobuf bytes")
        if field is None:
            raise MisfitAt(path, f"field number {number} is not in {message.full_name}")
        seen.add(number)
        place = f"{path}/{field.name}"
        _check_wire(field, wire, place)
        content, at = _content(wire, data, at, place)
        if field.message_type is not None and wire == _BYTES:
            _message(field.message_type, content, place, depth + 1)
        elif field.type == _Type.TYPE_STRING:
            _check_text(content, place)
    for field in message.fields:
        if field.is_required and field.number not in seen:
            raise MisfitAt(f"{path}/{field.name}", "required, and not there")


def _check_wire(field: FieldDescriptor, wire: int, path: str) -> None:
    expected = _WIRE.get(field.type, _VARINT)
    packed = wire == _BYTES and field.is_repeated and expected in {_VARINT, _FIXED64, _FIXED32}
    if wire != expected and not packed:
        raise MisfitAt(path, f"{_NAMES[wire]} where {_NAMES[expected]} belong")


def _content(wire: int, data: bytes, at: int, path: str) -> tuple[bytes, int]:
    """The bytes of a value, and where the next one begins."""
    if wire == _VARINT:
        return b"", _varint(data, at, path)[1]
    if wire == _START:
        return b"", len(data)  # groups are rare: what is in one, and behind it, is not looked at
    if wire == _BYTES:
        length, at = _varint(data, at, path)
    else:
        length = 8 if wire == _FIXED64 else 4
    if at + length > len(data):
        raise MisfitAt(path, f"needs {length} bytes, and {len(data) - at} are left")
    return data[at : at + length], at + length


def _check_text(content: bytes, path: str) -> None:
    try:
        content.decode()
    except UnicodeDecodeError:
        raise MisfitAt(path, "a string that is not UTF-8") from None


def _varint(data: bytes, at: int, path: str) -> tuple[int, int]:
    result = 0
    for number in range(_VARINT_BYTES):
        if at >= len(data):
            raise MisfitAt(path, "the bytes end within a number")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return result, at
    raise MisfitAt(path, "a number that does not end")
