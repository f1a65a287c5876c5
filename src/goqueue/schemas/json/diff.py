"""Whether a JSON Schema takes everything that another one allows.

The verdicts are those of Confluent's registry. A schema that allows other properties than those it
names is *open*: anything could be written under a new property's name before, so a property that is
added with a schema of its own breaks it. One that allows no others is *closed*: removing a property
breaks it, since messages with it are not allowed any more.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvalidRegularExpressionError, InvalidSchemaError
from goqueue.model.patterns import partial_match
from goqueue.schemas.json.limits import (
    LIMITS,
    bounds,
    criterion_problem,
    dependencies,
    distinct,
    has_default,
    is_open,
    item_problem,
    items_of,
    mapping,
    matched,
    names_in,
    type_name,
    upper,
)
from goqueue.schemas.json.shapes import COMBINED, Kind, Shape, Shapes
from goqueue.schemas.limits import MAX_COMPARISONS

if TYPE_CHECKING:
    from collections.abc import Callable


_MAX_DIFFERENCES: Final = 50
"""That are told; a schema that has more is incompatible all the same."""


def unreadable(
    reader: Shape, writer: Shape, reader_shapes: Shapes, writer_shapes: Shapes
) -> list[str]:
    """Why a reader would not take what a writer's schema allows; nothing where it does.

    The shapes of each are those that it refers to.
    """
    return _Diff(reader_shapes, writer_shapes).compare(writer, reader, "#")[:_MAX_DIFFERENCES]


class _Diff:
    """Compares an old schema with a new one that is to take all that the old one allows."""

    def __init__(self, new: Shapes, old: Shapes) -> None:
        self._new = new
        self._old = old
        self._known: dict[tuple[int, int], list[str]] = {}
        """What was found of pairs; nothing yet of those being looked at, since a schema may hold
        itself."""
        self._matches = cache(_matches)
        self._reverse: _Diff | None = None

    @property
    def reverse(self) -> _Diff:
        """The same the other way round; there is one, so that no pair is compared twice."""
        if self._reverse is None:
            self._reverse = _Diff(self._old, self._new)
            self._reverse._reverse = self  # noqa: SLF001 - of the same class
        return self._reverse

    def compare(self, old: Shape, new: Shape, path: str) -> list[str]:
        pair = (id(old), id(new))
        if pair not in self._known:
            if len(self._known) >= MAX_COMPARISONS:
                raise InvalidSchemaError("the schema is too large to be compared")
            self._known[pair] = []
            self._known[pair] = self._compare(old, new, path)
        return self._known[pair]

    def _fits(self, old: Shape, new: Shape, path: str) -> bool:
        return not self.compare(old, new, path)

    def _compare(self, old: Shape, new: Shape, path: str) -> list[str]:
        if new.kind is Kind.ANYTHING or old.kind is Kind.NOTHING:
            return []
        if new.kind in COMBINED or old.kind in COMBINED:
            return self._combined(old, new, path)
        if old.kind is not new.kind:
            return [f"TYPE_CHANGED at {path}: {type_name(old)} became {type_name(new)}"]
        problems = bounds(old, new, path)
        if new.kind is Kind.OBJECT:
            return problems + self._object(old, new, path)
        if new.kind is Kind.ARRAY:
            return problems + self._array(old, new, path)
        if new.kind is Kind.NOT:
            return self._not(old, new, path)
        limits = LIMITS.get(new.kind)
        return problems if limits is None else problems + limits(old, new, path)

    def _not(self, old: Shape, new: Shape, path: str) -> list[str]:
        """What must not be is compared the other way round."""
        inside = self.reverse.compare(
            self._new.inner(new, new.schema["not"]), self._old.inner(old, old.schema["not"]), path
        )
        return [f"NOT_TYPE_EXTENDED at {path}/not"] if inside else []

    # --- Combinations ----------------------------------------------------------------------------

    def _combined(self, old: Shape, new: Shape, path: str) -> list[str]:
        if old.kind in COMBINED and new.kind in COMBINED:
            return self._both_combined(old, new, path)
        if new.kind in COMBINED:
            if new.kind is Kind.ALL_OF:
                return [
                    problem
                    for at, part in enumerate(new.parts)
                    for problem in self.compare(old, part, f"{path}/allOf/{at}")
                ]
            if any(self._fits(old, part, path) for part in new.parts):
                return []
            return [f"TYPE_CHANGED at {path}: {type_name(old)} is none of {new.kind}"]
        if old.kind is Kind.ALL_OF:
            if any(self._fits(part, new, path) for part in old.parts):
                return []
            return [f"TYPE_CHANGED at {path}: {type_name(new)} takes nothing of allOf"]
        problems = [
            problem
            for at, part in enumerate(old.parts)
            for problem in self.compare(part, new, f"{path}/{old.kind}/{at}")
        ]
        return [f"SUM_TYPE_NARROWED at {path}", *problems] if problems else []

    def _both_combined(self, old: Shape, new: Shape, path: str) -> list[str]:
        changed = criterion_problem(old, new, path)
        if changed:
            return changed
        olds, news = distinct(old.parts), distinct(new.parts)
        if new.kind is Kind.ALL_OF and len(news) > len(olds):
            return [f"PRODUCT_TYPE_EXTENDED at {path}"]
        if new.kind is not Kind.ALL_OF and old.kind is not Kind.ALL_OF and len(olds) > len(news):
            return [f"SUM_TYPE_NARROWED at {path}"]
        fitting = [
            [at for at, part in enumerate(news) if self._fits(each, part, f"{path}/{old.kind}")]
            for each in olds
        ]
        if matched(fitting) < min(len(olds), len(news)):
            return [f"COMBINED_TYPE_SUBSCHEMAS_CHANGED at {path}"]
        return []

    # --- Objects ---------------------------------------------------------------------------------

    def _object(self, old: Shape, new: Shape, path: str) -> list[str]:
        problems = self._required(old, new, path)
        before, after = mapping(old, "properties"), mapping(new, "properties")
        for name in {**before, **after}:
            place = f"{path}/properties/{name}"
            if name not in after:
                problems += self._removed(old, new, name, place)
            elif name not in before:
                problems += self._added(old, new, name, place)
            else:
                problems += self.compare(
                    self._old.inner(old, before[name]), self._new.inner(new, after[name]), place
                )
        problems += self._additional(old, new, path, "additionalProperties")
        return problems + self._dependencies(old, new, path)

    def _required(self, old: Shape, new: Shape, path: str) -> list[str]:
        before, after = mapping(old, "properties"), mapping(new, "properties")
        was_required = set(map(str, names_in(old, "required")))
        return [
            f"REQUIRED_ATTRIBUTE_ADDED at {path}/required/{name}"
            for name in names_in(new, "required")
            if name not in was_required
            and name in before
            and name in after
            and not has_default(after[name])
        ]

    def _removed(self, old: Shape, new: Shape, name: str, place: str) -> list[str]:
        if is_open(new):
            return []
        before = self._old.inner(old, mapping(old, "properties")[name])
        covering = self._covering(new, name, is_new=True)
        if covering is not None:
            if self._fits(before, covering, place):
                return []
            return [f"PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at {place}"]
        if before.kind is Kind.NOTHING:
            return []
        return [f"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at {place}"]

    def _added(self, old: Shape, new: Shape, name: str, place: str) -> list[str]:
        raw = mapping(new, "properties")[name]
        after = self._new.inner(new, raw)
        if is_open(old):
            if after.kind is Kind.ANYTHING:
                return []
            return [f"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {place}"]
        problems = []
        covering = self._covering(old, name, is_new=False)
        if covering is not None and not self._fits(covering, after, place):
            problems.append(
                f"PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at {place}"
            )
        if name in names_in(new, "required") and not has_default(raw):
            problems.append(f"REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL at {place}")
        return problems

    def _covering(self, shape: Shape, name: str, *, is_new: bool) -> Shape | None:
        """What a half-open schema says of a property that it does not name."""
        shapes = self._new if is_new else self._old
        for pattern, schema in mapping(shape, "patternProperties").items():
            if self._matches(pattern)(name):
                return shapes.inner(shape, schema)
        rest = shape.schema.get("additionalProperties")
        return shapes.inner(shape, rest) if isinstance(rest, dict) else None

    def _additional(self, old: Shape, new: Shape, path: str, keyword: str) -> list[str]:
        before, after = old.schema.get(keyword, True), new.schema.get(keyword, True)
        place = f"{path}/{keyword}"
        if after is False:
            return [] if before is False else [f"{upper(keyword)}_REMOVED at {place}"]
        if before is False or after is True:
            return []
        if before is True:
            narrowed = self._new.inner(new, after).kind is not Kind.ANYTHING
            return [f"{upper(keyword)}_NARROWED at {place}"] if narrowed else []
        return self.compare(self._old.inner(old, before), self._new.inner(new, after), place)

    def _dependencies(self, old: Shape, new: Shape, path: str) -> list[str]:
        problems = []
        before = dependencies(old)
        for name, needed in dependencies(new).items():
            place = f"{path}/dependencies/{name}"
            had = before.get(name)
            if isinstance(needed, list):
                if not isinstance(had, list):
                    problems.append(f"DEPENDENCY_ARRAY_ADDED at {place}")
                elif not set(needed) <= set(had):
                    problems.append(f"DEPENDENCY_ARRAY_EXTENDED at {place}")
            elif had is None or isinstance(had, list):
                problems.append(f"DEPENDENCY_SCHEMA_ADDED at {place}")
            else:
                problems += self.compare(
                    self._old.inner(old, had), self._new.inner(new, needed), place
                )
        return problems

    # --- Arrays ----------------------------------------------------------------------------------

    def _array(self, old: Shape, new: Shape, path: str) -> list[str]:
        problems = []
        if new.schema.get("uniqueItems") is True and old.schema.get("uniqueItems") is not True:
            problems.append(f"UNIQUE_ITEMS_ADDED at {path}/uniqueItems")
        (first_old, rest_old), (first_new, rest_new) = items_of(old), items_of(new)
        for at in range(max(len(first_old), len(first_new))):
            place = f"{path}/items/{at}"
            before = first_old[at] if at < len(first_old) else rest_old
            after = first_new[at] if at < len(first_new) else rest_new
            if at >= len(first_old) and before is False:
                continue  # none was allowed there
            if self.compare(self._old.inner(old, before), self._new.inner(new, after), place):
                problems.append(item_problem(at, first_old, first_new, place))
        before, after = self._old.inner(old, rest_old), self._new.inner(new, rest_new)
        return problems + self.compare(before, after, f"{path}/items")


def _matches(pattern: str) -> Callable[[str], bool]:
    """Whether a name is one of a pattern; one with look-around is said to match none."""
    try:
        return partial_match(pattern)
    except InvalidRegularExpressionError:
        return lambda _: False
