"""Compression as Kafka frames it, and a bound on what decompressing may yield."""

from __future__ import annotations

import contextlib
import gzip
import struct

import cramjam
import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import (
    BatchTooLargeError,
    DecompressionError,
    UnknownCompressionError,
)
from goqueue.records.compression import Compression, compress, decompress

COMPRESSED = [codec for codec in Compression if codec]
each_compression = pytest.mark.parametrize("codec", COMPRESSED)

data_of_any_size = st.binary(max_size=300) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=100), st.integers(0, 2000)
)


@pytest.mark.parametrize("codec", Compression)
@given(data=data_of_any_size)
def test_decompressing_gives_back_what_was_compressed(codec: Compression, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@each_compression
def test_a_limit_is_kept_to_the_byte(codec: Compression) -> None:
    data = bytes(200_000)
    compressed = compress(codec, data)
    assert bytes(decompress(codec, compressed, limit=len(data))) == data
    with pytest.raises(BatchTooLargeError):
        decompress(codec, compressed, limit=len(data) - 1)


@each_compression
def test_data_that_ends_early_does_not_decompress(codec: Compression) -> None:
    compressed = bytes(compress(codec, b"some text, some text" * 100))
    for length in range(1, len(compressed)):
        cut = compressed[:length]
        if codec is Compression.SNAPPY and length == 16:
            continue  # a header and no blocks: nothing, in good order
        with pytest.raises(DecompressionError):
            decompress(codec, cut, limit=10_000)


@each_compression
@given(data=st.binary(max_size=100))
def test_any_bytes_decompress_or_are_refused(codec: Compression, data: bytes) -> None:
    with contextlib.suppress(DecompressionError, BatchTooLargeError):
        assert len(decompress(codec, data, limit=100_000)) <= 100_000


def test_a_codec_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownCompressionError, match="codec 5"):
        Compression.of(5)


# --- Snappy has two framings -------------------------------------------------------------------


def test_snappy_is_written_in_the_framing_that_java_reads() -> None:
    data = bytes(range(256)) * 300
    compressed = bytes(compress(Compression.SNAPPY, data))
    assert compressed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    blocks, position = [], 16
    while position < len(compressed):
        (length,) = struct.unpack_from(">i", compressed, position)
        block = compressed[position + 4 : position + 4 + length]
        blocks.append(bytes(cramjam.snappy.decompress_raw(block)))
        position += 4 + length
    assert [len(block) for block in blocks] == [32768, 32768, 11264]
    assert b"".join(blocks) == data


def test_a_bare_snappy_block_is_read() -> None:
    data = b"librdkafka sends one block" * 50
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_snappy_with_swapped_version_numbers_is_read() -> None:
    compressed = bytearray(compress(Compression.SNAPPY, b"data"))
    compressed[8:16] = struct.pack("<ii", 1, 1)
    assert decompress(Compression.SNAPPY, compressed) == b"data"


@pytest.mark.parametrize("length", [-1, 2**31 - 1])
def test_a_snappy_block_of_an_impossible_length_is_refused(length: int) -> None:
    compressed = bytearray(compress(Compression.SNAPPY, b"data"))
    compressed[16:20] = struct.pack(">i", length)
    with pytest.raises(DecompressionError, match="block says"):
        decompress(Compression.SNAPPY, compressed)


def test_a_snappy_block_that_claims_to_be_huge_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(DecompressionError, match="4294967295"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(10))


# --- What other encoders write -----------------------------------------------------------------


def test_lz4_is_written_in_independent_blocks() -> None:
    flags = bytes(compress(Compression.LZ4, bytes(100_000)))[4]
    assert flags & 0x20, "the Java client refuses linked blocks"


def test_lz4_of_linked_blocks_and_checksums_is_read() -> None:
    data = b"linked " * 50_000
    assert bytes(decompress(Compression.LZ4, bytes(cramjam.lz4.compress(data)))) == data


def test_gzip_of_several_members_is_read() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"two")
    assert bytes(decompress(Compression.GZIP, members)) == b"one two"


def test_zstd_of_several_frames_is_read() -> None:
    frames = bytes(cramjam.zstd.compress(b"one ")) + bytes(cramjam.zstd.compress(b"two"))
    assert bytes(decompress(Compression.ZSTD, frames)) == b"one two"
