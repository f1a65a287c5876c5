"""Record batches for tests of the log."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from crc32c import crc32c

from goqueue.records import HEADER_BYTES, Compression, Record, decode_rows, encode, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.storage.log import Log


def batch(
    count: int = 1,
    *,
    value: bytes = b"value",
    timestamps: Sequence[int] | None = None,
    compression: Compression = Compression.NONE,
) -> bytearray:
    """A batch as a producer sends it: offsets from 0, to be stamped by the log."""
    times = timestamps or [1000] * count
    records = [
        Record(number, time, b"key-%d" % number, value, (("name", b"header"),))
        for number, time in enumerate(times)
    ]
    return encode(records, compression=compression)


def values(log: Log, offset: int = 0, max_bytes: int = 1 << 20) -> list[tuple[int, bytes | None]]:
    """Everything readable from an offset on, as (offset, value); damage is skipped."""
    return [
        (record.offset, record.value)
        for chunk in log.chunks(offset, max_bytes=max_bytes)
        for position, _ in walk(chunk.data)
        for record in decode_rows(chunk.data, position)
        if record.offset >= offset
    ]


def fill(log: Log, batches: int, records: int = 3, size: int = 40) -> list[bytes]:
    """Append so many batches, each its own; returns them as they were stored."""
    stored = []
    for number in range(batches):
        data = batch(records, value=b"%06d" % number + b"." * size)
        log.append(data)
        stored.append(bytes(data))
    return stored


def garbage_batch(count: int, *, good: int = 0, size: int = 200) -> bytes:
    """A batch with a right checksum of which only the first `good` records are records."""
    records = [Record(at, 1000, None, b"good %d" % at) for at in range(count)]
    header = encode(records)[:HEADER_BYTES]
    whole = encode(records[:good])[HEADER_BYTES:] if good else b""
    return sealed(header + whole + b"\xff" * max(size, 7 * count))


def batch_with_bad_record(count: int, bad: int) -> bytes:
    """A batch with a right checksum of which one record does not decode."""
    batch = encode([Record(at, 1000, None, b"value-%04d" % at) for at in range(count)])
    name = b"value-%04d" % bad
    at = batch.index(name)
    batch[at - 5 : at + len(name) + 1] = b"\xff" * (len(name) + 6)  # all but its length
    return sealed(batch)


def sealed(batch: bytearray) -> bytes:
    """A changed batch with the length and checksum that it would have, had a client sent it."""
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)
