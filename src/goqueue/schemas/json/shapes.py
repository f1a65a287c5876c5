"""A JSON Schema as shapes: what each part of it is about, the same for every draft.

A schema may say several things at once (a type, a list of values, alternatives). Then it is all of
them, and its shape is a combination of the shapes of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from goqueue.model.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable


class Kind(StrEnum):
    """What a shape is about."""

    ANYTHING = "anything"
    NOTHING = "nothing"
    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NULL = "null"
    OBJECT = "object"
    ARRAY = "array"
    VALUES = "values"
    NOT = "not"
    CONDITION = "condition"
    ALL_OF = "allOf"
    ANY_OF = "anyOf"
    ONE_OF = "oneOf"


COMBINED: Final = frozenset((Kind.ALL_OF, Kind.ANY_OF, Kind.ONE_OF))

_KEYWORDS: Final = {
    Kind.STRING: ("minLength", "maxLength", "pattern", "format", "contentEncoding"),
    Kind.NUMBER: ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    Kind.OBJECT: (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
    ),
    Kind.ARRAY: (
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "minItems",
        "maxItems",
        "uniqueItems",
    ),
}
_BESIDE_REFERENCE: Final = frozenset(
    (
        *("$ref", "$id", "id", "$schema", "$comment", "$defs", "definitions", "title"),
        *("description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    )
)
"""What may stand beside a reference and adds nothing to it."""
_MAX_HOPS: Final = 100

_TYPES: Final = {
    "string": Kind.STRING,
    "number": Kind.NUMBER,
    "integer": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "null": Kind.NULL,
    "object": Kind.OBJECT,
    "array": Kind.ARRAY,
}


@dataclass(eq=False)
class Shape:
    """One thing that a schema says. `schema` is where it says it."""

    kind: Kind
    schema: dict[str, Any] = field(default_factory=dict)
    is_integer: bool = False
    make_parts: Callable[[], list[Shape]] = list

    @cached_property
    def parts(self) -> list[Shape]:
        """Of a combination; made when they are asked for, since a schema may hold itself."""
        return self.make_parts()


ANYTHING: Final = Shape(Kind.ANYTHING)
NOTHING: Final = Shape(Kind.NOTHING)


class Shapes:
    """The shapes of one document and of those that it refers to, made once each."""

    def __init__(self, resolve: Callable[[str, str], tuple[Any, str]]) -> None:
        """`resolve` finds what a reference leads to: from a base, to a schema and its base."""
        self._resolve = resolve
        self._made: dict[int, tuple[Any, Shape]] = {}
        self._bases: dict[int, str] = {}
        """The base of references of each schema that was met, by its identity."""

    def of(self, schema: Any, base: str = "") -> Shape:
        """The shape of a schema that stands in a document with this base.

        Raises:
            InvalidSchemaError: a reference leads nowhere, or in a circle.
        """
        if schema is True:
            return ANYTHING
        if schema is False:
            return NOTHING
        if not isinstance(schema, dict):
            raise InvalidSchemaError(f"{str(schema)[:80]!r} is no schema")
        base = self._bases.setdefault(id(schema), base)
        known = self._made.get(id(schema))
        if known is None:
            known = self._made[id(schema)] = (schema, self._make(schema, base))
        return known[1]

    def inner(self, shape: Shape, schema: Any) -> Shape:
        """The shape of a schema inside of another one."""
        return self.of(schema, self._bases.get(id(shape.schema), ""))

    def _make(self, schema: dict[str, Any], base: str) -> Shape:
        own = schema.get("$id") or schema.get("id")
        if isinstance(own, str) and not own.startswith("#"):
            base = urljoin(base, own)
            self._bases[id(schema)] = base
        if isinstance(schema.get("$ref"), str) and not (schema.keys() - _BESIDE_REFERENCE):
            return self.of(*self._followed(schema, base))
        parts = self._parts(schema, base)
        if not parts:
            return Shape(Kind.ANYTHING, schema)
        return parts[0] if len(parts) == 1 else Shape(Kind.ALL_OF, schema, make_parts=lambda: parts)

    def _followed(self, schema: Any, base: str) -> tuple[Any, str]:
        """What a reference leads to in the end."""
        for _ in range(_MAX_HOPS):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema, base
            schema, base = self._resolve(schema["$ref"], base)
        raise InvalidSchemaError("references lead in a circle")

    def _parts(self, schema: dict[str, Any], base: str) -> list[Shape]:
        parts = _typed_parts(schema)
        if isinstance(schema.get("$ref"), str):
            target = self._followed(schema, base)
            parts.append(Shape(Kind.ALL_OF, schema, make_parts=lambda: [self.of(*target)]))
        if "enum" in schema or "const" in schema:
            parts.append(Shape(Kind.VALUES, schema))
        if "not" in schema:
            parts.append(Shape(Kind.NOT, schema))
        if "if" in schema:
            parts.append(Shape(Kind.CONDITION, schema))
        for kind in (Kind.ALL_OF, Kind.ANY_OF, Kind.ONE_OF):
            if isinstance(schema.get(kind), list):
                parts.append(Shape(kind, schema, make_parts=partial(self._all, schema[kind], base)))
        return parts

    def _all(self, schemas: list[Any], base: str) -> list[Shape]:
        return [self.of(each, base) for each in schemas]


def _typed_parts(schema: dict[str, Any]) -> list[Shape]:
    """What a schema says of types, or without that of the values of a type."""
    named = schema.get("type")
    if isinstance(named, str):
        return [_typed(named, schema)]
    if isinstance(named, list):
        typed = [_typed(each, schema) for each in named]
        return [Shape(Kind.ANY_OF, schema, make_parts=lambda: typed)]
    return [
        Shape(kind, schema)
        for kind, keywords in _KEYWORDS.items()
        if any(each in schema for each in keywords)
    ]


def _typed(name: Any, schema: dict[str, Any]) -> Shape:
    kind = _TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidSchemaError(f"there is no type {str(name)[:80]!r}")
    return Shape(kind, schema, is_integer=name == "integer")
