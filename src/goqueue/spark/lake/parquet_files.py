"""Rows of a task into Parquet files: one set a partition, of bounded size, in bounded memory."""

from __future__ import annotations

import contextlib
import json
import os
from collections import OrderedDict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from goqueue.spark.lake.partitions import folder_of, value_text
from goqueue.spark.lake.staging import DataFile, Staging, file_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goqueue.spark.writing.task_identity import Attempt


_LONGEST_TEXT: Final = 64


def delta_stats(metadata: Any, schema: pa.Schema) -> str:
    """The statistics of a file as JSON.

    Args:
        metadata: The footer of the file.
        schema: Its columns.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    flat = {each.name: each.type for each in schema if not pa.types.is_nested(each.type)}
    for place in range(metadata.num_columns):
        name = metadata.schema.column(place).path
        if name in flat:
            _add(name, _column(metadata, place), flat[name], (least, most, nulls))
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": least,
            "maxValues": most,
            "nullCount": nulls,
        },
        ensure_ascii=False,
    )


def _column(metadata: Any, place: int) -> list[Any]:
    groups = range(metadata.num_row_groups)
    return [metadata.row_group(each).column(place).statistics for each in groups]


def _add(
    name: str,
    groups: list[Any],
    kind: pa.DataType,
    into: tuple[dict[str, Any], dict[str, Any], dict[str, int]],
) -> None:
    least, most, nulls = into
    if any(each is None or not each.has_null_count for each in groups):
        return
    nulls[name] = sum(each.null_count for each in groups)
    # A group of nulls alone has no least value, and needs none.
    said = [each for each in groups if each.num_values or each.has_min_max]
    if not said or not _is_told(kind) or not all(each.has_min_max for each in said):
        return
    try:
        low, high = min(each.min for each in said), max(each.max for each in said)
    except (OverflowError, ValueError):  # a date that Python does not have
        return
    texts = _text(low), _text(high)
    if None not in texts:
        least[name], most[name] = texts


def _is_told(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_string(kind)
        or (pa.types.is_timestamp(kind) and kind.tz is not None)
    )


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return value


ROW_GROUP_BYTES: Final = 32 << 20
"""Of one row group in memory; then it is written."""
BUFFER_BYTES: Final = 96 << 20
"""Of all row groups that an attempt fills at the same time; then the largest is written."""
OPEN_FILES: Final = 64
"""Of one attempt; then the one that had no row for longest is closed, and more files come of it."""
_ROW: Final = "__goqueue_row__"


class PartitionedWriter:
    """Everything that one attempt of a task writes."""

    def __init__(
        self,
        staging: Staging,
        attempt: Attempt,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        keeps_partition_columns: bool = False,
        values: Mapping[str, str | None] | None = None,
        below: str = "",
        target_bytes: int,
        compression: str,
    ) -> None:
        """Nothing is made before the first row.

        Args:
            staging: Where entries of files are made.
            attempt: Who writes.
            schema: Of the rows.
            partition_by: One folder for each of these columns' values.
            keeps_partition_columns: The files have these columns, too.
            values: Where all rows are of one partition, its values.
            below: The folder of the files, from the table's on.
            target_bytes: A file that has become this large is closed.
            compression: As Parquet calls it.
        """
        self._staging = staging
        self._attempt = attempt
        self._partition_by = list(partition_by)
        self._values = dict(values or {})
        left_out = set() if keeps_partition_columns else set(partition_by)
        self._names = [name for name in schema.names if name not in left_out]
        self._schema = pa.schema([schema.field(name) for name in self._names])
        self._below = below
        self._target_bytes = target_bytes
        self._compression = compression
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._done: list[DataFile] = []
        self._sequence = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows, or keep them until there are enough of them."""
        for values, part in self._parts(rows):
            if part.num_rows:
                file = self._file(values)
                file.add(part.select(self._names))
                if file.buffered_bytes >= ROW_GROUP_BYTES:
                    self._flush(file)
        while sum(each.buffered_bytes for each in self._open.values()) > BUFFER_BYTES:
            self._flush(max(self._open.values(), key=lambda each: each.buffered_bytes))

    def finish(self) -> list[DataFile]:
        """Close all files, durably."""
        while self._open:
            self._close(next(iter(self._open.values())))
        return self._done

    def discard(self) -> None:
        """Delete what was written: the attempt has failed."""
        for file in self._open.values():
            file.abandon()
        names = {each.name for each in self._done} | {each.name for each in self._open.values()}
        self._open.clear()
        self._staging.sweep(self._staging.of_names(names), set)

    def _parts(
        self, rows: pa.RecordBatch
    ) -> Iterator[tuple[dict[str, str | None], pa.RecordBatch]]:
        if not self._partition_by:
            yield self._values, rows
            return
        rows = _nothing_as_null(rows, self._partition_by)
        keys = pa.Table.from_batches([rows.select(self._partition_by)])
        keys = keys.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
        groups = keys.group_by(self._partition_by, use_threads=False).aggregate([(_ROW, "list")])
        for group in groups.to_pylist():
            values = {name: value_text(group[name]) for name in self._partition_by}
            found = group[f"{_ROW}_list"]
            if len(found) == rows.num_rows:
                yield values, rows
            else:
                yield values, rows.take(pa.array(found, pa.int64()))

    def _file(self, values: dict[str, str | None]) -> _OpenFile:
        folder = "/".join(each for each in (self._below, folder_of(values)) if each)
        found = self._open.get(folder)
        if found is None:
            if len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open.values())))
            name = file_name(self._attempt, self._sequence)
            self._sequence += 1
            found = _OpenFile(
                self._staging,
                folder,
                name,
                values,
                schema=self._schema,
                compression=self._compression,
            )
            self._open[folder] = found
        self._open.move_to_end(folder)
        return found

    def _flush(self, file: _OpenFile) -> None:
        file.flush()
        if file.written_bytes >= self._target_bytes:
            self._close(file)

    def _close(self, file: _OpenFile) -> None:
        self._done.append(file.close())
        del self._open[file.folder]


