"""What a call in Python says, as the nodes that a YAML file would have, with the caller's line."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from goqueue.spark.pipelines.model import plain
from goqueue.spark.pipelines.yaml_nodes import Entries, Items, Node, Place, Scalar

TableName: TypeAlias = str | Callable[..., Any]
"""A table by its name, or by the function that makes it."""
WatermarkLike: TypeAlias = tuple[str, str] | Mapping[str, str] | None
_OURS: Final = {__file__, str(Path(__file__).with_name("drafting.py"))}


def caller() -> tuple[str, Place]:
    """The file and line of whoever called us."""
    frame = sys._getframe(1)  # noqa: SLF001 - as logging and warnings find their callers
    while frame.f_back is not None and frame.f_code.co_filename in _OURS:
        frame = frame.f_back
    return frame.f_code.co_filename, Place(frame.f_lineno, 1)


def node_of(value: object, place: Place) -> Node:
    """A value as a node; what is None in a mapping was not said."""
    if isinstance(value, Mapping):
        pairs = [
            (key_of(str(key), place), node_of(each, place))
            for key, each in value.items()
            if each is not None
        ]
        return Entries(tuple(pairs), place)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return Items(tuple(node_of(each, place) for each in value), place)
    if value is None:
        return Scalar("", is_quoted=False, place=place)
    return _scalar(plain(value), place)


def key_of(text: str, place: Place) -> Scalar:
    """The name of an entry."""
    return Scalar(text, is_quoted=True, place=place)


def _scalar(text: str, place: Place) -> Scalar:
    """A text; in Python it is final: nothing is filled in from the environment."""
    return Scalar(text.replace("${", "$${"), is_quoted=True, place=place)


def watermark_of(value: WatermarkLike) -> object:
    """A pair as the mapping that a file has."""
    if isinstance(value, tuple) and len(value) == 2:
        return {"column": value[0], "delay": value[1]}
    return value


def table_name(table: TableName) -> str:
    """What a table is called."""
    return table if isinstance(table, str) else getattr(table, "__name__", repr(table))


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """The parameters that have to be given: each is a table."""
    return [
        each.name
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty
        and each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
    ]


def as_name(topic: str) -> str:
    """A topic's name as one that SQL takes."""
    name = "".join(each if each.isalnum() or each == "_" else "_" for each in topic)
    return f"_{name}" if name[:1].isdigit() else name
