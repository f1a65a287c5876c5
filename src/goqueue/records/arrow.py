"""Columns as a `pyarrow.RecordBatch` and back, without a copy. Nothing else here needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from goqueue.records.columns import BinaryView

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

_CONTENTS: Final = (
    pa.types.is_binary,
    pa.types.is_string,
    pa.types.is_large_binary,
    pa.types.is_large_string,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
    pa.types.is_string_view,
    pa.types.is_null,
)
"""What an array of keys or values may hold."""


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


def to_view(array: pa.Array[Any]) -> BinaryView:
    """An array of text or bytes as `BatchBuilder.add_many` takes it; other layouts are converted.

    Raises:
        TypeError: it holds something else.
    """
    kind = array.type
    is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not is_large and not pa.types.is_binary(kind) and not pa.types.is_string(kind):
        array = _to_binary(array)
        is_large = True
    validity, ends, data = array.buffers()
    return BinaryView(
        b"" if ends is None else memoryview(ends),
        b"" if data is None else memoryview(data),
        None if validity is None else memoryview(validity),
        array.offset,
        len(array),
        is_large,
    )


def _to_binary(array: pa.Array[Any]) -> pa.Array[Any]:
    kind = array.type
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(check(held) for check in _CONTENTS):
        raise TypeError(f"a column of keys or values must be binary or string, not {kind}")
    return array.cast(pa.large_binary())
