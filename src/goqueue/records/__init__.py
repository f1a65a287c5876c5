"""Kafka RecordBatch v2: look at, check, stamp, encode and decode batches.

The header alone is `batch`'s affair and never opens the records. Encoding and decoding are done by
the compiled codec where it was built, by the readable one elsewhere; `IMPLEMENTATION` says which.
Columns become Arrow with `goqueue.records.arrow.to_arrow`, which alone needs pyarrow.
"""

from typing import TYPE_CHECKING, Final

from goqueue.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    DELIVERY,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchInfo,
    peek,
    peek_header,
    restamp,
    stamp,
    validate,
    walk,
)
from goqueue.records.choice import CODEC
from goqueue.records.columns import BinaryColumn, BinaryView, Columns
from goqueue.records.compression import Compression
from goqueue.records.record import Headers, Record

if TYPE_CHECKING:
    from goqueue.records.builder import BatchBuilder
    from goqueue.records.messages import Message, Messages
else:
    BatchBuilder, Message, Messages = CODEC.BatchBuilder, CODEC.Message, CODEC.Messages

admit = CODEC.admit
encode = CODEC.encode
decode_rows = CODEC.decode_rows
decode_readable = CODEC.decode_readable
decode_columns = CODEC.decode_columns
decode_messages = CODEC.decode_messages
check_records = CODEC.check_records
key_hash = CODEC.key_hash
plain_header = CODEC.plain_header
single_batch = CODEC.single_batch
split_rows = CODEC.split_rows

IMPLEMENTATION: Final = CODEC.name
"""`native` or `reference`."""

__all__ = [
    "CONTROL",
    "DELETE_HORIZON",
    "DELIVERY",
    "HEADER_BYTES",
    "IMPLEMENTATION",
    "LENGTH_PREFIX_BYTES",
    "LOG_APPEND_TIME",
    "TRANSACTIONAL",
    "BatchBuilder",
    "BatchInfo",
    "BinaryColumn",
    "BinaryView",
    "Columns",
    "Compression",
    "Headers",
    "Message",
    "Messages",
    "Record",
    "admit",
    "check_records",
    "decode_columns",
    "decode_messages",
    "decode_readable",
    "decode_rows",
    "encode",
    "key_hash",
    "peek",
    "peek_header",
    "plain_header",
    "restamp",
    "single_batch",
    "split_rows",
    "stamp",
    "validate",
    "walk",
]
