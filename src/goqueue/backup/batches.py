"""Batches of a backup, as a partition takes them: in portions, up to a moment if one is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.partitions.markers import encode_marker, read_marker
from goqueue.records import decode_rows, encode
from goqueue.records.batch import stamp, validate, walk

if TYPE_CHECKING:
    from goqueue.records.batch import BatchInfo

_PORTION_BYTES: Final = 1024 * 1024
"""What is stored before other work of the event loop has its turn."""


class Portions(NamedTuple):
    """Whole batches with their offsets."""

    portions: list[bytearray]
    is_cut: bool
    """What follows is later than was asked for."""


def portions(data: bytes, until_ms: int | None) -> Portions:
    """The batches of a part; takes a while, in any thread.

    A record later than `until_ms` ends them, and the rest of its batch goes with it. The markers at
    the end of transactions forget which coordinator has written them: those of the restored broker
    begin to count anew, and one with a lower number would be taken for a coordinator that was
    replaced.

    Raises:
        BatchError: a batch is damaged.
    """
    done: list[bytearray] = []
    current = bytearray()
    view = memoryview(data)
    for position, info in walk(data):
        validate(data, position, info)
        batch = view[position : position + info.size_bytes]
        is_cut = until_ms is not None and info.max_timestamp > until_ms
        if is_cut and until_ms is not None:
            current += _until(batch, info, until_ms)
        elif info.is_control:
            current += _anonymous(batch, info)
        else:
            current += batch
        if len(current) >= _PORTION_BYTES:
            done.append(current)
            current = bytearray()
        if is_cut:
            return Portions([*done, current] if current else done, is_cut=True)
    return Portions([*done, current] if current else done, is_cut=False)


def filler(first_offset: int, end_offset: int) -> bytearray:
    """A batch without records that takes these offsets, as compaction leaves them."""
    batch = encode([], last_offset_delta=end_offset - first_offset - 1)
    stamp(batch, 0, first_offset, 0)
    return batch


def _anonymous(batch: memoryview, info: BatchInfo) -> bytearray | memoryview:
    end = read_marker(batch)
    if end is None or not end.coordinator_epoch:
        return batch
    marker = encode_marker(end.marker, info.producer_id, info.producer_epoch, 0, info.max_timestamp)
    stamp(marker, 0, info.base_offset, info.leader_epoch)
    return marker


def _until(batch: memoryview, info: BatchInfo, until_ms: int) -> bytes | bytearray:
    """The records of a batch before the first that is later than a moment."""
    kept = []
    if not info.is_control:
        for record in decode_rows(batch, check_crc=False):
            if record.timestamp_ms > until_ms:
                break
            kept.append(record)
    if not kept:
        return b""
    return encode(
        kept,
        attributes=info.attributes,
        base_offset=info.base_offset,
        last_offset_delta=kept[-1].offset - info.base_offset,
        base_timestamp=info.base_timestamp,
        max_timestamp=max(record.timestamp_ms for record in kept),
        leader_epoch=info.leader_epoch,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
    )
