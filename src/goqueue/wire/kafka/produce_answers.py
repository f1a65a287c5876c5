"""Answers to Produce as one node reads those of another, by hand: versions 9 to 12."""

from __future__ import annotations

import struct
from typing import Final

from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.produce import (
    DELAYED,
    DELAYED_TAG,
    DUPLICATE_TAG,
    ERROR_NAME_TAG,
    PartitionResult,
    TopicResult,
)

_PARTITION: Final = struct.Struct(">ihqqq")


def parse_response(frame: memoryview) -> list[TopicResult]:
    """A whole answer, header included; how long it was throttled and endpoints are left out.

    Raises:
        MalformedRequestError: it is none.
    """
    cursor = Cursor(frame)
    cursor.int32()  # the number of the request
    cursor.skip_tags()
    return [_topic(cursor) for _ in range(cursor.required_array_length(compact=True))]


def _topic(cursor: Cursor) -> TopicResult:
    name = cursor.required_string(compact=True)
    count = cursor.required_array_length(compact=True)
    partitions = [_partition(cursor) for _ in range(count)]
    cursor.skip_tags()
    return TopicResult(name, None, partitions)


def _partition(cursor: Cursor) -> PartitionResult:
    number, code, first, stamp_ms, log_start = cursor.unpack(_PARTITION)
    refused = []
    for _ in range(cursor.required_array_length(compact=True)):
        index = cursor.int32()
        refused.append((index, cursor.nullable_string(compact=True)))
        cursor.skip_tags()
    text = cursor.nullable_string(compact=True)
    name, is_duplicate = None, False
    delayed: list[tuple[int, int, int]] = []
    for _ in range(cursor.tag_count()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        content = Cursor(cursor.view(size))
        if tag == DELAYED_TAG:
            length = content.bytes_length(compact=True)
            delayed = [
                DELAYED.unpack(content.view(DELAYED.size)) for _ in range(length // DELAYED.size)
            ]
        elif tag == ERROR_NAME_TAG:
            name = content.nullable_string(compact=True)
        elif tag == DUPLICATE_TAG:
            is_duplicate = bool(content.int8())
    return PartitionResult(
        number,
        code,
        first,
        stamp_ms,
        log_start,
        error_message=text,
        record_errors=refused,
        delayed=delayed,
        error_name=name,
        is_duplicate=is_duplicate,
    )
