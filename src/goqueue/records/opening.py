"""From a stored batch to its section of records, within bounds.

A batch of a few kilobytes can hold gigabytes: zeros compress ten thousand times, and an empty
header takes two bytes on the wire and eighty in memory. Whoever opens a batch opens it here, so
that what a sender can make the broker allocate stays in proportion to what was sent.
"""

from __future__ import annotations

from typing import Final

from goqueue.model.errors import BatchTooLargeError, MalformedBatchError, MalformedRecordError
from goqueue.model.limits import (
    FREE_BATCH_ITEMS,
    FREE_DECOMPRESSED_BYTES,
    MAX_BATCH_BYTES,
    MAX_DECOMPRESSION_RATIO,
    STORED_BYTES_PER_ITEM,
)
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import HEADER_BYTES, BatchInfo
from goqueue.records.compression import Compression, decompress
from goqueue.records.section import I64_MAX, LEAST_RECORD_BYTES, Section


class Room(NamedTuple):
    """How much a batch may be, once it is open."""

    size_bytes: int
    """Of its records, decompressed."""
    items: int
    """Records and headers together."""


SMALL: Final = Room(1024 * 1024, 10_000)
"""What is opened within a few milliseconds. An event loop hands what is larger to a thread."""


def room_for(stored_bytes: int) -> Room:
    """The most that a batch of that size may be, once it is open."""
    return Room(
        min(MAX_BATCH_BYTES, max(FREE_DECOMPRESSED_BYTES, stored_bytes * MAX_DECOMPRESSION_RATIO)),
        max(FREE_BATCH_ITEMS, stored_bytes // STORED_BYTES_PER_ITEM),
    )


def check_count(info: BatchInfo, room: Room) -> None:
    """Hold a batch to the number of records that may be opened, at the cost of its header.

    Raises:
        BatchTooLargeError: there are more.
    """
    if info.count > room.items:
        raise BatchTooLargeError(
            f"{info.count} records in a batch of {info.size_bytes} bytes, expected at most "
            f"{room.items}; send smaller batches"
        )


def open_section(
    buffer: bytes | bytearray | memoryview,
    position: int,
    info: BatchInfo,
    room: Room | None = None,
) -> Section:
    """The decompressed records of a batch, as far as its header can be believed.

    Raises:
        BatchTooLargeError: there is more than in `room`; without one, than may be opened at all.
        BatchError: each way in which bytes are not an acceptable batch has its own class.
    """
    room = room or room_for(info.size_bytes)
    if info.last_offset > I64_MAX:
        raise MalformedBatchError(f"the last offset {info.last_offset} is out of range")
    stored = memoryview(buffer)[position + HEADER_BYTES : position + info.size_bytes]
    codec = Compression.of(info.compression) if info.compression else Compression.NONE
    if codec is Compression.NONE:
        _check_fit(info, len(stored))
    check_count(info, room)
    data = decompress(codec, stored, room.size_bytes)
    _check_fit(info, len(data))
    if len(data) > room.size_bytes:
        raise BatchTooLargeError(
            f"{len(data)} bytes of records, expected at most {room.size_bytes}"
        )
    return Section(
        data,
        info.count,
        info.base_offset,
        info.last_offset_delta,
        info.base_timestamp,
        info.max_timestamp if info.is_log_append_time else None,
        room.items - info.count,
    )


def _check_fit(info: BatchInfo, size_bytes: int) -> None:
    if info.count * LEAST_RECORD_BYTES > size_bytes:
        raise MalformedRecordError(
            f"{info.count} records cannot fit into {size_bytes} bytes; each takes at least "
            f"{LEAST_RECORD_BYTES}"
        )
