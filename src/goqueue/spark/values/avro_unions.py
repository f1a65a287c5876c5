"""Avro's unions of several types as structs: a field for each type, and one of them is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fastavro

if TYPE_CHECKING:
    from collections.abc import Callable


def shaper_of(schema: Any) -> Callable[[Any], Any] | None:
    """What makes a row of a record that fastavro has read; None where it is one already."""
    shape = _Shapes().of(schema)
    return None if shape is _same else shape


def _same(value: Any) -> Any:
    return value


class _Shapes:
    """One function for each part of a schema; parts that hold no such union have `_same`."""

    def __init__(self) -> None:
        self._named: dict[str, Callable[[Any], Any]] = {}

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
        if len(branches) == 1:
            (one,) = shapes
            return _same if one is _same else lambda value: None if value is None else one(value)
        if set(map(str, branches)) in ({"int", "long"}, {"float", "double"}):
            return _same

        def shape_union(value: Any) -> Any:
            if value is None:
                return None
            for at, branch in enumerate(branches):
                if fastavro.validate(value, branch, raise_errors=False):
                    return {f"member{at}": shapes[at](value)}
            raise ValueError("a value of none of the union's types")

        return shape_union
