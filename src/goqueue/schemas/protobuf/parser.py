"""A .proto file (proto2, proto3 or an edition) as a descriptor, as protoc makes it.

Names of types are left as they are written; `protobuf.py` lets a descriptor pool resolve them.
Custom options are kept uninterpreted: a registry keeps what it is given, and needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2 as pb

from goqueue.model.errors import InvalidSchemaError
from goqueue.schemas.protobuf.options import OptionReader, camel, set_default
from goqueue.schemas.protobuf.tokens import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    _Messages = RepeatedCompositeFieldContainer[pb.DescriptorProto]
    _Enums = RepeatedCompositeFieldContainer[pb.EnumDescriptorProto]
    _Fields = RepeatedCompositeFieldContainer[pb.FieldDescriptorProto]

_Field = pb.FieldDescriptorProto
SCALARS: Final = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _Field.Type.items()
    if name not in {"TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM"}
}
_LABELS: Final = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
_MAX_FIELD: Final = 536_870_911
_MAX_ENUM: Final = 2**31 - 1
_MAX_DEPTH: Final = 60
_SYNTAXES: Final = ("proto2", "proto3")
EDITIONS: Final = {"2023": pb.Edition.EDITION_2023, "2024": pb.Edition.EDITION_2024}
_VISIBLE: Final = {"export": pb.VISIBILITY_EXPORT, "local": pb.VISIBILITY_LOCAL}
"""What may stand before a message or an enum, from edition 2024 on."""
_DEFINING: Final = frozenset(("message", "enum", *_VISIBLE))


def parse_proto(text: str, name: str) -> pb.FileDescriptorProto:
    """The descriptor of a file of this name.

    Raises:
        InvalidSchemaError: it is none, with the line.
    """
    return _Parser(text).file(name)


class _Parser:
    def __init__(self, text: str) -> None:
        self._words = Words(text)
        self._options = OptionReader(self._words)
        self._is_proto3 = False
        self._edition = 0
        """Of a file that names one; proto2 and proto3 have none."""
        self._depth = 0

    def file(self, name: str) -> pb.FileDescriptorProto:
        file = pb.FileDescriptorProto(name=name)
        words = self._words
        if words.eat("syntax", "="):
            syntax = _one_of(_SYNTAXES, words.text(), "syntax")
            self._is_proto3 = syntax == "proto3"
            if self._is_proto3:
                file.syntax = syntax
            words.need(";")
        elif words.eat("edition", "="):
            file.syntax = "editions"
            self._edition = file.edition = EDITIONS[_one_of(EDITIONS, words.text(), "edition")]
            words.need(";")
        while words.now.kind != "end":
            self._statement(file)
        return file

    def _statement(self, file: pb.FileDescriptorProto) -> None:
        words = self._words
        if words.eat("import"):
            self._import(file)
        elif words.eat("package"):
            if file.package:
                raise words.wrong("one package")
            file.package = words.path()
            words.need(";")
        elif words.eat("option"):
            self._options.statement(file.options)
        elif self._definition(file.message_type, file.enum_type):
            pass
        elif words.eat("service"):
            self._service(file.service.add())
        elif words.eat("extend"):
            self._extend(file.extension, file.message_type)
        elif not words.eat(";"):
            raise words.wrong("a message, an enum, an option or an import")

    def _import(self, file: pb.FileDescriptorProto) -> None:
        words = self._words
        at = len(file.dependency)
        if words.eat("public"):
            file.public_dependency.append(at)
        elif words.eat("weak"):
            file.weak_dependency.append(at)
        elif self._edition >= pb.Edition.EDITION_2024 and words.eat("option"):
            file.option_dependency.append(_utf8(words.text()))
            words.need(";")
            return
        file.dependency.append(_utf8(words.text()))
        words.need(";")

    def _definition(self, messages: _Messages, enums: _Enums) -> bool:
        """A message or an enum, if that is next."""
        words = self._words
        if words.eat("message"):
            self._message(messages.add())
        elif words.eat("enum"):
            self._enum(enums.add())
        elif self._edition >= pb.Edition.EDITION_2024 and words.now.text in _VISIBLE:
            word = words.now.text
            if words.eat(word, "message"):
                self._message(messages.add(visibility=_VISIBLE[word]))
            elif words.eat(word, "enum"):
                self._enum(enums.add(visibility=_VISIBLE[word]))
            else:
                return False  # a field of a type with that name
        else:
            return False
        return True

    # --- Messages --------------------------------------------------------------------------------

    def _message(self, message: pb.DescriptorProto) -> None:
        message.name = self._words.name()
        self._body(message)

    def _body(self, message: pb.DescriptorProto) -> None:
        words = self._words
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidSchemaError(f"messages are nested deeper than {_MAX_DEPTH}")
        words.need("{")
        while not words.eat("}"):
            self._member(message)
        self._depth -= 1
        self._name_optional(message)

    def _member(self, message: pb.DescriptorProto) -> None:
        words = self._words
        following = words.now.text
        if following in _DEFINING and self._definition(message.nested_type, message.enum_type):
            pass
        elif following == "option" and words.eat("option"):
            self._options.statement(message.options)
        elif following == "oneof" and words.eat("oneof"):
            self._oneof(message)
        elif following == "extend" and words.eat("extend"):
            self._extend(message.extension, message.nested_type)
        elif following == "extensions" and words.eat("extensions"):
            self._extensions(message)
        elif following == "reserved" and words.eat("reserved"):
            self._reserved(message, _MAX_FIELD, 1, message.ReservedRange)
        elif following == "map" and words.eat("map", "<"):
            self._map(message)
        elif not words.eat(";"):
            self._field(message.field.add(), message.nested_type)

    def _name_optional(self, message: pb.DescriptorProto) -> None:
        """An optional field of proto3 is the only one of a oneof that nobody wrote."""
        taken = {each.name for each in message.field} | {each.name for each in message.oneof_decl}
        for field in message.field:
            if field.proto3_optional:
                name = f"_{field.name}"
                while name in taken:
                    name = f"X{name}"
                taken.add(name)
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)

    def _field(
        self,
        field: pb.FieldDescriptorProto,
        groups: _Messages,
        *,
        label: _Field.Label.ValueType | None = None,
    ) -> None:
        """`label` is given where none may be written."""
        words = self._words
        if label is None:
            label = self._label(field)
        field.label = label
        if words.now.text == "group" and words.eat("group"):
            self._group(field, groups)
            return
        self._type(field)
        field.name = words.name()
        words.need("=")
        field.number = words.number(1, _MAX_FIELD)
        self._field_options(field)
        words.need(";")

    def _label(self, field: pb.FieldDescriptorProto) -> _Field.Label.ValueType:
        words = self._words
        for word, label in _LABELS.items():
            if words.now.text == word and words.eat(word):
                if self._is_proto3 and word == "required":
                    raise InvalidSchemaError(f"line {words.now.line}: proto3 has no required")
                if self._edition and word != "repeated":
                    raise InvalidSchemaError(
                        f"line {words.now.line}: editions have no {word}, set the option "
                        "features.field_presence"
                    )
                field.proto3_optional = self._is_proto3 and word == "optional"
                if not field.proto3_optional:
                    field.ClearField("proto3_optional")
                return label
        if not self._is_proto3 and not self._edition:
            raise words.wrong("optional, required or repeated")
        return _Field.LABEL_OPTIONAL

    def _type(self, field: pb.FieldDescriptorProto) -> None:
        name = self._words.path()
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _field_options(self, field: pb.FieldDescriptorProto) -> None:
        for name, value in self._options.in_brackets(field.options):
            if name == "default":
                set_default(field, value)
            elif name == "json_name":
                field.json_name = _utf8(value.text)

    def _group(self, field: pb.FieldDescriptorProto, groups: _Messages) -> None:
        words = self._words
        name = words.name()
        if self._is_proto3 or self._edition or not name[0].isupper():
            raise InvalidSchemaError(f"line {words.now.line}: no group can be called {name!r} here")
        field.name, field.type, field.type_name = name.lower(), _Field.TYPE_GROUP, name
        words.need("=")
        field.number = words.number(1, _MAX_FIELD)
        self._field_options(field)
        message = groups.add()
        message.name = name
        self._body(message)

    def _map(self, message: pb.DescriptorProto) -> None:
        words = self._words
        entry = message.nested_type.add()
        key = entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL)
        self._type(key)
        words.need(",")
        value = entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL)
        self._type(value)
        words.need(">")
        field = message.field.add(label=_Field.LABEL_REPEATED, type=_Field.TYPE_MESSAGE)
        field.name = words.name()
        words.need("=")
        field.number = words.number(1, _MAX_FIELD)
        entry.name = f"{camel(field.name)}Entry"
        entry.options.map_entry = True
        field.type_name = entry.name
        self._field_options(field)
        words.need(";")

    def _oneof(self, message: pb.DescriptorProto) -> None:
        words = self._words
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=words.name())
        words.need("{")
        while not words.eat("}"):
            if words.now.text == "option" and words.eat("option"):
                self._options.statement(oneof.options)
            elif not words.eat(";"):
                field = message.field.add(oneof_index=index)
                self._field(field, message.nested_type, label=_Field.LABEL_OPTIONAL)

    def _extend(self, fields: _Fields, groups: _Messages) -> None:
        words = self._words
        extended = words.path()
        words.need("{")
        while not words.eat("}"):
            if not words.eat(";"):
                self._field(fields.add(extendee=extended), groups)

    def _extensions(self, message: pb.DescriptorProto) -> None:
        words = self._words
        first = len(message.extension_range)
        while True:
            start, end = self._range(1, _MAX_FIELD)
            message.extension_range.add(start=start, end=end + 1)
            if not words.eat(","):
                break
        for added in message.extension_range[first:]:
            list(self._options.in_brackets(added.options))
        words.need(";")

    def _range(self, low: int, high: int) -> tuple[int, int]:
        words = self._words
        start = words.number(low, high)
        if not words.eat("to"):
            return start, start
        return start, high if words.eat("max") else words.number(start, high)

    def _reserved(
        self,
        owner: pb.DescriptorProto | pb.EnumDescriptorProto,
        high: int,
        beyond: int,
        make: Callable[..., Any],
    ) -> None:
        """Names, or ranges of numbers, of which messages and enums count the end differently."""
        words = self._words
        low = 1 if beyond else -(2**31)
        while True:
            if self._edition and words.now.kind == "name":
                owner.reserved_name.append(words.name())
            elif not self._edition and words.now.kind == "text":
                owner.reserved_name.append(_utf8(words.text()))
            else:
                start, end = self._range(low, high)
                owner.reserved_range.append(make(start=start, end=end + beyond))
            if not words.eat(","):
                break
        words.need(";")

    # --- The rest --------------------------------------------------------------------------------

    def _enum(self, enum: pb.EnumDescriptorProto) -> None:
        words = self._words
        enum.name = words.name()
        words.need("{")
        while not words.eat("}"):
            if words.now.text == "option" and words.eat("option"):
                self._options.statement(enum.options)
            elif words.now.text == "reserved" and words.eat("reserved"):
                self._reserved(enum, _MAX_ENUM, 0, enum.EnumReservedRange)
            elif not words.eat(";"):
                value = enum.value.add(name=words.name())
                words.need("=")
                value.number = words.number(-(2**31), _MAX_ENUM)
                list(self._options.in_brackets(value.options))
                words.need(";")

    def _service(self, service: pb.ServiceDescriptorProto) -> None:
        words = self._words
        service.name = words.name()
        words.need("{")
        while not words.eat("}"):
            if words.eat("option"):
                self._options.statement(service.options)
            elif words.eat("rpc"):
                self._method(service.method.add())
            elif not words.eat(";"):
                raise words.wrong("an rpc or an option")

    def _method(self, method: pb.MethodDescriptorProto) -> None:
        words = self._words
        method.name = words.name()
        words.need("(")
        if words.eat("stream"):
            method.client_streaming = True
        method.input_type = words.path()
        words.need(")")
        words.need("returns")
        words.need("(")
        if words.eat("stream"):
            method.server_streaming = True
        method.output_type = words.path()
        words.need(")")
        if words.eat(";"):
            return
        words.need("{")
        method.options.SetInParent()
        while not words.eat("}"):
            if words.eat("option"):
                self._options.statement(method.options)
            else:
                words.need(";")


def _one_of(known: Collection[str], given: bytes, what: str) -> str:
    name = given.decode(errors="replace")
    if name not in known:
        raise InvalidSchemaError(f"there is no {what} {name!r}: {', '.join(known)} are known")
    return name


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidSchemaError(f"{data[:40]!r} is not UTF-8") from None
