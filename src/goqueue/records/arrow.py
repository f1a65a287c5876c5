"""Columns as a `pyarrow.RecordBatch`, without a copy. The only module here that needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from goqueue.records.columns import BinaryColumn, Columns

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_HEADERS: Final = pa.list_(_HEADER)
_TIMESTAMP: Final = pa.timestamp("ms", tz="UTC")

_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("offset", pa.int64()),
    ("timestamp", _TIMESTAMP),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", _HEADERS),
]
SCHEMA: Final = pa.schema(_FIELDS)


def to_arrow(columns: Columns) -> pa.RecordBatch:
    """The same memory as Arrow sees it; it lives as long as the result does."""
    names = _binary_array(pa.string(), columns.header_count, columns.header_names)
    values = _binary_array(pa.binary(), columns.header_count, columns.header_values)
    headers = pa.Array.from_buffers(_HEADER, columns.header_count, [None], children=[names, values])
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(pa.int64(), columns.count, [None, _buffer(columns.offsets)]),
            pa.Array.from_buffers(_TIMESTAMP, columns.count, [None, _buffer(columns.timestamps)]),
            _binary_array(pa.binary(), columns.count, columns.keys),
            _binary_array(pa.binary(), columns.count, columns.values),
            pa.Array.from_buffers(
                _HEADERS, columns.count, [None, _buffer(columns.header_ends)], children=[headers]
            ),
        ],
        schema=SCHEMA,
    )


def _binary_array(kind: pa.DataType, count: int, column: BinaryColumn) -> pa.Array[Any]:
    validity = _buffer(column.validity) if column.null_count else None
    return pa.Array.from_buffers(
        kind, count, [validity, _buffer(column.ends), _buffer(column.data)], column.null_count
    )


def _buffer(data: bytes) -> pa.Buffer:
    return pa.py_buffer(data)
