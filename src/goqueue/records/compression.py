"""The records section of a batch, compressed and decompressed as Kafka clients frame it.

What is written is what every client reads: gzip as one member, snappy in the block framing of
`snappy-java`, LZ4 as a frame of independent blocks (the Java client refuses linked ones), zstd as
one frame. What is read is wider: also bare snappy blocks, and frames or members in a row.

Bound: decompressing never yields more than `limit` bytes. A batch that would grow further is
refused with `DecompressionError` before more than that is allocated.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import cramjam

from goqueue.model.errors import DecompressionError, UnknownCompressionError
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
        DecompressionError: the data is damaged, or holds more than `limit` bytes.
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


# --- Formats that do not say how large they are inside -----------------------------------------

_USUAL_RATIO: Final = 8
_HIGH_RATIO: Final = 64
_CHEAP_BYTES: Final = 1024 * 1024
_USUAL_LZ4_LEVEL: Final = 1


def _decompress_frames(
    decompress_into: Callable[[Any, Any], int], data: Bytes, limit: int
) -> Bytes:
    """Decompress into a buffer of a guessed size, and if that fails into one of the limit's size.

    The library reports a full buffer and damaged data with one class, so damage too is tried
    twice. The large buffer costs what is written into it: its pages come as they are touched.
    """
    guess = max(len(data) * _USUAL_RATIO, min(len(data) * _HIGH_RATIO, _CHEAP_BYTES))
    guess = min(limit, guess)
    try:
        return _decompress_into(decompress_into, data, bytearray(guess))
    except cramjam.DecompressionError as error:
        if guess == limit:
            raise _refusal(data, limit, error) from error
    with mmap(-1, limit, MAP_PRIVATE | MAP_ANONYMOUS) as pages, memoryview(pages) as room:
        try:
            with _decompress_into(decompress_into, data, room) as view:
                return view.tobytes()
        except cramjam.DecompressionError as error:
            raise _refusal(data, limit, error) from error


def _decompress_into(
    decompress_into: Callable[[Any, Any], int], data: Bytes, room: bytearray | memoryview
) -> memoryview:
    return memoryview(room)[: decompress_into(data, room)]


def _refusal(data: Bytes, limit: int, error: Exception) -> DecompressionError:
    return DecompressionError(
        f"{len(data)} compressed bytes are damaged or hold more than {limit} bytes: {error}"
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
        if size > limit:
            raise DecompressionError(
                f"a snappy block says it holds {size} bytes, only {limit} more are allowed"
            )
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"a snappy block is damaged: {error}") from error
    return output
