"""Kafka RecordBatch v2: look at, check, stamp, encode and decode batches.

The header alone is `batch`'s affair and never opens the records. Encoding and decoding are done by
the compiled codec where it was built, by the readable one elsewhere; `IMPLEMENTATION` says which.
Columns become Arrow with `goqueue.records.arrow.to_arrow`, which alone needs pyarrow.
"""

from typing import Final

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
    stamp,
    validate,
    walk,
)
from goqueue.records.choice import CODEC
from goqueue.records.columns import BinaryColumn, Columns
from goqueue.records.compression import Compression
from goqueue.records.record import Headers, Record

admit = CODEC.admit
encode = CODEC.encode
decode_rows = CODEC.decode_rows
decode_readable = CODEC.decode_readable
decode_columns = CODEC.decode_columns
check_records = CODEC.check_records

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
    "BatchInfo",
    "BinaryColumn",
    "Columns",
    "Compression",
    "Headers",
    "Record",
    "admit",
    "check_records",
    "decode_columns",
    "decode_readable",
    "decode_rows",
    "encode",
    "peek",
    "peek_header",
    "stamp",
    "validate",
    "walk",
]
