"""Arrow rows as records: column by column, so that nothing is done row by row that need not be."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.model.delivery import PRIORITY_HEADER, Priority, delivery_headers
from goqueue.model.errors import GoQueueError
from goqueue.spark import clock
from goqueue.spark.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.records import Headers

_US_PER_MS: Final = 1000
_PRIORITIES: Final = {name: each for each in Priority for name in (each.label, str(each.value))}


class Rows(NamedTuple):
    """Columns of equal length; what a write does not name is None."""

    keys: list[bytes | None] | None
    values: list[bytes | None]
    timestamps_ms: list[int]
    headers: list[Headers] | None
    partitions: list[int | None] | None
    topics: list[str | None] | None
    says_delivery: bool = False
    """A row has a priority or a delay: its topic has to look for the headers that say so."""


def rows_of(batch: pa.RecordBatch, columns: Mapping[str, int]) -> Rows:
    """The rows of one Arrow batch.

    Raises:
        RowError: a priority or a delay makes no sense.
    """
    found = {name: batch.column(at) for name, at in columns.items()}
    now_ms = clock.now_ms()
    moments = found.get("timestamp")
    said = _delivery(found, now_ms)
    return Rows(
        keys=byte_strings(found["key"]) if "key" in found else None,
        values=byte_strings(found["value"]),
        timestamps_ms=(
            [now_ms] * batch.num_rows if moments is None else _milliseconds(moments, now_ms)
        ),
        headers=_headers(found, said),
        partitions=found["partition"].to_pylist() if "partition" in found else None,
        topics=found["topic"].to_pylist() if "topic" in found else None,
        says_delivery=said is not None and any(said),
    )


def byte_strings(column: Any) -> list[bytes | None]:
    """The values of a column of texts or bytes, cut out of Arrow's own buffer."""
    if not len(column):
        return []
    plain = column if column.type == pa.binary() else column.cast(pa.binary())
    _, offsets_buffer, data_buffer = plain.buffers()
    offsets = memoryview(offsets_buffer).cast("i")[plain.offset : plain.offset + len(plain) + 1]
    first = offsets[0]
    data = b"" if data_buffer is None else bytes(memoryview(data_buffer)[first : offsets[-1]])
    ends = offsets.tolist() if first == 0 else [each - first for each in offsets]
    found: list[bytes | None] = [data[start:end] for start, end in pairwise(ends)]
    if plain.null_count:
        for at, is_valid in enumerate(plain.is_valid().to_pylist()):
            if not is_valid:
                found[at] = None
    return found


def _milliseconds(column: Any, default_ms: int) -> list[int]:
    """Moments as milliseconds since the epoch; rounded down, also before it."""
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    millis = pc.divide(micros, _US_PER_MS)  # towards the epoch: too much before it
    is_above = pc.greater(pc.multiply(millis, _US_PER_MS), micros)
    floored = pc.subtract(millis, is_above.cast(pa.int64()))
    filled = pc.fill_null(floored, default_ms)
    found: list[int] = memoryview(filled.buffers()[1]).cast("q")[: len(filled)].tolist()
    return found


def _headers(found: Mapping[str, Any], said: list[Headers] | None) -> list[Headers] | None:
    """The headers of each row, with what says how it is to be delivered behind them.

    A row that names its priority means that one, whatever its headers say: those that were read
    from a topic say what the priority was.
    """
    given = [_pairs(row) for row in found["headers"].to_pylist()] if "headers" in found else None
    if said is None:
        return given
    if given is not None and "priority" in found:
        named = found["priority"].is_valid().to_pylist()
        given = [
            tuple(pair for pair in row if pair[0] != PRIORITY_HEADER) if is_named else row
            for row, is_named in zip(given, named, strict=True)
        ]
    if given is None:
        return said
    return [(*own, *more) for own, more in zip(given, said, strict=True)]


def _pairs(row: Sequence[Mapping[str, Any] | None] | None) -> Headers:
    pairs = []
    for each in row or ():
        if each is None or each["key"] is None:
            raise RowError("a header has no key")
        value = each["value"]
        pairs.append((each["key"], value.encode() if isinstance(value, str) else value))
    return tuple(pairs)


def _delivery(found: Mapping[str, Any], now_ms: int) -> list[Headers] | None:
    if not found.keys() & {"priority", "deliver_at", "delay_ms"}:
        return None
    count = len(found["value"])
    priorities = found["priority"].to_pylist() if "priority" in found else [None] * count
    moments: list[int | None] = [None] * count
    if "delay_ms" in found:
        moments = [
            None if each is None else now_ms + each for each in found["delay_ms"].to_pylist()
        ]
    elif "deliver_at" in found:
        column = found["deliver_at"]
        valid = column.is_valid().to_pylist()
        moments = [
            at if is_there else None
            for at, is_there in zip(_milliseconds(column, 0), valid, strict=True)
        ]
    return [_said(*each) for each in zip(priorities, moments, strict=True)]


def _said(priority: str | int | None, deliver_at_ms: int | None) -> Headers:
    if priority is None and deliver_at_ms is None:
        return ()
    known = None
    if priority is not None:
        known = _PRIORITIES.get(str(priority).strip().lower())
        if known is None:
            raise RowError(
                f"{priority!r} is no priority: expected "
                f"{', '.join(each.label for each in Priority)}, or 0 to 4"
            )
    try:
        return delivery_headers(known, deliver_at_ms, None)
    except GoQueueError as error:
        raise RowError(str(error)) from error
