"""Some of the records of a batch, as a batch: what is sent to those who get no others of it.

The records are copied as they are. Their offsets are relative to the first of the whole batch, so
the part keeps that, and says as compaction does that others are missing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from goqueue.records.batch import CRC_START, HEADER_BYTES, LENGTH_PREFIX_BYTES
from goqueue.records.checksum import crc32c
from goqueue.records.choice import CODEC

if TYPE_CHECKING:
    from goqueue.records.batch import BatchInfo

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_CRC: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">i")
_COUNT_AT: Final = HEADER_BYTES - _COUNT.size


def cut_batch(batch: memoryview, info: BatchInfo, first: int, end: int) -> memoryview | bytearray:
    """The records from one offset up to, not including, another.

    The whole batch where that is not less, or where it is compressed: to open it costs more than
    to send it.

    Raises:
        MalformedRecordError: the records do not parse.
    """
    if info.compression or (first <= info.base_offset and end > info.last_offset):
        return batch
    start, stop, count = CODEC.find_records(
        batch[HEADER_BYTES:], info.count, first - info.base_offset, end - info.base_offset
    )
    part = bytearray(batch[:HEADER_BYTES])
    part += batch[HEADER_BYTES + start : HEADER_BYTES + stop]
    _LENGTH.pack_into(part, _LENGTH_AT, len(part) - LENGTH_PREFIX_BYTES)
    _COUNT.pack_into(part, _COUNT_AT, count)
    _CRC.pack_into(part, CRC_START - _CRC.size, crc32c(memoryview(part)[CRC_START:]))
    return part
