"""Avro schemas: parsed and decoded by fastavro, resolved by the specification's rules."""

# ruff: noqa: D102 - `Parsed` and `Validator` say what the methods do

from __future__ import annotations

import io
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import fastavro

from goqueue.model.errors import InvalidSchemaError
from goqueue.schemas.avro.compatibility import unreadable
from goqueue.schemas.avro.tree import PRIMITIVES, AvroNames, Node, text_of
from goqueue.schemas.avro.walk import fault_in, may_be_empty
from goqueue.schemas.decoded import DecodeFault, json_of
from goqueue.schemas.json.text import loaded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.schemas.model import Dependency

_REFUSALS: Final = (
    *(ValueError, TypeError, KeyError, AttributeError),
    *(fastavro.schema.SchemaParseException, fastavro.schema.UnknownType),
)
"""How fastavro says that something is no schema."""


class AvroSchema:
    """One Avro schema with the types that it stands on."""

    def __init__(self, text: str, dependencies: Sequence[Dependency] = ()) -> None:
        """Parse a schema; `dependencies` come before what uses them.

        Raises:
            InvalidSchemaError: it is none.
        """
        names = AvroNames()
        named: dict[str, dict[str, Any]] = {}
        for dependency in dependencies:
            self._add(dependency.schema.text, names, named, is_dependency=True)
        self._foreign = frozenset(names.by_name)
        self.node: Node
        self.node, self._decodable = self._add(text, names, named)

    @staticmethod
    def _add(
        text: str,
        names: AvroNames,
        named: dict[str, dict[str, Any]],
        *,
        is_dependency: bool = False,
    ) -> tuple[Node, Any]:
        schema = _loaded(text)
        if is_dependency and isinstance(schema, dict) and _is_known(schema, names):
            # Two ways lead to the same type: whoever comes second finds it there.
            return names.by_name[_known_as(schema)], None
        node = names.node(schema)
        try:
            return node, fastavro.parse_schema(schema, named)
        except _REFUSALS as error:
            raise InvalidSchemaError(f"no Avro schema: {error}") from error

    @cached_property
    def canonical(self) -> str:
        """As Avro itself writes it."""
        return text_of(self.node, self._foreign)

    @cached_property
    def normalised(self) -> str:
        """The same with attributes that Avro does not know in the order of their names."""
        return text_of(self.node, self._foreign, sort=True)

    def reads(self, writer: AvroSchema) -> list[str]:
        return unreadable(self.node, writer.node)

    def validator(self) -> AvroValidator:
        return AvroValidator(self.node, self._decodable)

    def decoded(self, payload: bytes, _indexes: Sequence[int] = (0,)) -> str:
        if may_be_empty(self.node):
            raise DecodeFault("a few bytes of this schema may hold any number of items")
        stream = io.BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(stream, self._decodable, None)
        except Exception as error:
            raise DecodeFault(fault_in(self.node, payload) or repr(error)) from error
        if stream.tell() != len(payload):
            raise DecodeFault(f"{len(payload) - stream.tell()} bytes are left after the message")
        return json_of(value)

    def formatted(self, form: str) -> str:
        """The text; `resolved` has the types that it stands on written out."""
        return text_of(self.node, ()) if form == "resolved" else self.canonical


class AvroValidator:
    """Decodes messages, and throws away what they say. An Avro schema is of one type."""

    def __init__(self, node: Node, decodable: Any) -> None:
        self._node = node
        self._decodable = decodable
        self._walks_first = may_be_empty(node)

    def check(self, payload: bytes | memoryview, _indexes: Sequence[int] = (0,)) -> str | None:
        data = bytes(payload)
        if self._walks_first:
            return fault_in(self._node, data)
        stream = io.BytesIO(data)
        try:
            fastavro.schemaless_reader(stream, self._decodable, None)
        except Exception as error:  # noqa: BLE001 - whatever fastavro makes of bytes that are none
            return fault_in(self._node, data) or f"/: does not decode: {error!r}"
        return None if stream.tell() == len(data) else fault_in(self._node, data)

    def field_names(self, _indexes: Sequence[int] = (0,)) -> tuple[str, ...]:
        """The fields of a record; none of any other type."""
        kind = self._decodable
        fields = kind.get("fields", ()) if isinstance(kind, dict) else ()
        return tuple(str(each["name"]) for each in fields)

    def present(self, payload: bytes | memoryview, _indexes: Sequence[int] = (0,)) -> list[str]:
        """The fields of a message that fits which are not null."""
        found = fastavro.schemaless_reader(io.BytesIO(bytes(payload)), self._decodable, None)
        values = found if isinstance(found, dict) else {}
        return [name for name, value in values.items() if value is not None]


def _loaded(text: str) -> Any:
    """A schema as JSON; the name of a primitive may stand without quotes."""
    bare = text.strip()
    return bare if bare in PRIMITIVES else loaded(text, "an Avro schema")


def _known_as(schema: dict[str, Any]) -> str:
    name, space = schema.get("name"), schema.get("namespace")
    if not isinstance(name, str):
        return ""
    return f"{space}.{name}" if space and "." not in name else name


def _is_known(schema: dict[str, Any], names: AvroNames) -> bool:
    return _known_as(schema) in names.by_name
