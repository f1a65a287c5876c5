"""A few bytes on the wire never become more memory than a batch may take; honest batches open."""

from __future__ import annotations

import contextlib
import gc
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import (
    BatchError,
    BatchTooLargeError,
    DecompressionError,
    MalformedHeadersError,
)
from goqueue.model.limits import (
    FREE_BATCH_ITEMS,
    FREE_DECOMPRESSED_BYTES,
    MAX_BATCH_BYTES,
    MAX_DECOMPRESSION_RATIO,
    MAX_VALUE_BYTES,
)
from goqueue.records import Compression, Record
from goqueue.records.choice import load
from goqueue.records.compression import compress, decompress
from goqueue.records.opening import SMALL, room_for
from support.alone import alone
from support.bombs import (
    MIB,
    header_bomb,
    many_headers_bomb,
    packed_zeros,
    record,
    sealed,
    value_bomb,
)
from unit.records.record_strategies import CODECS

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.records.codec import Codec

COMPRESSED = [codec for codec in Compression if codec]
each_compression = pytest.mark.parametrize("compression", COMPRESSED)
each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


# --- Memory, measured in a process of its own --------------------------------------------------


def _grown_by(work: Callable[[], object]) -> int:
    """By how many bytes the process was larger at its largest than before."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the kernel measures the peak from here on
    before = _status_bytes("VmRSS")
    work()
    return _status_bytes("VmHWM") - before


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def _expect_refusals() -> None:
    for compression in COMPRESSED:
        for megabytes in (18, 80, 1024):
            packed = packed_zeros(compression, megabytes * MIB)
            allowed = room_for(len(packed)).size_bytes
            if megabytes * MIB <= allowed:
                continue
            batch = sealed(packed, 1, compression)
            limit = allowed + 24 * MIB + (allowed if compression is Compression.ZSTD else 0)
            for codec in CODECS:
                grown = _grown_by(lambda: _refused(codec.decode_rows, batch))  # noqa: B023 - now
                assert grown < limit, (compression, megabytes, codec.name, grown)


def _refused(read: Callable[[bytes], object], batch: bytes) -> None:
    with contextlib.suppress(BatchTooLargeError):
        read(batch)
        raise AssertionError("a bomb was opened")


def _expect_header_refusals() -> None:
    codec = load("native")
    for batch in (header_bomb(), many_headers_bomb(), header_bomb(Compression.LZ4)):
        assert len(batch) < 400_000
        limit = 2 * room_for(len(batch)).size_bytes + 64 * MIB
        for read in (codec.decode_rows, codec.decode_columns, codec.check_records):
            assert _grown_by(lambda: _refused(read, batch)) < limit  # noqa: B023 - called here
        assert _grown_by(lambda: codec.decode_readable(batch)) < limit  # noqa: B023 - as above


def test_a_bomb_of_any_ratio_takes_no_more_memory_than_a_batch_may() -> None:
    alone(_expect_refusals)


def test_millions_of_headers_are_not_made_into_objects() -> None:
    alone(_expect_header_refusals)


# --- What is refused, and what is not ----------------------------------------------------------


@each_codec
@pytest.mark.parametrize("bomb", [header_bomb, many_headers_bomb, value_bomb])
def test_readers_get_a_bomb_as_records_that_do_not_decode(
    codec: Codec, bomb: Callable[[], bytes]
) -> None:
    batch = bomb()
    records, faults = codec.decode_readable(batch)
    assert sum(len(each.headers) for each in records) <= FREE_BATCH_ITEMS
    assert faults[-1].end == codec.decode_readable(batch).faults[-1].end
    assert faults[0].reason


@each_codec
def test_more_records_than_may_be_opened_are_refused_by_the_header_alone(codec: Codec) -> None:
    batch = sealed(packed_zeros(Compression.ZSTD, 16 * MIB), FREE_BATCH_ITEMS + 1, Compression.ZSTD)
    with pytest.raises(BatchTooLargeError, match="expected at most 250000"):
        codec.decode_rows(batch)


@each_codec
def test_headers_of_all_records_count_together(codec: Codec) -> None:
    records, each = 10, FREE_BATCH_ITEMS // 10
    fits = b"".join(record(number, headers=each - 1) for number in range(records))
    assert len(codec.decode_rows(sealed(fits, records))) == records
    over = fits + record(records)
    batch = sealed(over, records + 1)
    for read in (codec.decode_rows, codec.decode_columns, codec.check_records):
        with pytest.raises(BatchTooLargeError, match="headers"):
            read(batch)


@each_codec
def test_what_comes_from_outside_keeps_the_limits_of_values_and_headers(codec: Codec) -> None:
    value = sealed(record(0, bytes(MAX_VALUE_BYTES + 1)), 1)
    with pytest.raises(BatchTooLargeError):
        codec.admit(value)
    headers = sealed(record(0) + record(1, headers=40_000), 2)
    with pytest.raises(MalformedHeadersError) as caught:
        codec.admit(headers)
    assert list(caught.value.refused) == [1]
    assert len(codec.decode_rows(value)) == 1
    assert len(codec.decode_rows(headers)) == 2


@each_codec
def test_a_room_of_the_caller_is_no_fault_of_the_batch(codec: Codec) -> None:
    batch = codec.encode([Record(0, 0, None, bytes(2 * MIB))], compression=Compression.ZSTD)
    assert len(batch) < 10_000
    for read in (codec.decode_readable, codec.check_records, codec.admit):
        with pytest.raises(BatchTooLargeError):
            read(batch, room=SMALL)
    assert codec.decode_readable(batch).faults == []


@each_compression
def test_a_value_of_every_permitted_size_opens_whatever_its_ratio(compression: Compression) -> None:
    codec = load("native")
    batch = codec.encode([Record(0, 0, None, bytes(MAX_VALUE_BYTES))], compression=compression)
    (found,) = codec.admit(batch)
    assert found.value == bytes(MAX_VALUE_BYTES)


@each_compression
def test_repetitive_logs_open_up_to_the_size_of_a_batch(compression: Compression) -> None:
    """A megabyte of logs that compresses fifty times is what a Kafka producer sends."""
    codec = load("native")
    line = b'{"level":"info","service":"checkout","message":"request served","status":200}' * 5
    values = [line + bytes([number % 256, number >> 8]) for number in range(60_000)]
    records = [Record(number, 0, None, value) for number, value in enumerate(values)]
    batch = codec.encode(records, compression=compression)
    assert codec.decode_rows(batch) == records


@each_compression
def test_pieces_of_any_content_come_back_through_every_size_of_buffer(
    compression: Compression,
) -> None:
    rng = random.Random(5)
    for size in (0, 1, 15, 16, 17, 1000, 70_000, 1_200_000, 5 * MIB):
        for piece in (b"\0", rng.randbytes(1000), rng.randbytes(max(size, 1))):
            data = (piece * (size // len(piece) + 1))[:size]
            assert decompress(compression, compress(compression, data)) == data


@each_compression
def test_damage_and_size_are_told_apart(compression: Compression) -> None:
    packed = packed_zeros(compression, 2 * MIB)
    assert len(decompress(compression, packed)) == 2 * MIB
    with pytest.raises(BatchTooLargeError, match="hold more than"):
        decompress(compression, packed, MIB)
    with pytest.raises(DecompressionError):
        decompress(compression, packed[:-2])


def test_a_zstd_frame_that_lies_about_its_size_is_refused() -> None:
    honest = bytearray(compress(Compression.ZSTD, bytes(1000)))
    for size in (10, 2**62):
        frame = b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + honest[-7:]
        with pytest.raises(BatchError):
            decompress(Compression.ZSTD, frame)


def test_a_zstd_window_of_128_mib_costs_what_is_written_into_it() -> None:
    packed = packed_zeros(Compression.ZSTD, MIB, window=0x88)
    assert len(decompress(Compression.ZSTD, packed)) == MIB


def test_the_ratio_bounds_what_is_above_the_free_bytes() -> None:
    assert room_for(1).size_bytes == FREE_DECOMPRESSED_BYTES > MAX_VALUE_BYTES
    assert room_for(30_000).size_bytes == 30_000 * MAX_DECOMPRESSION_RATIO
    assert room_for(1_000_000).size_bytes == MAX_BATCH_BYTES
    assert room_for(MAX_BATCH_BYTES).items > FREE_BATCH_ITEMS
