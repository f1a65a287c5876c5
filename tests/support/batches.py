"""Record batches for tests of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.records import Compression, Record, decode_rows, encode, walk

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
        for chunk in log.chunks(offset, max_bytes)
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
