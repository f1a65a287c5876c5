"""The columns of a topic, and how fetched batches become them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute

from goqueue.model.delivery import PRIORITY_HEADER, Priority
from goqueue.model.errors import BatchError, PriorityError
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.records.arrow import to_arrow
from goqueue.records.batch import COMPRESSION_MASK, DELIVERY, LOG_APPEND_TIME, BatchInfo, walk
from goqueue.records.choice import CODEC
from goqueue.records.committed import committed
from goqueue.records.sound import sound_batch
from goqueue.spark.errors import DataLossError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.records.columns import Columns
    from goqueue.spark.kafka.fetching import Chunk
    from goqueue.spark.kafka.ranges import OffsetRange


_KIND: Final = LOG_APPEND_TIME | DELIVERY
_MAX_COMPRESSED_BYTES: Final = 1 << 20
"""Of one run: what is compressed grows by an unknown factor when it is opened."""


class Run(NamedTuple):
    """Batches that lie behind one another once aborted ones and markers are left out."""

    data: memoryview | bytes
    attributes: int

    @property
    def is_log_append_time(self) -> bool:
        """The log gave the time stamps, not the producers."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delivery_headers(self) -> bool:
        """Some record says how it is to be delivered; in other runs none does."""
        return bool(self.attributes & DELIVERY)


def runs_of(
    data: memoryview,
    batches: Sequence[tuple[int, BatchInfo]],
    aborted: Sequence[tuple[int, int]],
) -> Iterator[Run]:
    """The runs of a fetched chunk.

    Args:
        data: What was fetched.
        batches: Where each whole batch in it starts, with its header.
        aborted: Producer id and first offset of aborted transactions, by rising offset.
    """
    pieces: list[tuple[int, int]] = []
    kind, compressed_bytes = 0, 0
    for position, info in committed(batches, aborted):
        end = position + info.size_bytes
        is_full = compressed_bytes > _MAX_COMPRESSED_BYTES
        if pieces and (info.attributes & _KIND != kind or is_full):
            yield Run(_joined(data, pieces), kind)
            pieces, compressed_bytes = [], 0
        kind = info.attributes & _KIND
        if info.attributes & COMPRESSION_MASK:
            compressed_bytes += info.size_bytes
        if pieces and pieces[-1][1] == position:
            pieces[-1] = (pieces[-1][0], end)
        else:
            pieces.append((position, end))
    if pieces:
        yield Run(_joined(data, pieces), kind)


def _joined(data: memoryview, pieces: Sequence[tuple[int, int]]) -> memoryview | bytes:
    if len(pieces) == 1:
        start, end = pieces[0]
        return data[start:end]
    return b"".join([data[start:end] for start, end in pieces])


_log = logging.getLogger(__name__)

pc: Final[Any] = pyarrow.compute  # its stubs take fewer kinds of arguments than it does

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _HEADER))
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": HEADERS,
    "priority": pa.string(),
    "rawValue": pa.binary(),
}
"""Every column and its type, in the order that Spark's Kafka connector has them; ours come last."""

_MAX_OPEN_BYTES: Final = 2 * MAX_BATCH_BYTES
"""Of batches that are decoded together, decompressed. A run of more is decoded batch by batch."""

_ON_REQUEST: Final = ("headers", "rawValue")

SPARK_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "priority": "string",
    "rawValue": "binary",
}
"""The same for people."""

_NORMAL: Final = Priority.NORMAL.label
_MAX_US: Final = 2**63 - 1
_MAX_MS: Final = _MAX_US // 1000


class _Rows(NamedTuple):
    """The records of one run, and where they are from."""

    source: OffsetRange
    run: Run
    batch: pa.RecordBatch

    @property
    def row_count(self) -> int:
        return self.batch.num_rows

    def column(self, name: str) -> Any:
        """As it was decoded; `Any`, since the stubs do not know what is in it."""
        return self.batch.column(name)


def default_columns(*, include_headers: bool) -> list[str]:
    """What a query sees that asks for nothing in particular."""
    wanted = {"headers"} if include_headers else set()
    return [name for name in ARROW_TYPES if name not in _ON_REQUEST or name in wanted]


