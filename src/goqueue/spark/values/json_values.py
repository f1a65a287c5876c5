"""JSON objects as a struct column, parsed by Arrow where they can be, one by one where not."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.json as arrow_json

from goqueue.spark.values.json_times import ExactFloat, as_read, as_wanted, has_times, tree_shaper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pc: Final[Any] = pyarrow.compute  # its stubs take fewer kinds of arguments than it does

_BLOCK_BYTES: Final = 1 << 30
"""More than a chunk ever holds: the lines are parsed as one block."""


def parse_json(values: Any, kind: Any) -> tuple[Any, list[int]]:
    """Structs from an array of bytes without nulls, and the rows that are no such objects."""
    found = _all_at_once(values, as_read(kind) if has_times(kind) else kind)
    if found is not None and has_times(kind):
        with contextlib.suppress(ValueError):
            return as_wanted(found, kind), []
        found = None
    return (found, []) if found is not None else one_by_one(values.to_pylist(), kind, loads(kind))


def _all_at_once(values: Any, kind: Any) -> Any | None:
    """All objects by Arrow's own reader, or None when it cannot be sure that each is its row's.

    Lines are put behind one another, so a value must not be able to end another's object or to be
    two: each starts with a brace, ends with one, and in the end there are as many rows as values.
    The reader takes any bytes for text, so what is no UTF-8 is not for it.
    """
    if not len(values):
        return pa.array([], kind)
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    braced = pc.and_(pc.starts_with(values, pattern="{"), pc.ends_with(values, pattern="}"))
    if not pc.all(braced).as_py():
        return None
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    lines = pc.binary_join(whole, b"\n")[0].as_buffer()
    try:
        table = arrow_json.read_json(
            io.BytesIO(lines),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema(list(kind)), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(values):
        return None
    return pa.StructArray.from_arrays(
        [table.column(field.name).combine_chunks() for field in kind], fields=list(kind)
    )


def loads(kind: Any) -> Callable[[bytes], Any]:
    """What reads one object of this type; raises `ValueError`."""
    if not has_times(kind):
        return _loads
    shape = tree_shaper(kind)
    return lambda value: shape(_loads(value, ExactFloat))


def _loads(value: bytes, number: Callable[[str], float] | None = None) -> Any:
    found = json.loads(value, parse_float=number)
    if not isinstance(found, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - a value, not a type of ours
    return found


def one_by_one(values: Sequence[bytes], kind: Any, load: Any) -> tuple[Any, list[int]]:
    """Structs from what `load` makes of each value; those that it or Arrow refuses are null."""
    rows: list[Any] = []
    bad: list[int] = []
    for index, value in enumerate(values):
        try:
            rows.append(load(value))
        except (ValueError, OverflowError, RecursionError):
            rows.append(None)
            bad.append(index)
    try:
        return pa.array(rows, kind), bad
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # some row does not fit: find out which
    for index, row in enumerate(rows):
        try:
            pa.array([row], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            rows[index] = None
            bad.append(index)
    return pa.array(rows, kind), sorted(bad)
