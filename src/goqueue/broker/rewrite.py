"""Batches that a topic wants stored otherwise than they were sent. Most topics want no change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import MalformedRecordError
from goqueue.records import LOG_APPEND_TIME, Compression, decode_rows, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.broker.settings import TopicSettings
    from goqueue.records import Record
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes


def rewritten(
    settings: TopicSettings, batch: memoryview, info: BatchInfo, clock: Clock
) -> tuple[Bytes, int]:
    """The batch as the topic stores it, and the append time that it was given (-1: none).

    Raises:
        BatchError: the records do not decode, or one without a key goes to a compacted topic.
    """
    codec, append_time = settings.codec, settings.stamps_append_time
    recompress = codec is not None and codec != info.compression
    if settings.compacts:
        require_keys(enumerate(decode_rows(batch)))
    if not append_time and not recompress:
        return batch, -1
    now_ms = clock.now_ms() if append_time else -1
    changed = encode(
        decode_rows(batch),
        compression=Compression.of(info.compression) if codec is None else codec,
        level=settings.compression_level,
        attributes=info.attributes | (LOG_APPEND_TIME if append_time else 0),
        base_offset=info.base_offset,
        last_offset_delta=info.last_offset_delta,
        base_timestamp=info.base_timestamp,
        max_timestamp=now_ms if append_time else info.max_timestamp,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
    )
    return changed, now_ms


def require_keys(numbered: Iterable[tuple[int, Record]]) -> None:
    """Hold records of a compacted topic, with their places in the batch, to having a key.

    Raises:
        MalformedRecordError: naming every record that has none.
    """
    text = "no key, and the topic is compacted by key"
    refused = {number: text for number, record in numbered if record.key is None}
    if refused:
        raise MalformedRecordError(f"record {min(refused)} has {text}").of_records(refused)
