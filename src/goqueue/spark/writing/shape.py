"""The columns that a write has: checked by name and type before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark.errors import ColumnsError
from goqueue.spark.wording import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from goqueue.spark.options.write_options import WriteOptions

_TEXTS: Final = ("binary", "string")
_WHOLE: Final = ("int", "bigint", "smallint", "tinyint")
_HEADERS: Final = (
    "array<struct<key:string,value:binary>>",
    "array<struct<key:string,value:string>>",
)
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "value": _TEXTS,
    "key": _TEXTS,
    "headers": _HEADERS,
    "partition": ("int",),
    "topic": ("string",),
    "timestamp": ("timestamp",),
    "priority": ("string", "int"),
    "deliver_at": ("timestamp",),
    "delay_ms": _WHOLE,
    "offset": ("bigint",),
    "timestampType": ("int",),
}
"""What each column may be, in Spark's words. The last two are what reading a topic gives: they are
let through and not looked at."""
_BY_LOWER_NAME: Final = {name.lower(): name for name in COLUMNS}
_LATER: Final = ("deliver_at", "delay_ms")


def write_columns(schema: StructType, options: WriteOptions) -> dict[str, int]:
    """Where each of our columns is in the rows.

    Raises:
        ColumnsError: with everything that is wrong.
    """
    found, problems = _found(schema.names)
    for name, at in found.items():
        kind = schema.fields[at].dataType.simpleString()
        if kind not in COLUMNS[name]:
            problems.append(f"{name} is {kind}: expected {' or '.join(COLUMNS[name])}")
    if "value" not in found:
        problems.append("there is no column value, which is what a message is")
    if options.topic is None and "topic" not in found:
        problems.append("there is neither an option nor a column topic")
    problems += _later_problems(found, options)
    if problems:
        raise ColumnsError(
            "\n".join(["the rows cannot be written:", *map("  - {}".format, problems)])
        )
    return found


def _found(names: list[str]) -> tuple[dict[str, int], list[str]]:
    found: dict[str, int] = {}
    problems = []
    for at, name in enumerate(names):
        known = _BY_LOWER_NAME.get(name.lower())
        if known is None:
            problems.append(
                f"a message has no {name}{nearest(name, COLUMNS)}: select {', '.join(COLUMNS)}, or "
                "make it part of value"
            )
        elif known in found:
            problems.append(f"there are two columns {known}")
        else:
            found[known] = at
    return found, problems


def _later_problems(found: Mapping[str, int], options: WriteOptions) -> list[str]:
    later = [name for name in _LATER if name in found]
    if len(later) > 1:
        return ["deliver_at and delay_ms say the same: keep one of them"]
    if later and options.is_transactional:
        reason = "a transaction cannot hold delayed messages"
        return [f"{later[0]}: {reason}. Leave the column out, or set guarantee=at-least-once"]
    return []
