"""Options of a .proto file, and the values that defaults and options have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2 as pb, text_format
from google.protobuf.text_encoding import CEscape

from goqueue.model.errors import InvalidSchemaError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.schemas.protobuf.tokens import Words

_Field = pb.FieldDescriptorProto
_FLOATS: Final = frozenset((_Field.TYPE_FLOAT, _Field.TYPE_DOUBLE))
_FEATURES: Final = "features"
"""How files of an edition say what proto2 and proto3 had a syntax for."""
_TEXTS: Final = frozenset((_Field.TYPE_STRING, _Field.TYPE_BYTES))


class Value(NamedTuple):
    """What stands behind the equals sign: a text in quotes, a word, or something in braces."""

    text: bytes = b""
    word: str = ""
    braces: str | None = None


class OptionReader:
    """Reads options into the messages that hold them."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def statement(self, options: Any) -> None:
        """`option name = value;` after its first word."""
        self._one(options)
        self._words.need(";")

    def in_brackets(self, options: Any) -> Iterator[tuple[str, Value]]:
        """`[name = value, ...]` if it is there; what is no option of Protobuf's is returned."""
        words = self._words
        if not words.eat("["):
            return
        while True:
            if words.now.text in {"default", "json_name"}:
                name = words.take().text
                words.need("=")
                yield name, self._value()
            else:
                self._one(options)
            if not words.eat(","):
                break
        words.need("]")

    def _one(self, options: Any) -> None:
        parts = self._name()
        self._words.need("=")
        value = self._value()
        field = options.DESCRIPTOR.fields_by_name.get(parts[0][0])
        is_plain = len(parts) == 1 and not parts[0][1] and value.braces is None
        if parts[0] == (_FEATURES, False) and not any(is_extension for _, is_extension in parts):
            _set_feature(options, [name for name, _ in parts[1:]], value)
        elif is_plain and field is not None and parts[0][0] != "uninterpreted_option":
            _set(options, field, value)
        else:
            options.uninterpreted_option.append(_uninterpreted(parts, value))

    def _name(self) -> list[tuple[str, bool]]:
        """The parts of a name, and whether each stands in parentheses."""
        words = self._words
        parts: list[tuple[str, bool]] = []
        while True:
            if words.eat("("):
                parts.append((words.path(), True))
                words.need(")")
            else:
                parts.append((words.name(), False))
            if not words.eat("."):
                return parts

    def _value(self) -> Value:
        words = self._words
        if words.now.kind == "text":
            return Value(text=words.text())
        if words.now.text == "{":
            return Value(braces=self._braces())
        sign = "-" if words.eat("-") else "+" if words.eat("+") else ""
        if words.now.kind not in {"name", "number"}:
            raise words.wrong("a value")
        word = words.take().text
        return Value(word=sign.replace("+", "") + word)

    def _braces(self) -> str:
        """Everything up to the brace that closes this one."""
        words = self._words
        words.need("{")
        depth = 1
        taken: list[str] = []
        while True:
            token = words.take()
            depth += (token.text == "{") - (token.text == "}")
            if depth == 0:
                return " ".join(taken)
            taken.append(token.text)


def _set_feature(options: Any, path: list[str], value: Value) -> None:
    """Give a feature of an edition its value, or several of them theirs in braces."""
    said = f"{{ {value.braces} }}" if value.braces is not None else f": {_quoted(value)}"
    for name in reversed([_FEATURES, *path]):
        said = f"{name} {said}" if said.startswith("{") else f"{name}{said}"
        said = f"{{ {said} }}"
    try:
        text_format.Merge(said[1:-1], options)
    except text_format.ParseError as error:
        raise InvalidSchemaError(f"option {'.'.join([_FEATURES, *path])}: {error}") from error


def _quoted(value: Value) -> str:
    return value.word or f'"{CEscape(value.text, as_utf8=False)}"'


def _set(options: Any, field: Any, value: Value) -> None:
    """Give an option of Protobuf's own its value."""
    try:
        text_format.Merge(f"{field.name}: {_quoted(value)}", options)
    except text_format.ParseError as error:
        raise InvalidSchemaError(f"option {field.name}: {error}") from error


def _uninterpreted(parts: list[tuple[str, bool]], value: Value) -> pb.UninterpretedOption:
    option = pb.UninterpretedOption()
    for name, is_extension in parts:
        option.name.add(name_part=name, is_extension=is_extension)
    if value.braces is not None:
        option.aggregate_value = value.braces
    elif not value.word:
        option.string_value = value.text
    elif re.fullmatch(r"\d+", value.word) and int(value.word) < 2**64:
        option.positive_int_value = int(value.word)
    elif re.fullmatch(r"-\d+", value.word) and int(value.word) >= -(2**63):
        option.negative_int_value = int(value.word)
    elif re.match(r"-?[\d.]", value.word):
        option.double_value = _float(value.word)
    else:
        option.identifier_value = value.word
    return option


def set_default(field: pb.FieldDescriptorProto, value: Value) -> None:
    """Give a field of proto2 its default, written as descriptors have it."""
    if field.HasField("type") and field.type in _TEXTS:
        if value.word or value.braces is not None:
            raise InvalidSchemaError(f"field {field.name!r}: a default in quotes is needed")
        if field.type == _Field.TYPE_STRING:
            field.default_value = value.text.decode(errors="replace")
        else:
            field.default_value = CEscape(value.text, as_utf8=False)
        return
    if not value.word:
        raise InvalidSchemaError(f"field {field.name!r}: a default without quotes is needed")
    if not field.HasField("type") or field.type == _Field.TYPE_BOOL:
        field.default_value = value.word  # of an enum, as far as is known yet
    elif field.type in _FLOATS:
        field.default_value = _shown_float(_float(value.word))
    else:
        field.default_value = str(_integer(value.word))


def _float(word: str) -> float:
    try:
        return float(int(word, 16)) if "x" in word.lower() else float(word)
    except ValueError:
        raise InvalidSchemaError(f"{word!r} is no number") from None


def _shown_float(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _integer(word: str) -> int:
    sign, digits = (-1, word[1:]) if word.startswith("-") else (1, word)
    try:
        base = 16 if digits[:2] in {"0x", "0X"} else 8 if digits[:1] == "0" else 10
        return sign * int(digits, base)
    except ValueError:
        raise InvalidSchemaError(f"{word!r} is no whole number") from None


def camel(name: str) -> str:
    """A field's name as the entries of its map are called."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
