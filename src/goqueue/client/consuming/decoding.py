"""From the batches of a fetch to what a program takes: messages, or an Arrow table.

A batch whose records do not all decode costs its neighbours nothing: what does not decode is left
out, and logged. A batch whose checksum is wrong is an error, because nobody knows what is in it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from goqueue.model.errors import BatchError, ChecksumMismatchError, TruncatedBatchError
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import (
    Message,
    decode_columns,
    decode_messages,
    decode_readable,
    peek,
    validate,
)
from goqueue.records.columns import build_columns, wrap_columns
from goqueue.records.committed import committed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from goqueue.records import BatchInfo, Record

_log = logging.getLogger(__name__)

_MAX_OPENED_BYTES: Final = 64 * 1024 * 1024
"""Of the batches of one fetch together, decompressed; the others are fetched again."""


class Fetched(NamedTuple):
    """What a broker has sent of one partition."""

    place: TopicPartition
    records: memoryview
    offset: int
    """Messages below it were not asked for."""
    until: int | None
    """Nor were messages from this one on."""
    aborted: Sequence[tuple[int, int]]
    """Producer id and first offset of each aborted transaction, in the order of the offsets."""


class Chunk(msgspec.Struct, frozen=True):
    """What a program takes at once of one partition."""

    place: TopicPartition
    content: Any
    """Messages, or Arrow."""
    count: int
    next_offset: int
    size_bytes: int


Decode: TypeAlias = "Callable[[Fetched], Chunk]"


def messages_of(fetched: Fetched) -> Chunk:
    """The messages of a fetch, which are decoded as they are asked for.

    Raises:
        ChecksumMismatchError: some bit is not what the producer wrote.
        BatchError: these are no batches.
    """
    place, records, offset, until, aborted = fetched
    try:
        found = decode_messages(
            *place,
            records,
            from_offset=offset,
            until_offset=until,
            aborted=aborted,
            limit_bytes=_MAX_OPENED_BYTES,
        )
    except ChecksumMismatchError:
        raise
    except BatchError:
        rows, end = _salvage(fetched)
        messages = [
            Message(*place, row.offset, row.timestamp_ms, row.key, row.value, row.headers)
            for row in rows
        ]
        return Chunk(place, messages, len(rows), end, len(records))
    end = offset if found.next_offset is None else found.next_offset
    return Chunk(place, found, len(found), end, found.size_bytes)


def arrow_of(fetched: Fetched) -> Chunk:
    """The messages of a fetch as a `pyarrow.Table`. Raises like `messages_of`."""
    import pyarrow as pa  # noqa: PLC0415 - only those who want Arrow need it

    from goqueue.records.arrow import to_arrow  # noqa: PLC0415 - likewise

    place, records, offset, until, aborted = fetched
    try:
        columns = decode_columns(records, from_offset=offset, until_offset=until, aborted=aborted)
    except ChecksumMismatchError:
        raise
    except BatchError:
        rows, next_offset = _salvage(fetched)
        columns = wrap_columns(build_columns(rows), next_offset=next_offset, remainder_bytes=0)
    partitions = pa.repeat(pa.scalar(place.partition, pa.int32()), columns.count)
    table = pa.Table.from_batches([to_arrow(columns)]).add_column(0, "partition", partitions)
    end = offset if columns.next_offset is None else columns.next_offset
    return Chunk(place, table, columns.count, end, table.nbytes)


# --- One batch after the other --------------------------------------------------------------------


def _salvage(fetched: Fetched) -> tuple[list[Record], int]:
    """Every record that decodes, and where to read on."""
    end = fetched.offset
    found: list[Record] = []
    until = fetched.until
    for position, info in committed(_walk(fetched.records), fetched.aborted):
        validate(fetched.records, position, info)
        rows, faults = decode_readable(fetched.records, position)
        for fault in faults:
            _log.warning(
                "%s: messages %d to %d do not decode and are left out: %s",
                fetched.place,
                fault.first,
                fault.end - 1,
                fault.reason,
            )
        found += [
            row
            for row in rows
            if row.offset >= fetched.offset and (until is None or row.offset < until)
        ]
    for _, info in _walk(fetched.records):
        end = info.next_offset
    return found, end if until is None else min(end, until)


def _walk(records: memoryview) -> Iterator[tuple[int, BatchInfo]]:
    """Each whole batch; the last one may be cut off."""
    position = 0
    while position < len(records):
        try:
            info = peek(records, position)
        except TruncatedBatchError:
            return
        yield position, info
        position += info.size_bytes
