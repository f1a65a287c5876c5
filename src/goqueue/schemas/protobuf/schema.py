"""Protobuf schemas: .proto files, or descriptors in base64 as some clients send them.

Descriptor pools of the protobuf library resolve names, and its message classes decode.
"""

# ruff: noqa: D102 - `Parsed` and `Validator` say what the methods do

from __future__ import annotations

import base64
import binascii
import importlib
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import (
    descriptor_pb2 as pb,
    descriptor_pool,
    json_format,
    message_factory,
    unknown_fields,
)
from google.protobuf.message import DecodeError, Message

from goqueue.model.errors import InvalidSchemaError
from goqueue.schemas.decoded import DecodeFault
from goqueue.schemas.protobuf import compatibility as proto_compat, walk as proto_walk
from goqueue.schemas.protobuf.parser import parse_proto
from goqueue.schemas.protobuf.text import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.descriptor import Descriptor, FileDescriptor

    from goqueue.schemas.model import Dependency

_OWN_NAME: Final = "default"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*", re.ASCII)
_CONTENTS: Final = ("message_type", "enum_type", "service", "extension", "dependency")
"""A file has something of these; one that only imports stands for what it imports."""
_KNOWN: Final = re.compile(r"google/(protobuf|type)/[a-z_]+\.proto", re.ASCII)
"""Files that need no reference, since every client has them."""


class ProtobufSchema:
    """One file with those that it imports."""

    def __init__(self, text: str, dependencies: Sequence[Dependency] = ()) -> None:
        """Parse a schema.

        Raises:
            InvalidSchemaError: it is none, or imports what is neither known nor among its
                dependencies.
        """
        self._file = _descriptor(text, _OWN_NAME)
        self._pool = descriptor_pool.DescriptorPool()
        self._added: set[str] = set()
        self._others = {
            reference.name: _descriptor(schema.text, reference.name)
            for reference, schema in dependencies
        }
        self.file: FileDescriptor = self._add(self._file)
        if not any(getattr(self._file, each) for each in _CONTENTS):
            raise InvalidSchemaError("the file has no message, enum, service, extension or import")

    def _add(self, file: pb.FileDescriptorProto) -> FileDescriptor:
        """Put a file into the pool, after whatever it imports."""
        self._added.add(file.name)
        for name in file.dependency:
            if name not in self._added:
                self._add(self._imported(name))
        try:
            self._pool.Add(file)
            return self._pool.FindFileByName(file.name)
        except (TypeError, KeyError) as error:
            raise InvalidSchemaError(f"no Protobuf schema: {_reason(error)}") from error

    def _imported(self, name: str) -> pb.FileDescriptorProto:
        if name in self._others:
            return self._others[name]
        if _KNOWN.fullmatch(name):
            try:
                module = importlib.import_module(name[: -len(".proto")].replace("/", ".") + "_pb2")
                return pb.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
            except ImportError:
                pass
        raise InvalidSchemaError(f"import {name!r} is neither among the references nor known")

    @cached_property
    def _resolved(self) -> pb.FileDescriptorProto:
        """The descriptor with every name in full."""
        resolved = pb.FileDescriptorProto()
        self.file.CopyToProto(resolved)
        return resolved

    @cached_property
    def canonical(self) -> str:
        """As .proto, laid out in one way."""
        return text_of(self._file)

    @cached_property
    def normalised(self) -> str:
        """With every name in full, and in order what has none."""
        return text_of(self._resolved, sort=True)

    def reads(self, writer: ProtobufSchema) -> list[str]:
        return proto_compat.unreadable(self.file, writer.file)

    def validator(self) -> ProtobufValidator:
        return ProtobufValidator(self.file)

    def decoded(self, payload: bytes, indexes: Sequence[int] = (0,)) -> str:
        found = ProtobufValidator(self.file).message_type(tuple(indexes))
        if found is None:
            raise DecodeFault(f"the schema has no message with the indexes {list(indexes)}")
        descriptor, kind = found
        try:
            message = kind.FromString(payload)
            return json_format.MessageToJson(
                message,
                indent=None,
                preserving_proto_field_name=True,
                descriptor_pool=self._pool,
            )
        except Exception as error:  # what it holds may be of a type that nobody knows
            raise DecodeFault(proto_walk.fault_in(descriptor, payload) or str(error)) from error

    def formatted(self, form: str) -> str:
        """The text, or `serialized` the descriptor in base64."""
        if form == "serialized":
            return base64.b64encode(self._resolved.SerializeToString()).decode()
        return self.canonical


