"""What a file's columns hold at least and at most, in the words of Delta's log.

Left out where readers could draw a wrong conclusion: of floats, which may hide a NaN, and of what
is long or nested.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa

_LONGEST_TEXT: Final = 64


def delta_stats(metadata: Any, schema: pa.Schema) -> str:
    """The statistics of a file as JSON.

    Args:
        metadata: The footer of the file.
        schema: Its columns.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    flat = {each.name: each.type for each in schema if not pa.types.is_nested(each.type)}
    for place in range(metadata.num_columns):
        name = metadata.schema.column(place).path
        if name in flat:
            _add(name, _column(metadata, place), flat[name], (least, most, nulls))
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": least,
            "maxValues": most,
            "nullCount": nulls,
        },
        ensure_ascii=False,
    )


def _column(metadata: Any, place: int) -> list[Any]:
    groups = range(metadata.num_row_groups)
    return [metadata.row_group(each).column(place).statistics for each in groups]


def _add(
    name: str,
    groups: list[Any],
    kind: pa.DataType,
    into: tuple[dict[str, Any], dict[str, Any], dict[str, int]],
) -> None:
    least, most, nulls = into
    if any(each is None or not each.has_null_count for each in groups):
        return
    nulls[name] = sum(each.null_count for each in groups)
    # A group of nulls alone has no least value, and needs none.
    said = [each for each in groups if each.num_values or each.has_min_max]
    if not said or not _is_told(kind) or not all(each.has_min_max for each in said):
        return
    try:
        low, high = min(each.min for each in said), max(each.max for each in said)
    except (OverflowError, ValueError):  # a date that Python does not have
        return
    texts = _text(low), _text(high)
    if None not in texts:
        least[name], most[name] = texts


def _is_told(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_string(kind)
        or (pa.types.is_timestamp(kind) and kind.tz is not None)
    )


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return value