def _nothing_as_null(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Texts without a character are null where folders are called by them."""
    for name in names:
        column = rows.column(name)
        if pa.types.is_string(column.type):
            fixed = pc.if_else(
                pc.equal(column, pa.scalar("", column.type)), pa.scalar(None, column.type), column
            )
            rows = rows.set_column(
                rows.schema.get_field_index(name), rows.schema.field(name), fixed
            )
    return rows


class _OpenFile:
    """A file that is being written."""

    def __init__(
        self,
        staging: Staging,
        folder: str,
        name: str,
        values: dict[str, str | None],
        *,
        schema: pa.Schema,
        compression: str,
    ) -> None:
        self.folder = folder
        self.name = name
        self._values = values
        self._schema = schema
        self._file: Any = staging.begin(folder, name).open("xb")
        self._collected: list[Any] = []
        said: Any = {"compression": compression, "metadata_collector": self._collected}
        self._writer = pq.ParquetWriter(self._file, schema, **said)
        self._waiting: list[pa.RecordBatch] = []
        self.buffered_bytes = 0

    @property
    def written_bytes(self) -> int:
        """So far; what waits for its row group is not counted."""
        return int(self._file.tell())

    def add(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self.buffered_bytes += rows.nbytes

    def flush(self) -> None:
        if self._waiting:
            group = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(group, row_group_size=max(1, group.num_rows))
        self._waiting = []
        self.buffered_bytes = 0

    def close(self) -> DataFile:
        self.flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size_bytes = int(self._file.tell())
        self._file.close()
        metadata = self._collected[0]
        return DataFile(
            self.name,
            self.folder,
            size_bytes,
            metadata.num_rows,
            self._values,
            delta_stats(metadata, self._schema),
        )

    def abandon(self) -> None:
        """Let go of the file. It may be the disk that is full, which has no room for its end."""
        for each in (self._writer, self._file):
            with contextlib.suppress(OSError):
                each.close()
