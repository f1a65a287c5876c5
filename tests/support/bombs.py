"""Batches that are small on the wire and huge once they are open."""

from __future__ import annotations

import gzip
import struct
from functools import cache
from typing import Final

from crc32c import crc32c

from goqueue.records import Compression
from goqueue.records.batch import HEADER, HEADER_BYTES
from goqueue.records.compression import compress

MIB: Final = 1024 * 1024
_ZSTD_BLOCK_BYTES: Final = 128 * 1024


def packed_zeros(codec: Compression, size: int, *, window: int = 0x50) -> bytes:
    """`size` zeros (whole MiB), as small as the codec makes them.

    `window` is the byte with which a zstd frame says how much of its output refers back.
    """
    if codec is Compression.ZSTD:
        block = struct.pack("<I", 1 << 1 | _ZSTD_BLOCK_BYTES << 3)[:3] + b"\0"  # the same byte on
        last = struct.pack("<I", 1)[:3]  # of no bytes
        return (
            b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + block * (size // _ZSTD_BLOCK_BYTES) + last
        )
    if codec is Compression.SNAPPY:
        piece = bytes(compress(codec, bytes(MIB)))
        return piece[:16] + piece[16:] * (size // MIB)
    return _piece(codec) * (size // MIB)


@cache
def _piece(codec: Compression) -> bytes:
    if codec is Compression.GZIP:
        return gzip.compress(bytes(MIB), 9)
    return bytes(compress(codec, bytes(MIB)))


def sealed(stored: bytes, count: int, codec: Compression = Compression.NONE) -> bytes:
    """A batch with a header that fits and a right checksum around any bytes."""
    batch = bytearray(HEADER_BYTES) + stored
    numbers = (0, len(batch) - 12, -1, 2, 0, int(codec), count - 1, 0, 0, -1, -1, -1, count)
    HEADER.pack_into(batch, 0, *numbers)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def varint(number: int) -> bytes:
    """A number that is not negative, as records have it."""
    raw, encoded = number << 1, bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*encoded, raw])


def record(offset: int, value: bytes = b"", headers: int = 0) -> bytes:
    """A record with so many empty headers: two bytes each, and eighty in memory."""
    body = b"\0\0" + varint(offset) + b"\x01" + varint(len(value)) + value
    body += varint(headers) + b"\0\x01" * headers
    return varint(len(body)) + body


def header_bomb(codec: Compression = Compression.ZSTD, *, megabytes: int = 60) -> bytes:
    """One record of nothing but empty headers: 3 KB of zstd that would take 2.3 GB."""
    section = record(0, headers=megabytes * MIB // 2)
    return sealed(bytes(compress(codec, section)), 1, codec)


def many_headers_bomb(codec: Compression = Compression.ZSTD, *, megabytes: int = 60) -> bytes:
    """Records that each keep the limit of their headers, and together have millions of them."""
    each = 30_000
    count = megabytes * MIB // (2 * each)
    section = b"".join(record(number, headers=each) for number in range(count))
    return sealed(bytes(compress(codec, section)), count, codec)


def value_bomb(codec: Compression = Compression.ZSTD, *, megabytes: int = 1024) -> bytes:
    """A batch that would be a gigabyte of zeros."""
    return sealed(packed_zeros(codec, megabytes * MIB), 1, codec)
