"""Times, dates and decimals in JSON, which has none: strings, turned into what they mean.

`2026-01-31T12:00:00Z`, `2026-01-31 12:00:00.5+02:00`, `2026-01-31`: ISO 8601 as Spark's own JSON
takes it; a time without a zone is in UTC. Decimals may be strings or numbers.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute

if TYPE_CHECKING:
    from collections.abc import Callable

pc: Final[Any] = pyarrow.compute  # its stubs take fewer kinds of arguments than it does
types: Final[Any] = pa.types

_ZONE: Final = r"(Z|[+-]\d\d:?\d\d)$"


class ExactFloat(float):
    """A number that remembers its digits: money in a decimal is more exact than a float."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: Final = text


def has_times(kind: Any) -> bool:
    """Whether something in a type is a string in JSON, and something else in a column."""
    if types.is_struct(kind):
        return any(has_times(field.type) for field in kind)
    if types.is_list(kind):
        return has_times(kind.value_type)
    return _is_time(kind)


def _is_time(kind: Any) -> bool:
    return bool(types.is_timestamp(kind) or types.is_date(kind) or types.is_decimal(kind))


def as_read(kind: Any) -> Any:
    """The type that JSON is read as."""
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, as_read(each.type)) for each in kind])
    if types.is_list(kind):
        return pa.list_(pa.field("element", as_read(kind.value_type)))
    return pa.string() if _is_time(kind) else kind


def as_wanted(values: Any, kind: Any) -> Any:
    """A column that was read with strings, as the type that is wanted.

    Raises:
        ValueError: some string is none of these.
    """
    if types.is_struct(kind):
        fields = [as_wanted(values.field(at), each.type) for at, each in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())
    if types.is_list(kind):
        inside = as_wanted(values.values, kind.value_type)
        return pa.ListArray.from_arrays(values.offsets, inside, type=kind, mask=values.is_null())
    if not _is_time(kind):
        return values
    return _all_at_once(values, kind)


def _all_at_once(texts: Any, kind: Any) -> Any:
    try:
        if types.is_timestamp(kind):
            zoned = pc.match_substring_regex(texts, _ZONE)
            utc = pc.binary_join_element_wise(texts, "Z", "")
            return pc.if_else(zoned, texts, utc).cast(kind)
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([value_of(each, kind) for each in texts.to_pylist()], kind)


def value_of(text: str | None, kind: Any) -> Any:
    """One such string as Python has it.

    Raises:
        ValueError: it is none.
    """
    if text is None:
        return None
    if types.is_timestamp(kind):
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    if types.is_date(kind):
        return date.fromisoformat(text)
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no number") from error


def tree_shaper(kind: Any) -> Callable[[Any], Any]:
    """What turns the strings of one parsed object into what they mean; raises `ValueError`."""
    if types.is_struct(kind):
        shapes = {each.name: tree_shaper(each.type) for each in kind if has_times(each.type)}

        def shape(tree: Any) -> Any:
            if not isinstance(tree, dict):
                return tree
            found = {
                name: shapes[name](tree[name]) for name in shapes if tree.get(name) is not None
            }
            return tree | found

        return shape
    if types.is_list(kind):
        each_of = tree_shaper(kind.value_type)
        return lambda tree: [each_of(each) for each in tree] if isinstance(tree, list) else tree
    if not _is_time(kind):
        return lambda tree: tree
    return lambda tree: _one(tree, kind)


def _one(found: Any, kind: Any) -> Any:
    if types.is_decimal(kind) and isinstance(found, int | float) and not isinstance(found, bool):
        return Decimal(found.text if isinstance(found, ExactFloat) else str(found))
    if found is not None and not isinstance(found, str):
        raise ValueError(f"{found!r} is no {kind}: expected a string")
    return value_of(found, kind)
