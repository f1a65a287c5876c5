"""The header, the compression and the checksum of a batch whose records are encoded."""

from __future__ import annotations

import struct

from goqueue.model.errors import BatchTooLargeError, MalformedBatchError
from goqueue.model.ids import NO_EPOCH
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.records.batch import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    write_checksum,
)
from goqueue.records.compression import Compression, compress


def seal(
    batch: bytearray,
    count: int,
    *,
    compression: Compression,
    level: int | None,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytearray:
    """A whole batch of `count` records that stand behind room for a header.

    Raises:
        MalformedBatchError: a field of the header does not fit.
        BatchTooLargeError: the batch is larger than `MAX_BATCH_BYTES`.
    """
    _check_size(len(batch))
    if not count:
        compression = Compression.NONE
    if compression:
        section = compress(compression, memoryview(batch)[HEADER_BYTES:], level)
        batch = bytearray(HEADER_BYTES)
        batch += section
        _check_size(len(batch))
    try:
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - LENGTH_PREFIX_BYTES,
            leader_epoch,
            MAGIC,
            0,
            attributes & ~COMPRESSION_MASK | compression,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        )
    except struct.error as error:
        raise MalformedBatchError(f"a field of the batch header does not fit: {error}") from None
    write_checksum(batch)
    return batch


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_BATCH_BYTES:
        raise BatchTooLargeError(
            f"a batch of {size_bytes} bytes; at most {MAX_BATCH_BYTES} are allowed, before "
            "compression and after"
        )
