"""Batches rid of records that do not decode, for readers who would stop at the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.records.batch import peek
from goqueue.records.choice import CODEC

if TYPE_CHECKING:
    from goqueue.records.salvage import Fault


def sound_batch(
    buffer: bytes | bytearray | memoryview, position: int = 0
) -> tuple[memoryview, list[Fault]]:
    """The batch at `position` with the records that decode, and what was left out.

    Offsets, times, sequences and attributes stay; what was compressed is not any more. A batch
    without faults is returned as it is.
    """
    info = peek(buffer, position)
    records, faults = CODEC.decode_readable(buffer, position)
    if not faults:
        return memoryview(buffer)[position : position + info.size_bytes], []
    encoded = CODEC.encode(
        records,
        attributes=info.attributes,
        base_offset=info.base_offset,
        last_offset_delta=info.last_offset_delta,
        base_timestamp=info.base_timestamp,
        max_timestamp=info.max_timestamp,
        leader_epoch=info.leader_epoch,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
    )
    return memoryview(encoded), faults
