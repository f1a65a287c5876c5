"""Everything that `_native` has, in readable Python."""

from goqueue.records.builder import SectionBuilder
from goqueue.records.fetched import open_plain
from goqueue.records.messages import Messages, Row
from goqueue.records.partitioning import key_hash, split_rows
from goqueue.records.produced import plain_header, single_batch
from goqueue.records.reference import (
    check_records,
    decode_records,
    encode_records,
    fill_columns,
    find_records,
)

__all__ = [
    "Messages",
    "Row",
    "SectionBuilder",
    "check_records",
    "decode_records",
    "encode_records",
    "fill_columns",
    "find_records",
    "key_hash",
    "open_plain",
    "plain_header",
    "single_batch",
    "split_rows",
]
