"""Batches that a topic wants stored otherwise than they were sent. Most topics want no change."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchError, MalformedRecordError
from goqueue.records import LOG_APPEND_TIME, Record, admit, encode
from goqueue.records.batch import CRC_START, BatchInfo, peek
from goqueue.records.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes
    from goqueue.topics.settings import TopicSettings

_ATTRIBUTES: Final = struct.Struct(">h")
_CRC: Final = struct.Struct(">I")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


def rewritten(
    settings: TopicSettings,
    batch: memoryview,
    info: BatchInfo,
    clock: Clock,
    known: list[Record] | BatchError | None = None,
) -> tuple[Bytes, int]:
    """The batch as the topic stores it, and the append time that it was given (-1: none).

    Raises:
        BatchError: the records do not decode, or one without a key goes to a compacted topic.
    """
    append_time = settings.stamps_append_time
    if not settings.compacts and not append_time and settings.codec in (None, info.compression):
        return batch, -1
    records = records_of(batch, known)
    if settings.compacts:
        require_keys(enumerate(records))
    changed = recompressed(settings, batch, info, records)
    if not append_time:
        return changed, -1
    now_ms = clock.now_ms()
    return _stamped(changed, now_ms), now_ms


def records_of(batch: memoryview, known: list[Record] | BatchError | None) -> list[Record]:
    """The records of a batch on its way in, which may have been opened before.

    Raises:
        BatchError: they do not decode, or are over a limit.
    """
    if known is None:
        return admit(batch)
    if isinstance(known, BatchError):
        raise known
    return known


def recompressed(
    settings: TopicSettings, batch: memoryview, info: BatchInfo, records: list[Record]
) -> Bytes:
    """The batch with the compression that the topic wants."""
    codec = settings.codec
    if codec is None or codec == info.compression:
        return batch
    return encode(
        records,
        compression=codec,
        level=settings.compression_level,
        attributes=info.attributes,
        base_offset=info.base_offset,
        last_offset_delta=info.last_offset_delta,
        base_timestamp=info.base_timestamp,
        max_timestamp=info.max_timestamp,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
    )


def _stamped(batch: Bytes, now_ms: int) -> bytearray:
    """A copy whose records all have the time of the append; only the header says so."""
    info = peek(batch)
    changed = bytearray(batch)
    _ATTRIBUTES.pack_into(changed, CRC_START, info.attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(changed, _MAX_TIMESTAMP_AT, now_ms)
    _CRC.pack_into(changed, CRC_START - _CRC.size, crc32c(memoryview(changed)[CRC_START:]))
    return changed


def require_keys(numbered: Iterable[tuple[int, Record]]) -> None:
    """Hold records of a compacted topic, with their places in the batch, to having a key.

    Raises:
        MalformedRecordError: naming every record that has none.
    """
    text = "no key, and the topic is compacted by key"
    refused = {number: text for number, record in numbered if record.key is None}
    if refused:
        raise MalformedRecordError(f"record {min(refused)} has {text}").of_records(refused)
