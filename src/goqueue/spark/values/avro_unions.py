"""Avro's unions of several types as structs: a field for each type, and one of them is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import fastavro

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMED: Final = ("record", "enum", "fixed")
_PRIMITIVE: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)


def shaper_of(schema: Any) -> Callable[[Any], Any] | None:
    """What makes a row of a record that fastavro has read; None where it is one already.

    It takes records whose parts say which record, enum or fixed of a union they are (fastavro's
    `return_named_type`): by its fields alone, one record may well pass for another.
    """
    shapes = _Shapes()
    shape = shapes.of(schema)
    return shape if shapes.has_struct else None


def _same(value: Any) -> Any:
    return value


class _Shapes:
    """One function for each part of a schema; parts that stay as they are have `_same`."""

    def __init__(self) -> None:
        self._named: dict[str, Callable[[Any], Any]] = {}
        self.has_struct = False
        """Some union has become a struct."""

    def of(self, schema: Any) -> Callable[[Any], Any]:
        if isinstance(schema, list):
            return self._union([each for each in schema if each != "null"])
        if isinstance(schema, str):
            return self._named.get(schema, _same)
        kind = schema["type"]
        if kind == "record":
            return self._record(schema)
        if kind == "array":
            each = self.of(schema["items"])
            return _same if each is _same else lambda value: [each(item) for item in value]
        if kind == "map":
            held = self.of(schema["values"])
            if held is _same:
                return _same
            return lambda value: {name: held(item) for name, item in value.items()}
        return _same

    def _record(self, schema: Any) -> Callable[[Any], Any]:
        shapes = {each["name"]: self.of(each["type"]) for each in schema["fields"]}
        changed = {name: shape for name, shape in shapes.items() if shape is not _same}

        def shape_record(value: Any) -> Any:
            return value | {name: shape(value[name]) for name, shape in changed.items()}

        found = shape_record if changed else _same
        self._named[schema["name"]] = found
        return found

    def _union(self, branches: list[Any]) -> Callable[[Any], Any]:
        shapes = [self.of(each) for each in branches]
        names = {_name(each): at for at, each in enumerate(branches) if _name(each) is not None}
        if len(branches) == 1:
            (one,) = shapes
            if not names and one is _same:
                return _same
            return lambda value: None if value is None else one(_bare(value))
        if set(map(str, branches)) in ({"int", "long"}, {"float", "double"}):
            return _same
        self.has_struct = True
        unnamed = [(at, each) for at, each in enumerate(branches) if _name(each) is None]

        def shape_union(value: Any) -> Any:
            if value is None:
                return None
            if isinstance(value, tuple) and value[0] in names:
                at = names[value[0]]
                return {f"member{at}": shapes[at](value[1])}
            for at, branch in unnamed:
                if _fits(value, branch):
                    return {f"member{at}": shapes[at](value)}
            raise ValueError("a value of none of the union's types")

        return shape_union


def _bare(value: Any) -> Any:
    """Without the name of its type, which is in front where a union was written."""
    return value[1] if isinstance(value, tuple) else value


def _name(branch: Any) -> str | None:
    """What a type of a union is called, if it has a name of its own."""
    if isinstance(branch, str):
        return None if branch in _PRIMITIVE else branch
    return str(branch["name"]) if branch["type"] in _NAMED else None


def _fits(value: Any, branch: Any) -> bool:
    if isinstance(branch, str) and branch in {"float", "double"}:
        return isinstance(value, float)  # fastavro takes whole numbers for these, too
    return bool(fastavro.validate(value, branch, raise_errors=False))
