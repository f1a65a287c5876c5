"""Which traces the records of a batch name, found with as little opening of batches as possible."""

from __future__ import annotations

import re
from typing import Final

from goqueue.model.errors import BatchError
from goqueue.records import Compression, Headers, decode_rows
from goqueue.records.batch import HEADER_BYTES, BatchInfo, peek_header
from goqueue.records.compression import decompress
from goqueue.records.opening import Room
from goqueue.tracing.context import TRACEPARENT_HEADER, TraceContext, context_in
from goqueue.tracing.index import Traced

_ROOM: Final = Room(4 * 1024 * 1024, 100_000)
"""What is opened on the way in, to look for traces. A larger batch names none: it is stored all the
same, and others wait."""
_NAME: Final = re.compile(re.escape(TRACEPARENT_HEADER.encode()))


def traced_batch(batch: memoryview, first: int, end: int, *, only_named: bool = False) -> Traced:
    """A batch that lies at [first, end) of its partition, and the traces that its records name.

    Records that say that they are not sampled are left out; with `only_named`, also those that
    name no trace. What is compressed must be decompressed to see; only what has the header is
    decoded. A batch that cannot be opened names nothing: whoever reads it will be told.
    """
    info = peek_header(batch)
    is_dense = info.count == info.last_offset_delta + 1
    try:
        if is_dense and not only_named and not _may_name(batch, info):
            return Traced(first, end, {})
        records = decode_rows(batch, check_crc=False, room=_ROOM)
        shift = first - info.base_offset
        own: dict[int, TraceContext | None] = {}
        if only_named or not is_dense:
            own = dict.fromkeys(range(first, end))
        for record in records:
            offset = record.offset + shift
            context = sampled_context(record.headers)
            if context is not None:
                own[offset] = context
            elif not only_named and context_in(record.headers) is None:
                own.pop(offset, None)
            else:
                own[offset] = None
    except BatchError:
        return Traced(first, end, {})
    return Traced(first, end, own)


def _may_name(batch: memoryview, info: BatchInfo) -> bool:
    if info.compression == 0:
        return _NAME.search(batch) is not None
    packed, codec = batch[HEADER_BYTES : info.size_bytes], Compression.of(info.compression)
    return _NAME.search(decompress(codec, packed, _ROOM.size_bytes)) is not None


def sampled_context(headers: Headers) -> TraceContext | None:
    """The trace that headers name, if it is sampled."""
    if not headers:
        return None
    found = context_in(headers)
    return found[0] if found is not None and found[1] else None
