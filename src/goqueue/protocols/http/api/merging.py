"""How parts of answers become one: the usual ways."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments

_T = TypeVar("_T")


def total(parts: list[Part], _arguments: Arguments) -> Any:
    """All parts added up, field by field; where that makes no sense, what the first one says."""
    return summed([each.answer for each in parts])


def summed(values: list[_T]) -> _T:
    """Numbers are added, maps are joined, lists of numbers are added place by place."""
    whole: _T = reduce(_added, values)
    return whole


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, bool | str) or other is None or isinstance(other, msgspec.UnsetType):
        return one
    if one is None or isinstance(one, int | float):
        return (one or 0) + other if isinstance(other, int | float) else one
    if isinstance(one, dict):
        return {
            key: _added(one[key], other[key])
            if key in one and key in other
            else one.get(key, other.get(key))
            for key in one.keys() | other.keys()
        }
    if isinstance(one, list) and len(one) == len(other):
        return [_added(a, b) for a, b in zip(one, other, strict=True)]
    if isinstance(one, msgspec.Struct):
        fields = one.__struct_fields__
        changed = {name: _added(getattr(one, name), getattr(other, name)) for name in fields}
        return msgspec.structs.replace(one, **changed)
    return one


def by_name(lines: Iterable[_T], name: str) -> list[_T]:
    """Lines of all nodes in the order of a field, each value of it once.

    What has just moved may be told by two nodes.
    """
    return [line for _, line in sorted({getattr(each, name): each for each in lines}.items())]
