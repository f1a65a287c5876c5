"""Many small files into few large ones: which go together, and their rows in order.

Rows of a topic are in order by (topic, partition, offset) in every file that a task wrote, and stay
so: files are merged, not put behind one another. Memory holds a piece of each file, whatever their
size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from goqueue.spark.lake.shape import fitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from goqueue.spark.lake.stores import LiveFile

ORDER: Final = ("topic", "partition", "offset")
MERGED_FILES: Final = 200
"""At most so many are open at the same time."""
_BUFFER_BYTES: Final = 64 << 20
"""Of rows in memory, for all files together."""
_READ_BYTES: Final = 256 << 10
_PROBED_ROWS: Final = 256
_SMALL: Final = 0.75
"""A file of this share of the wanted size is large enough to be left alone."""


def plan_groups(files: Iterable[LiveFile], target_bytes: int) -> list[list[LiveFile]]:
    """Which files become one, in the order in which they come; none has rows of two partitions."""
    groups: list[list[LiveFile]] = []
    open_groups: dict[tuple[tuple[str, str | None], ...], list[LiveFile]] = {}
    for file in files:
        if file.size_bytes >= target_bytes * _SMALL:
            continue
        values = tuple(file.partition.items())
        group = open_groups.get(values)
        size_bytes = sum(each.size_bytes for each in group) if group else 0
        if (
            group is None
            or size_bytes + file.size_bytes > target_bytes
            or len(group) == MERGED_FILES
        ):
            open_groups[values] = group = []
            groups.append(group)
        group.append(file)
    return [group for group in groups if len(group) > 1]


def order_of(schema: pa.Schema) -> list[str]:
    """The columns whose order is kept; none where rows are not those of a topic."""
    return [name for name in ORDER if name in schema.names] if "offset" in schema.names else []


def rows_of(paths: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of all files with these columns, in order where all of the files are."""
    order = order_of(schema)
    count = _batch_rows(paths)
    sources = [_read(path, schema, count) for path in paths]
    if order and all(_is_sorted(path, order) for path in paths):
        yield from merged(sources, order)
    else:
        for source in sources:
            yield from source


def merged(
    sources: Sequence[Iterator[pa.RecordBatch]], order: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Sources that are in order, as one that is."""
    heads = [_next(source) for source in sources]
    while True:
        last = [_key(head, head.num_rows - 1, order) for head in heads if head is not None]
        if not last:
            return
        bound = min(last)
        taken = []
        for place, head in enumerate(heads):
            if head is None:
                continue
            count = _count_up_to(head, order, bound)
            taken.append(head.slice(0, count))
            rest = head.slice(count)
            # The source whose last row is the bound gives all that it has: something always moves.
            heads[place] = rest if rest.num_rows else _next(sources[place])
        yield from _sorted(taken, order)


def _next(source: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in source if batch.num_rows), None)


def _key(rows: pa.RecordBatch, place: int, order: Sequence[str]) -> tuple[Any, ...]:
    return tuple(rows.column(name)[place].as_py() for name in order)


def _count_up_to(rows: pa.RecordBatch, order: Sequence[str], bound: tuple[Any, ...]) -> int:
    low, high = 0, rows.num_rows
    while low < high:
        middle = (low + high) // 2
        if _key(rows, middle, order) <= bound:
            low = middle + 1
        else:
            high = middle
    return low


def _sorted(parts: Sequence[pa.RecordBatch], order: Sequence[str]) -> list[pa.RecordBatch]:
    filled = [each for each in parts if each.num_rows]
    if len(filled) == 1:
        return filled
    table = pa.Table.from_batches(filled)
    ascending: Any = [(name, "ascending") for name in order]
    return table.take(pc.sort_indices(table, sort_keys=ascending)).combine_chunks().to_batches()


def _batch_rows(paths: Sequence[Path]) -> int:
    """Rows to read of each file at a time, by the widest rows among them."""
    widest = max(map(_row_bytes, paths))
    return max(1, min(1 << 16, _BUFFER_BYTES // len(paths) // widest))


def _row_bytes(path: Path) -> int:
    """What a row takes in memory: at least as much as on disk, and more where values recur."""
    with pq.ParquetFile(path, buffer_size=_READ_BYTES, pre_buffer=False) as file:
        metadata = file.metadata
        groups = (metadata.row_group(each) for each in range(metadata.num_row_groups))
        stored = sum(each.total_byte_size for each in groups) // max(1, metadata.num_rows)
        first = next(file.iter_batches(batch_size=_PROBED_ROWS, use_threads=False), None)
    seen = first.nbytes // first.num_rows if first is not None and first.num_rows else 0
    return max(1, stored, seen)


def _read(path: Path, schema: pa.Schema, count: int) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, buffer_size=_READ_BYTES, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=count, use_threads=False):
            yield fitted(batch, schema)


def _is_sorted(path: Path, order: Sequence[str]) -> bool:
    before: tuple[Any, ...] | None = None
    with pq.ParquetFile(path, buffer_size=_READ_BYTES, pre_buffer=False) as file:
        if not set(order) <= set(file.schema_arrow.names):
            return False
        for batch in file.iter_batches(columns=list(order), use_threads=False):
            if any(column.null_count for column in batch.columns):
                return False
            if before is not None and _key(batch, 0, order) < before:
                return False
            if not _is_rising([batch.column(name) for name in order]):
                return False
            before = _key(batch, batch.num_rows - 1, order)
    return True


def _is_rising(columns: Sequence[Any]) -> bool:
    """Whether rows, compared column by column, never fall."""
    rising: Any = pa.array([True] * (len(columns[0]) - 1), pa.bool_())
    for column in reversed(columns):
        left, right = column.slice(0, len(column) - 1), column.slice(1)
        rising = pc.or_(pc.less(left, right), pc.and_(pc.equal(left, right), rising))
    return bool(pc.all(rising, min_count=0).as_py())