class RowBuilder:
    """Makes Arrow batches of exactly the columns wanted."""

    def __init__(
        self,
        schema: pa.Schema,
        columns: Sequence[str],
        parse_values: Callable[[Any, OffsetRange, Any], Any] | None = None,
        *,
        fail_on_data_loss: bool = True,
    ) -> None:
        """Build batches of this schema.

        Args:
            schema: Some of the columns, in any order.
            columns: Which column each field of the schema is.
            parse_values: What makes `value` of the stored bytes, if they are not to stay bytes; it
                is told the offsets too, for what it has to say of a value.
            fail_on_data_loss: Whether records that do not decode are an error; otherwise they are
                left out, with a warning.
        """
        self._fail_on_data_loss = fail_on_data_loss
        self._schema = schema
        self._columns = columns
        self._parse_values = parse_values

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """The rows of a fetched chunk; none of them is empty.

        Raises:
            DataLossError: records do not decode, and that is to be an error.
        """
        source = chunk.source
        for run in runs_of(chunk.data, chunk.batches, chunk.aborted):
            for columns in self._opened(run.data, chunk):
                if columns.count:
                    yield self._build(_Rows(source, run, to_arrow(columns)))

    def _opened(self, data: memoryview | bytes, chunk: Chunk) -> Iterator[Columns]:
        """The rows of a run at once; batch by batch where one is bad, or all are too large."""
        try:
            yield self._decoded(data, chunk)
        except BatchError:
            for position, info in walk(data):
                batch = memoryview(data)[position : position + info.size_bytes]
                try:
                    columns = self._decoded(batch, chunk)
                except BatchError:
                    columns = self._decoded(self._sound(batch, chunk), chunk)
                yield columns

    def _decoded(self, data: memoryview | bytes, chunk: Chunk) -> Columns:
        return CODEC.decode_columns(
            data,
            from_offset=chunk.position,
            until_offset=chunk.source.end,
            limit_bytes=_MAX_OPEN_BYTES,
        )

    def _sound(self, data: memoryview, chunk: Chunk) -> memoryview:
        """A batch without the records that do not decode, unless those are wanted."""
        sound, faults = sound_batch(data)
        for fault in faults:
            if fault.end <= chunk.position or fault.first >= chunk.source.end:
                continue
            text = (
                f"{chunk.source.topic}/{chunk.source.partition}: records at offsets {fault.first} "
                f"to {fault.end - 1} do not decode: {fault.reason}"
            )
            if self._fail_on_data_loss:
                raise DataLossError(f"{text}. Set failOnDataLoss=false to continue without them.")
            _log.warning("%s; continuing, because failOnDataLoss=false", text)
        return sound

    def _build(self, rows: _Rows) -> pa.RecordBatch:
        arrays = [self._column(name, rows) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, rows: _Rows) -> Any:
        if name == "value" and self._parse_values is not None:
            values, offsets = rows.column("value"), rows.column("offset")
            return self._parse_values(values, rows.source, offsets)
        return _COLUMNS[name](rows)


# --- One function a column ---------------------------------------------------------------------


def _plain(name: str) -> Callable[[_Rows], Any]:
    return lambda rows: rows.column(name)


def _topic(rows: _Rows) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(rows.source.topic, pa.string()), rows.row_count)


def _partition(rows: _Rows) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(rows.source.partition, pa.int32()), rows.row_count)


def _timestamp_type(rows: _Rows) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(int(rows.run.is_log_append_time), pa.int32()), rows.row_count)


def _timestamp(rows: _Rows) -> Any:
    milliseconds = rows.column("timestamp")
    try:
        return milliseconds.cast(TIMESTAMP)
    except pa.ArrowInvalid:  # further away than microseconds reach: shown as the end of all days
        plain = milliseconds.cast(pa.int64())
        bounded = pc.max_element_wise(pc.min_element_wise(plain, _MAX_MS), -_MAX_MS)
        return pc.multiply(bounded, 1000).cast(TIMESTAMP)


def _headers(rows: _Rows) -> pa.Array[Any]:
    """Null, not an empty list, for a message without headers: as Spark's Kafka connector has it."""
    headers = rows.column("headers")
    return pa.ListArray.from_arrays(
        headers.offsets,
        headers.values,
        type=HEADERS,
        mask=pc.equal(pc.list_value_length(headers), 0),
    )


def _priority(rows: _Rows) -> pa.Array[Any]:
    if not rows.run.has_delivery_headers:
        return pa.repeat(pa.scalar(_NORMAL, pa.string()), rows.row_count)
    labels = [_NORMAL] * rows.row_count
    headers = rows.column("headers")
    names, values = headers.values.field("key"), headers.values.field("value")
    said = pc.indices_nonzero(pc.equal(names, PRIORITY_HEADER))
    for row, value in zip(
        pc.take(pc.list_parent_indices(headers), said).to_pylist(),
        pc.take(values, said).to_pylist(),
        strict=True,
    ):
        labels[row] = _label(value)
    return pa.array(labels, pa.string())


def _label(value: bytes | None) -> str:
    """What the broker makes of it too: a priority that there is none of is the normal one."""
    try:
        return Priority.parse((value or b"").decode("ascii", "replace")).label
    except PriorityError:
        return _NORMAL


_COLUMNS: Final[dict[str, Callable[[_Rows], Any]]] = {
    "key": _plain("key"),
    "value": _plain("value"),
    "topic": _topic,
    "partition": _partition,
    "offset": _plain("offset"),
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
    "priority": _priority,
    "rawValue": _plain("value"),
}