class ProtobufValidator:
    """Decodes messages with the type that each one names."""

    def __init__(self, file: FileDescriptor) -> None:
        self._file = file
        self._classes: dict[tuple[int, ...], tuple[Descriptor, type[Message]] | None] = {}
        """At most one for each message of the file, and those that were asked for and not found."""
        self._holders: dict[str, tuple[str, ...]] = {}

    def check(self, payload: bytes | memoryview, indexes: Sequence[int] = (0,)) -> str | None:
        found = self.message_type(tuple(indexes))
        if found is None:
            return f"/: the schema has no message with the indexes {list(indexes)}"
        descriptor, kind = found
        data = bytes(payload)
        try:
            message = kind.FromString(data)
        except (DecodeError, UnicodeDecodeError) as error:
            return proto_walk.fault_in(descriptor, data) or f"/: does not decode: {error}"
        if not message.IsInitialized() or self._has_unknown(message):
            return proto_walk.fault_in(descriptor, data) or "/: does not fit"
        return None

    def field_names(self, indexes: Sequence[int] = (0,)) -> tuple[str, ...]:
        """The fields of a message type."""
        found = self.message_type(tuple(indexes))
        return () if found is None else tuple(str(each.name) for each in found[0].fields)

    def present(self, payload: bytes | memoryview, indexes: Sequence[int] = (0,)) -> list[str]:
        """The fields of a message that fits which are set; of those without presence, not 0."""
        found = self.message_type(tuple(indexes))
        if found is None:
            return []
        return [each.name for each, _ in found[1].FromString(bytes(payload)).ListFields()]

    def message_type(self, indexes: tuple[int, ...]) -> tuple[Descriptor, type[Message]] | None:
        """The type that indexes name, and its class; None where there is none."""
        if indexes not in self._classes:
            if len(self._classes) > 1000:
                self._classes.clear()
            found = self._find(indexes)
            self._classes[indexes] = (
                (found, message_factory.GetMessageClass(found)) if found else None
            )
        return self._classes[indexes]

    def _find(self, indexes: tuple[int, ...]) -> Descriptor | None:
        found: Descriptor | None = None
        for index in indexes:
            messages: list[Any] = list(
                self._file.message_types_by_name.values() if found is None else found.nested_types
            )
            if not 0 <= index < len(messages):
                return None
            found = messages[index]
        return found

    def _has_unknown(self, message: Message) -> bool:
        """Whether there is something in it, or in what it holds, that the schema does not know."""
        if len(unknown_fields.UnknownFieldSet(message)):
            return True
        for name in self._holding(message.DESCRIPTOR):
            value = getattr(message, name)
            if hasattr(value, "values"):
                inside = list(value.values())
            elif hasattr(value, "DESCRIPTOR"):
                inside = [value] if message.HasField(name) else []
            else:
                inside = list(value)
            if any(self._has_unknown(each) for each in inside):
                return True
        return False

    def _holding(self, message: Any) -> tuple[str, ...]:
        """The fields of a message that hold messages."""
        names = self._holders.get(message.full_name)
        if names is None:
            names = tuple(each.name for each in message.fields if _holds_messages(each))
            self._holders[message.full_name] = names
        return names


def _holds_messages(field: Any) -> bool:
    if field.message_type is None:
        return False
    if field.message_type.GetOptions().map_entry:
        return field.message_type.fields_by_name["value"].message_type is not None
    return True


def _descriptor(text: str, name: str) -> pb.FileDescriptorProto:
    if _BASE64.fullmatch(text):
        try:
            file = pb.FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
        except (DecodeError, binascii.Error):
            pass
        else:
            file.name = name
            file.ClearField("source_code_info")
            return file
    return parse_proto(text, name)


def _reason(error: Exception) -> str:
    text = str(error.args[0] if error.args else error)
    return text.partition(":")[2].strip() or text
