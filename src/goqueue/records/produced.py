"""The batches of Produce requests that are stored as they were sent, checked in one pass.

Each is looked at by its header and its checksum. None always says the same: that the request or
the batch is to be looked at more closely, by who can say what is wrong with it, if anything is.
`_native_produced.c` is the compiled twin.
"""

from __future__ import annotations

import struct
from typing import Final

from goqueue.model.limits import FREE_BATCH_ITEMS
from goqueue.records.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    BatchInfo,
    info_of,
)
from goqueue.records.checksum import crc32c
from goqueue.records.compression import Compression
from goqueue.records.section import LEAST_RECORD_BYTES

_LAST_CODEC: Final = max(Compression)
"""Attributes up to this are a codec, and nothing else."""

_HEADER_START: Final = struct.Struct(">2xh4xH")
"""API, version, number of the request, and how long the client's id is."""
_NO_CLIENT_ID: Final = 0xFFFF
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13
_ID_BYTES: Final = 16
_BODY_START_BYTES: Final = 9
"""Tagged fields of the header, transaction, acks, timeout, and how many topics."""
_ONE: Final = 2
"""As compact arrays count."""
_PARTITION_START_BYTES: Final = 5
"""How many partitions, and the first of them."""
_MAX_SHIFT: Final = 21
"""A varint of more bytes is larger than any frame."""
_NO_TAGS: Final = bytes(3)
"""After the last partition: of it, of its topic, and of the request."""


def plain_header(batch: memoryview) -> BatchInfo | None:
    """The header of a sound batch that asks for nothing but to be stored."""
    size_bytes = len(batch)
    if size_bytes < HEADER_BYTES:
        return None
    info = info_of(HEADER.unpack_from(batch))
    _, length, _, magic, crc, attributes, last_delta, _, _, _, _, _, count = info
    if (
        length != size_bytes - LENGTH_PREFIX_BYTES
        or magic != MAGIC
        or not 0 <= attributes <= _LAST_CODEC
        or not 0 < count <= FREE_BATCH_ITEMS
        or count != last_delta + 1
        or (not attributes and count * LEAST_RECORD_BYTES > size_bytes - HEADER_BYTES)
        or crc32c(batch[CRC_START:]) != crc
    ):
        return None
    return info


def single_batch(frame: memoryview) -> tuple[bytes, memoryview, BatchInfo] | None:
    """The batch of a request with one, from version 9 on, and its header if that is plain.

    Before them everything up to the batch but the number of the request: requests in which that is
    the same come from the same client and ask for the same, with other records.
    """
    try:
        version, client_bytes = _HEADER_START.unpack_from(frame)
        at = _HEADER_START.size + (0 if client_bytes == _NO_CLIENT_ID else client_bytes)
        at += _BODY_START_BYTES
        topic_count = frame[at - 1]
        at += _ID_BYTES if version >= _TOPIC_IDS_FROM else frame[at]
        if version < _FLEXIBLE_FROM or topic_count != _ONE or frame[at] != _ONE:
            return None
        at += _PARTITION_START_BYTES
        alike = bytes(frame[:4]) + bytes(frame[8:at])
        size = shift = 0
        while (byte := frame[at]) >= 0x80:
            size |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > _MAX_SHIFT:
                return None
    except (IndexError, struct.error):
        return None
    stop = at + (size | byte << shift)
    if stop <= at or frame[stop : stop + 3] != _NO_TAGS:
        return None
    batch = frame[at + 1 : stop]
    info = plain_header(batch)
    return None if info is None else (alike, batch, info)
