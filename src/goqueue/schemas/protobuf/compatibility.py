"""Whether data of one Protobuf schema can be read with another, by Confluent's rules.

Fields are known by their numbers. What is written the same way on the wire may be exchanged; a name
may change freely; a message that others may use may not go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf import descriptor_pb2 as pb

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

_Type = pb.FieldDescriptorProto
_NUMBER: Final = "a number"
_GROUPS: Final[dict[int, str]] = {
    _Type.TYPE_INT32: _NUMBER,
    _Type.TYPE_INT64: _NUMBER,
    _Type.TYPE_UINT32: _NUMBER,
    _Type.TYPE_UINT64: _NUMBER,
    _Type.TYPE_BOOL: _NUMBER,
    _Type.TYPE_ENUM: _NUMBER,
    _Type.TYPE_SINT32: "a signed number",
    _Type.TYPE_SINT64: "a signed number",
    _Type.TYPE_STRING: "text or bytes",
    _Type.TYPE_BYTES: "text or bytes",
    _Type.TYPE_FIXED32: "fixed32",
    _Type.TYPE_SFIXED32: "fixed32",
    _Type.TYPE_FIXED64: "fixed64",
    _Type.TYPE_SFIXED64: "fixed64",
    _Type.TYPE_FLOAT: "float",
    _Type.TYPE_DOUBLE: "double",
}
"""Types that look the same on the wire, and mean the same there."""


class _Kind(NamedTuple):
    """What a field is, as far as a reader has to care."""

    what: str
    is_scalar: bool


def unreadable(reader: FileDescriptor, writer: FileDescriptor) -> list[str]:
    """Why a reader would not understand a writer; nothing where it does."""
    diff = _Diff()
    diff.messages(dict(writer.message_types_by_name), dict(reader.message_types_by_name), "#")
    return diff.problems


class _Diff:
    """Compares an old schema with a new one."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._seen: set[tuple[str, str]] = set()

    def messages(self, old: dict[str, Descriptor], new: dict[str, Descriptor], path: str) -> None:
        for name, before in old.items():
            place = f"{path}/{name}"
            after = new.get(name)
            if after is not None:
                self._message(before, after, place)
            elif not before.GetOptions().map_entry:
                self.problems.append(f"MESSAGE_REMOVED at {place}")

    def _message(self, old: Descriptor, new: Descriptor, path: str) -> None:
        if (old.full_name, new.full_name) in self._seen:
            return
        self._seen.add((old.full_name, new.full_name))
        self._oneofs(old, new, path)
        before, after = dict(old.fields_by_number), dict(new.fields_by_number)
        for number in sorted({*before, *after}):
            self._field(before.get(number), after.get(number), f"{path}/{number}")
        self.messages(dict(old.nested_types_by_name), dict(new.nested_types_by_name), path)

    def _oneofs(self, old: Descriptor, new: Descriptor, path: str) -> None:
        before = {each.number: _oneof(each) for each in old.fields}
        after = {each.number: _oneof(each) for each in new.fields}
        names = {each for each in after.values() if each is not None}
        for name in sorted(names):
            members = [number for number, each in after.items() if each == name]
            moved = [number for number in members if number in before and before[number] is None]
            stayed = [number for number in members if before.get(number) is not None]
            if len(moved) > 1:
                self.problems.append(f"MULTIPLE_FIELDS_MOVED_TO_ONEOF at {path}/{name}")
            elif moved and stayed:
                self.problems.append(f"FIELD_MOVED_TO_EXISTING_ONEOF at {path}/{name}")
        self.problems += [
            f"ONEOF_FIELD_REMOVED at {path}/{name}/{number}"
            for number, name in before.items()
            if name in names and number not in after
        ]

    def _field(self, old: FieldDescriptor | None, new: FieldDescriptor | None, path: str) -> None:
        if new is None:
            if old is not None and old.is_required:
                self.problems.append(f"REQUIRED_FIELD_REMOVED at {path}")
        elif old is None:
            if new.is_required:
                self.problems.append(f"REQUIRED_FIELD_ADDED at {path}")
        else:
            self._types(old, new, path)
            before, after = _kind(old), _kind(new)
            is_number = before.is_scalar and before.what != _GROUPS[_Type.TYPE_STRING]
            if before == after and is_number and old.is_repeated != new.is_repeated:
                self.problems.append(f"FIELD_NUMERIC_LABEL_CHANGED at {path}")

    def _types(self, old: FieldDescriptor, new: FieldDescriptor, path: str) -> None:
        before, after = _kind(old), _kind(new)
        mine, yours = old.message_type, new.message_type
        if mine is None and yours is None:
            if before.what != after.what:
                change = f"{before.what} became {after.what}"
                self.problems.append(f"FIELD_SCALAR_KIND_CHANGED at {path}: {change}")
        elif mine is None or yours is None or before.what != after.what:
            change = f"{before.what} became {after.what}"
            self.problems.append(f"FIELD_KIND_CHANGED at {path}: {change}")
        elif before.what == "a map":
            for name in ("key", "value"):
                self._types(mine.fields_by_name[name], yours.fields_by_name[name], path)
        elif _local(mine) != _local(yours):
            self.problems.append(f"FIELD_NAMED_TYPE_CHANGED at {path}")
        else:
            self._message(mine, yours, f"{path}({_local(yours)})")


def _kind(field: FieldDescriptor) -> _Kind:
    if field.message_type is None:
        return _Kind(_GROUPS[field.type], is_scalar=True)
    if field.message_type.GetOptions().map_entry:
        return _Kind("a map", is_scalar=False)
    if field.type == _Type.TYPE_GROUP:
        return _Kind("a delimited message", is_scalar=False)
    return _Kind("a message", is_scalar=False)


def _oneof(field: FieldDescriptor) -> str | None:
    """The oneof that somebody wrote around a field."""
    oneof = field.containing_oneof
    if oneof is None or (len(oneof.fields) == 1 and oneof.name.lstrip("X") == f"_{field.name}"):
        return None
    return str(oneof.name)


def _local(message: Descriptor) -> str:
    """A message's name without its package."""
    package = message.file.package
    name = str(message.full_name)
    return name.removeprefix(f"{package}.") if package else name
