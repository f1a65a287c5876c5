"""A descriptor as a .proto file, in one form: what the registry keeps and shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2 as pb, text_format
from google.protobuf.text_encoding import CEscape

if TYPE_CHECKING:
    from collections.abc import Iterable

_Field = pb.FieldDescriptorProto
_LABELS: Final = {_Field.LABEL_REQUIRED: "required ", _Field.LABEL_REPEATED: "repeated "}
_VISIBILITIES: Final[dict[int, str]] = {
    pb.VISIBILITY_EXPORT: "export ",
    pb.VISIBILITY_LOCAL: "local ",
}
_MAX_FIELD_END: Final = 536_870_912
_MAX_ENUM: Final = 2**31 - 1


def text_of(file: pb.FileDescriptorProto, *, sort: bool = False) -> str:
    """The text of a file; with `sort`, the order of what has none does not count."""
    return _Writer(file, sort=sort).file(file)


class _Writer:
    def __init__(self, file: pb.FileDescriptorProto, *, sort: bool) -> None:
        self._is_proto2 = file.syntax in {"", "proto2"}
        self._has_edition = file.syntax == "editions"
        self._sort = sort

    def file(self, file: pb.FileDescriptorProto) -> str:
        lines = [_head(file)]
        if file.package:
            lines.append(f"package {file.package};")
        for block in (self._imports(file), self._options(file.options, "")):
            if block:
                lines += ["", *block]
        for message in file.message_type:
            if not _is_group(message, file.extension):
                lines += ["", *self._message(message, "")]
        for enum in file.enum_type:
            lines += ["", *self._enum(enum, "")]
        lines += self._extensions(file.extension, file.message_type, "")
        for service in file.service:
            lines += ["", *self._service(service)]
        return "\n".join(lines) + "\n"

    def _imports(self, file: pb.FileDescriptorProto) -> list[str]:
        lines = []
        for at, name in enumerate(file.dependency):
            kind = (
                "public "
                if at in file.public_dependency
                else "weak "
                if at in file.weak_dependency
                else ""
            )
            lines.append(f"import {kind}{_quoted(name.encode())};")
        lines += [f"import option {_quoted(each.encode())};" for each in file.option_dependency]
        return self._ordered(lines)

    def _ordered(self, lines: list[str]) -> list[str]:
        return sorted(lines) if self._sort else lines

    # --- Messages --------------------------------------------------------------------------------

    def _message(self, message: pb.DescriptorProto, indent: str, head: str = "") -> list[str]:
        inner = indent + "  "
        lines = [f"{indent}{_visibility(message)}{head or 'message'} {message.name} {{"]
        lines += self._options(message.options, inner)
        lines += self._reserved(message, inner, _MAX_FIELD_END, 1)
        for each in message.extension_range:
            end = "max" if each.end >= _MAX_FIELD_END else str(each.end - 1)
            span = f"{each.start}" if each.end == each.start + 1 else f"{each.start} to {end}"
            lines.append(f"{inner}extensions {span}{self._brackets(each.options)};")
        lines += self._fields(message, inner)
        groups = [*message.field, *message.extension]
        for nested in message.nested_type:
            if not nested.options.map_entry and not _is_group(nested, groups):
                lines += ["", *self._message(nested, inner)]
        for enum in message.enum_type:
            lines += ["", *self._enum(enum, inner)]
        lines += self._extensions(message.extension, message.nested_type, inner)
        return [*lines, f"{indent}}}"]

    def _fields(self, message: pb.DescriptorProto, indent: str) -> list[str]:
        lines: list[str] = []
        done: set[int] = set()
        fields = (
            sorted(message.field, key=lambda each: each.number) if self._sort else message.field
        )
        for field in fields:
            if not field.HasField("oneof_index") or field.proto3_optional:
                lines += self._field(field, message.nested_type, indent)
            elif field.oneof_index not in done:
                done.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                lines += [f"{indent}oneof {oneof.name} {{"]
                lines += self._options(oneof.options, indent + "  ")
                for each in fields:
                    if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                        lines += self._field(each, message.nested_type, indent + "  ")
                lines += [f"{indent}}}"]
        return lines

    def _field(
        self, field: pb.FieldDescriptorProto, nested: Iterable[pb.DescriptorProto], indent: str
    ) -> list[str]:
        said = self._brackets(field.options, _defaults(field))
        entry = _entry(field, nested)
        if entry is not None:
            key, value = (_type(each) for each in sorted(entry.field, key=lambda each: each.number))
            return [f"{indent}map<{key}, {value}> {field.name} = {field.number}{said};"]
        label = _LABELS.get(field.label, "")
        is_in_oneof = field.HasField("oneof_index") and not field.proto3_optional
        if not label and not is_in_oneof and (field.proto3_optional or self._is_proto2):
            label = "optional "
        if field.type == _Field.TYPE_GROUP:
            group = next(each for each in nested if each.name == _last(field.type_name))
            head, *body = self._message(group, indent, f"{label}group")
            return [f"{head[:-2]} = {field.number}{said} {{", *body]
        return [f"{indent}{label}{_type(field)} {field.name} = {field.number}{said};"]

    def _extensions(
        self,
        fields: Iterable[pb.FieldDescriptorProto],
        nested: Iterable[pb.DescriptorProto],
        indent: str,
    ) -> list[str]:
        lines: list[str] = []
        fields = list(fields)
        for extended in dict.fromkeys(each.extendee for each in fields):
            lines += ["", f"{indent}extend {extended} {{"]
            for field in fields:
                if field.extendee == extended:
                    lines += self._field(field, nested, indent + "  ")
            lines += [f"{indent}}}"]
        return lines

    def _reserved(
        self,
        owner: pb.DescriptorProto | pb.EnumDescriptorProto,
        indent: str,
        high: int,
        beyond: int,
    ) -> list[str]:
        ranges = [(each.start, each.end - beyond) for each in owner.reserved_range]
        names = [
            each if self._has_edition else _quoted(each.encode()) for each in owner.reserved_name
        ]
        if self._sort:
            ranges, names = sorted(ranges), sorted(names)
        spans = [
            str(start) if start == end else f"{start} to {'max' if end == high - beyond else end}"
            for start, end in ranges
        ]
        return [f"{indent}reserved {', '.join(each)};" for each in (spans, names) if each]

    # --- The rest --------------------------------------------------------------------------------

    def _enum(self, enum: pb.EnumDescriptorProto, indent: str) -> list[str]:
        inner = indent + "  "
        lines = [f"{indent}{_visibility(enum)}enum {enum.name} {{"]
        lines += self._options(enum.options, inner)
        lines += self._reserved(enum, inner, _MAX_ENUM, 0)
        for value in enum.value:
            lines.append(f"{inner}{value.name} = {value.number}{self._brackets(value.options)};")
        return [*lines, f"{indent}}}"]

    def _service(self, service: pb.ServiceDescriptorProto) -> list[str]:
        lines = [f"service {service.name} {{", *self._options(service.options, "  ")]
        for method in service.method:
            taken = ("stream " if method.client_streaming else "") + method.input_type
            given = ("stream " if method.server_streaming else "") + method.output_type
            head = f"  rpc {method.name} ({taken}) returns ({given})"
            options = self._options(method.options, "    ")
            lines += [f"{head} {{", *options, "  }"] if options else [f"{head};"]
        return [*lines, "}"]

    def _options(self, options: Any, indent: str) -> list[str]:
        return [f"{indent}option {each};" for each in self._option_texts(options)]

    def _brackets(self, options: Any, before: Iterable[str] = ()) -> str:
        said = [*before, *self._option_texts(options)]
        return f" [{', '.join(said)}]" if said else ""

    def _option_texts(self, options: Any) -> list[str]:
        said = []
        for field, value in options.ListFields():
            if field.name == "uninterpreted_option":
                said += [_uninterpreted(each) for each in value]
            elif field.is_extension:
                said.append(f"({field.full_name}) = {_option_value(field, value)}")
            elif field.name == "features":
                said += _features(value)
            elif field.name != "map_entry":
                values = value if field.is_repeated else [value]
                said += [f"{field.name} = {_option_value(field, each)}" for each in values]
        return self._ordered(said)


def _head(file: pb.FileDescriptorProto) -> str:
    if file.syntax == "editions":
        return f'edition = "{pb.Edition.Name(file.edition).removeprefix("EDITION_")}";'
    return f'syntax = "{file.syntax or "proto2"}";'


def _visibility(owner: pb.DescriptorProto | pb.EnumDescriptorProto) -> str:
    return _VISIBILITIES.get(owner.visibility, "")


def _features(features: Any, path: str = "features") -> list[str]:
    said = []
    for field, value in features.ListFields():
        if field.is_extension:
            shown = text_format.MessageToString(value, as_one_line=True)
            said.append(f"{path}.({field.full_name}) = {{ {shown} }}")
        else:
            said.append(f"{path}.{field.name} = {_option_value(field, value)}")
    return said


def _option_value(field: Any, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value.encode())
    return _quoted(value) if isinstance(value, bytes) else str(value)


def _uninterpreted(option: pb.UninterpretedOption) -> str:
    name = ".".join(
        f"({part.name_part})" if part.is_extension else part.name_part for part in option.name
    )
    kind = option.ListFields()[-1][0].name
    value = getattr(option, kind)
    if kind == "string_value":
        value = _quoted(value)
    elif kind == "aggregate_value":
        value = f"{{ {value} }}"
    return f"{name} = {value}"


def _defaults(field: pb.FieldDescriptorProto) -> list[str]:
    said = []
    if field.HasField("default_value"):
        value = field.default_value
        if field.type == _Field.TYPE_STRING:
            value = _quoted(value.encode())
        elif field.type == _Field.TYPE_BYTES:
            value = f'"{value}"'
        said.append(f"default = {value}")
    if field.HasField("json_name") and field.json_name != json_name(field.name):
        said.append(f"json_name = {_quoted(field.json_name.encode())}")
    return said


def json_name(name: str) -> str:
    """What a field is called in JSON unless it says otherwise."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _type(field: pb.FieldDescriptorProto) -> str:
    if field.type_name:
        return field.type_name
    return str(_Field.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _entry(
    field: pb.FieldDescriptorProto, nested: Iterable[pb.DescriptorProto]
) -> pb.DescriptorProto | None:
    """The entries that a map's field stands for."""
    if field.label != _Field.LABEL_REPEATED or not field.type_name:
        return None
    name = _last(field.type_name)
    return next((each for each in nested if each.name == name and each.options.map_entry), None)


def _is_group(message: pb.DescriptorProto, fields: Iterable[pb.FieldDescriptorProto]) -> bool:
    return any(
        each.type == _Field.TYPE_GROUP and _last(each.type_name) == message.name for each in fields
    )


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _quoted(data: bytes) -> str:
    try:
        data.decode()
        return f'"{CEscape(data, as_utf8=True)}"'
    except UnicodeDecodeError:
        return f'"{CEscape(data, as_utf8=False)}"'
