"""Parts of two JSON Schemas that can be compared without looking into other schemas."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from goqueue.schemas.json.shapes import Kind, Shape

if TYPE_CHECKING:
    from collections.abc import Callable


_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_BOUNDS: Final = {
    Kind.STRING: ("maxLength", "minLength"),
    Kind.NUMBER: ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"),
    Kind.OBJECT: ("maxProperties", "minProperties"),
    Kind.ARRAY: ("maxItems", "minItems"),
}


def bounds(old: Shape, new: Shape, path: str) -> list[str]:
    """Bounds of lengths, counts and numbers that have become tighter."""
    problems = []
    for keyword in _BOUNDS.get(new.kind, ()):
        before, after = _bound(old, keyword), _bound(new, keyword)
        if after is None or before == after:
            continue
        word = "DECREASED" if keyword in _UPPER else "INCREASED"
        if before is None:
            problems.append(f"{upper(keyword)}_ADDED at {path}/{keyword}")
        elif (after < before) == (keyword in _UPPER):
            problems.append(f"{upper(keyword)}_{word} at {path}/{keyword}")
    return problems


def _bound(shape: Shape, keyword: str) -> float | None:
    """A bound as a number; draft 4 has `exclusiveMaximum: true` beside its `maximum`."""
    value = shape.schema.get(keyword)
    if keyword.startswith("exclusive") and isinstance(value, bool):
        plain = shape.schema.get(keyword.removeprefix("exclusive").lower())
        value = plain if value else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _pattern(old: Shape, new: Shape, path: str) -> list[str]:
    before, after = old.schema.get("pattern"), new.schema.get("pattern")
    if after is None or before == after:
        return []
    return [f"PATTERN_{'ADDED' if before is None else 'CHANGED'} at {path}/pattern"]


def _number(old: Shape, new: Shape, path: str) -> list[str]:
    problems = []
    if new.is_integer and not old.is_integer:
        problems.append(f"TYPE_NARROWED at {path}: number became integer")
    before, after = old.schema.get("multipleOf"), new.schema.get("multipleOf")
    if after is not None and before != after:
        if before is None:
            problems.append(f"MULTIPLE_OF_ADDED at {path}/multipleOf")
        elif (before / after) % 1 != 0:
            word = "EXPANDED" if (after / before) % 1 == 0 else "CHANGED"
            problems.append(f"MULTIPLE_OF_{word} at {path}/multipleOf")
    return problems


def _values(old: Shape, new: Shape, path: str) -> list[str]:
    before, after = _allowed(old), _allowed(new)
    if before <= after:
        return []
    return [f"ENUM_ARRAY_{'NARROWED' if after < before else 'CHANGED'} at {path}/enum"]


def _allowed(shape: Shape) -> set[str]:
    values = [shape.schema["const"]] if "const" in shape.schema else shape.schema["enum"]
    return {json.dumps(each, sort_keys=True) for each in values}


def _conditions(old: Shape, new: Shape, path: str) -> list[str]:
    return [] if _condition(old) == _condition(new) else [f"CONDITION_CHANGED at {path}/if"]


def _condition(shape: Shape) -> str:
    parts = {each: shape.schema.get(each) for each in ("if", "then", "else")}
    return json.dumps(parts, sort_keys=True)


LIMITS: Final[dict[Kind, Callable[[Shape, Shape, str], list[str]]]] = {
    Kind.STRING: _pattern,
    Kind.NUMBER: _number,
    Kind.VALUES: _values,
    Kind.CONDITION: _conditions,
}


def has_default(schema: Any) -> bool:
    """Whether readers know what to take where nothing is written."""
    return isinstance(schema, dict) and "default" in schema


def criterion_problem(old: Shape, new: Shape, path: str) -> list[str]:
    """Alternatives may become freer; few combinations become stricter without harm."""
    if old.kind is new.kind or new.kind is Kind.ANY_OF:
        return []
    single_old, single_new = len(old.parts) == 1, len(new.parts) == 1
    if single_old and (new.kind is Kind.ONE_OF or single_new):
        return []
    return [f"COMBINED_TYPE_CHANGED at {path}: {old.kind} became {new.kind}"]


def distinct(parts: list[Shape]) -> list[Shape]:
    """Without those that say the same."""
    seen: dict[str, Shape] = {}
    for part in parts:
        said = json.dumps([part.kind, part.is_integer, part.schema], sort_keys=True, default=str)
        seen.setdefault(said, part)
    return list(seen.values())


def matched(fitting: list[list[int]]) -> int:
    """How many can be given a partner of their own, at best."""
    taken: dict[int, int] = {}

    def place(at: int, tried: set[int]) -> bool:
        for partner in fitting[at]:
            if partner not in tried:
                tried.add(partner)
                if partner not in taken or place(taken[partner], tried):
                    taken[partner] = at
                    return True
        return False

    return sum(place(at, set()) for at in range(len(fitting)))


def is_open(shape: Shape) -> bool:
    """Whether properties that are not named may be anything."""
    rest = shape.schema.get("additionalProperties", True)
    return rest in (True, {}) and not shape.schema.get("patternProperties")


def mapping(shape: Shape, keyword: str) -> dict[str, Any]:
    """Schemas by name, under a keyword; none where it is something else."""
    value = shape.schema.get(keyword)
    return value if isinstance(value, dict) else {}


def names_in(shape: Shape, keyword: str) -> list[str]:
    """Names under a keyword."""
    value = shape.schema.get(keyword)
    return value if isinstance(value, list) else []


def dependencies(shape: Shape) -> dict[str, Any]:
    """What else must be there where a property is, as any draft writes it."""
    kinds = ("dependencies", "dependentRequired", "dependentSchemas")
    return {name: each for kind in kinds for name, each in mapping(shape, kind).items()}


def items_of(shape: Shape) -> tuple[list[Any], Any]:
    """The schemas of the first items, and that of all behind them."""
    schema = shape.schema
    if isinstance(schema.get("prefixItems"), list):
        return schema["prefixItems"], schema.get("items", True)
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items


def item_problem(at: int, olds: list[Any], news: list[Any], place: str) -> str:
    """What became of an item that has a schema of its own."""
    if at < len(olds) and at < len(news):
        return f"ITEM_CHANGED at {place}"
    return f"ITEM_{'ADDED' if at >= len(olds) else 'REMOVED'} at {place}"


def upper(keyword: str) -> str:
    """A keyword as the names of differences have it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", keyword).upper()


def type_name(shape: Shape) -> str:
    """What a shape is, for people."""
    return "integer" if shape.is_integer else shape.kind.value
