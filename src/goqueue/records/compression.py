"""The records section of a batch, compressed and decompressed as Kafka clients frame it.

What is written is what every client reads: gzip as one member, snappy in the block framing of
`snappy-java`, LZ4 as a frame of independent blocks (the Java client refuses linked ones), zstd as
one frame. What is read is wider: also bare snappy blocks, and frames or members in a row.

Bound: decompressing never yields more than `limit` bytes. A batch that would grow further is
refused with `BatchTooLargeError` before more than that is allocated, whatever size it declares.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import cramjam

from goqueue.model.errors import (
    BatchTooLargeError,
    DecompressionError,
    UnknownCompressionError,
)
from goqueue.model.limits import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

Bytes: TypeAlias = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The number that the attributes of a batch carry. `name.lower()` is what users write."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, number: int) -> Compression:
        """The codec of that number.

        Raises:
            UnknownCompressionError: Kafka has no codec of that number.
        """
        try:
            return cls(number)
        except ValueError:
            raise UnknownCompressionError(
                f"compression codec {number} does not exist; known are 0 to {max(cls)}"
            ) from None


def compress(codec: Compression, data: Bytes, level: int | None = None) -> Bytes:
    """`data` in the framing of `codec`; `level` says how hard to try, as each codec counts it."""
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return memoryview(cramjam.gzip.compress(data, level=level))
        case Compression.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            return memoryview(cramjam.zstd.compress(data, level=level))


def decompress(codec: Compression, data: Bytes, limit: int = MAX_BATCH_BYTES) -> Bytes:
    """What `compress` was given.

    Raises:
        DecompressionError: the data is damaged.
        BatchTooLargeError: it holds more than `limit` bytes.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _decompress_frames(cramjam.gzip.decompress_into, data, limit)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), limit)
        case Compression.LZ4:
            return _decompress_frames(cramjam.lz4.decompress_into, data, limit)
        case Compression.ZSTD:
            return _decompress_frames(cramjam.zstd.decompress_into, data, limit)


# --- Formats that do not say how large they are inside, or may lie about it ---------------------

_USUAL_RATIO: Final = 8
_HIGH_RATIO: Final = 64
_CHEAP_BYTES: Final = 1024 * 1024
_USUAL_LZ4_LEVEL: Final = 1
_UNFILLED: Final = bytes.fromhex("9b1f6ad05ce2834707f1b86e3dca5294")
"""At the end of a buffer for as long as nothing was written there."""


def _decompress_frames(
    decompress_into: Callable[[Any, Any], int], data: Bytes, limit: int
) -> memoryview:
    """Decompress into a buffer of a guessed size, and if that is full into one of the limit's size.

    The large buffer costs what is written into it: its pages come as they are touched, and go with
    the view that is returned.
    """
    guess = max(len(data) * _USUAL_RATIO, min(len(data) * _HIGH_RATIO, _CHEAP_BYTES))
    if guess < limit:
        found = _decompress_into(decompress_into, data, memoryview(bytearray(guess)))
        if found is not None:
            return found
    room = memoryview(mmap(-1, max(limit, len(_UNFILLED)), MAP_PRIVATE | MAP_ANONYMOUS))
    found = _decompress_into(decompress_into, data, room[:limit])
    if found is None:
        raise _too_large(len(data), limit)
    return found


def _decompress_into(
    decompress_into: Callable[[Any, Any], int], data: Bytes, room: memoryview
) -> memoryview | None:
    """What was decompressed; None when there is more than fits.

    The library reports a full buffer and damaged data with one class; the mark tells them apart.
    """
    mark = _UNFILLED[: len(room)]
    room[len(room) - len(mark) :] = mark
    try:
        return room[: decompress_into(data, room)]
    except cramjam.DecompressionError as error:
        if room[len(room) - len(mark) :] != mark or not mark:
            return None
        raise DecompressionError(f"{len(data)} compressed bytes are damaged: {error}") from error


def _too_large(compressed_bytes: int, limit: int) -> BatchTooLargeError:
    return BatchTooLargeError(
        f"{compressed_bytes} compressed bytes hold more than {limit} bytes, which is the most that "
        "may be decompressed of them; send smaller batches"
    )


def _compress_lz4(data: Bytes, level: int | None) -> memoryview:
    level = _USUAL_LZ4_LEVEL if level is None else level
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return memoryview(compressor.finish())


# --- Snappy: bare blocks, and the framing of snappy-java ---------------------------------------

_SNAPPY_JAVA_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_JAVA_HEADER: Final = _SNAPPY_JAVA_MAGIC + struct.pack(">ii", 1, 1)
_SNAPPY_JAVA_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")
_SNAPPY_RATIO: Final = 22
"""More than a byte of snappy can hold: its best element copies 64 bytes and takes three."""


def _compress_snappy(data: memoryview) -> bytearray:
    output = bytearray(_SNAPPY_JAVA_HEADER)
    for start in range(0, len(data), _SNAPPY_JAVA_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(data[start : start + _SNAPPY_JAVA_BLOCK_BYTES])
        output += _BLOCK_LENGTH.pack(len(block))
        output += memoryview(block)
    return output


def _decompress_snappy(data: memoryview, limit: int) -> bytearray:
    """Both framings. The two version numbers are not looked at: some clients swap their bytes."""
    if bytes(data[: len(_SNAPPY_JAVA_MAGIC)]) != _SNAPPY_JAVA_MAGIC:
        return _decompress_snappy_block(data, limit)
    output = bytearray()
    position, end = len(_SNAPPY_JAVA_HEADER), len(data)
    if position > end:
        raise DecompressionError("the snappy data ends inside its header")
    while position < end:
        start = position + _BLOCK_LENGTH.size
        if start > end:
            raise DecompressionError("the snappy data ends inside the length of a block")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position = start + length
        if length < 0 or position > end:
            raise DecompressionError(
                f"a snappy block says it is {length} bytes long, {end - start} are left"
            )
        output += _decompress_snappy_block(data[start:position], limit - len(output))
    return output


def _decompress_snappy_block(block: memoryview, limit: int) -> bytearray:
    """A block says how large it is inside; that is checked before anything is allocated."""
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO:
            raise DecompressionError(
                f"a snappy block of {len(block)} bytes says it holds {size}, which it cannot"
            )
        if size > limit:
            raise _too_large(len(block), limit)
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"a snappy block is damaged: {error}") from error
    return output
