"""Many messages in columns, and what becomes of them.

Rows go to their partitions in runs; where they come in Arrow's columns, no Python object is made
of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from goqueue.client.producing.deliveries import Deadline
from goqueue.records import split_rows
from goqueue.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from goqueue.client.producing.deliveries import Delivery, Fate
    from goqueue.client.producing.routes import Route
    from goqueue.client.types import Content, Receipt

_CHUNK: Final = 10_000
"""Values that are taken from an iterable at a time."""
_COLUMNS: Final = ("value", "key", "timestamp_ms")

Many: TypeAlias = "Iterable[Content] | Mapping[str, Sequence[Any]] | Any"
"""Values; columns by their names (`value`, and `key` and `timestamp_ms` where there are such); an
Arrow table or record batch, or a pandas data frame, with columns of these names."""

_now_ms: Final = SystemClock().now_ms


class Rows(NamedTuple):
    """Messages in columns: lists, or views of Arrow's buffers."""

    row_count: int
    values: Any
    keys: Any | None
    timestamps_ms: Any
    """One for all of them, or an i64 for each in a buffer."""

    def timestamp_ms(self, row: int) -> int:
        """Of one row."""
        if isinstance(self.timestamps_ms, int):
            return self.timestamps_ms
        return int(memoryview(self.timestamps_ms).cast("B").cast("q")[row])


class BatchRows(NamedTuple):
    """Rows that went into one batch one behind the other."""

    fate: Fate
    first: int
    """The place of the first in the batch."""
    rows: Sequence[int]
    """Which rows these are."""

    @property
    def end(self) -> int:
        """The place in the batch behind the last."""
        return self.first + len(self.rows)


class Part:
    """The rows of one partition, and how far they are."""

    __slots__ = ("_rows", "numbers", "partition", "start")

    def __init__(self, partition: int | None, count: int, numbers: bytes | None = None) -> None:
        self.partition = partition
        """None: messages without a key, which go wherever it is their turn."""
        self.numbers = numbers
        """The rows, as i32 in a buffer; None is all of them."""
        self.start = 0
        self._rows: Sequence[int] = (
            range(count) if numbers is None else memoryview(numbers).cast("i")
        )

    @property
    def left(self) -> int:
        """How many rows are still to go."""
        return len(self._rows) - self.start

    def took(self, fate: Fate, first: int, count: int) -> BatchRows:
        """The next rows are in a batch."""
        run = BatchRows(fate, first, self._rows[self.start : self.start + count])
        self.start += count
        return run


def parts(rows: Rows, route: Route) -> list[Part]:
    """Rows by their partitions."""
    if rows.keys is None:
        return [Part(None, rows.row_count)]
    split = split_rows(rows.keys, route.count, route.turn)
    return [Part(number, rows.row_count, found) for number, found in enumerate(split) if found]


# --- What users hand over ------------------------------------------------------------------------


def rows_of(messages: Many) -> Iterator[Rows]:
    """Messages as users hand them over, in pieces.

    Raises:
        TypeError, ValueError: it is nothing of what `Many` names, or columns are missing.
    """
    if isinstance(messages, Mapping):
        yield _from_columns(messages)
    elif isinstance(messages, bytes | str):
        raise TypeError(
            f"messages must be several, not one {type(messages).__name__}: use publish for one"
        )
    elif hasattr(messages, "__dataframe__") or hasattr(messages, "__arrow_c_stream__"):
        yield from _from_table(messages)
    elif isinstance(messages, list | tuple):
        yield Rows(len(messages), messages, None, _now_ms())
    else:
        values = iter(messages)
        while chunk := list(islice(values, _CHUNK)):
            yield Rows(len(chunk), chunk, None, _now_ms())


def _from_columns(columns: Mapping[str, Sequence[Any]]) -> Rows:
    _check_names(columns)
    values = columns["value"]
    for name, column in columns.items():
        if len(column) != len(values):
            raise ValueError(f"column {name!r} has {len(column)} rows, and 'value' {len(values)}")
    keys, timestamps = columns.get("key"), columns.get("timestamp_ms")
    return Rows(
        len(values),
        values if isinstance(values, list | tuple) else list(values),
        keys if keys is None or isinstance(keys, list | tuple) else list(keys),
        _now_ms() if timestamps is None else _timestamps(timestamps),
    )


def _timestamps(column: Sequence[int]) -> bytes:
    from array import array  # noqa: PLC0415 - few tables have them

    try:
        return array("q", column).tobytes()
    except (TypeError, OverflowError) as error:
        raise ValueError(f"column 'timestamp_ms': expected ints of milliseconds: {error}") from None


def _check_names(names: Iterable[str]) -> None:
    found = set(names)
    if "value" not in found or found - set(_COLUMNS):
        raise ValueError(
            f"columns {sorted(found)}: expected 'value', and 'key' and 'timestamp_ms' where there "
            "are such"
        )


def _from_table(table: Any) -> Iterator[Rows]:
    """A table of Arrow's, or of something that can be made one (pandas, polars)."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - only who has tables has it
    except ImportError:
        raise TypeError(
            "a table needs pyarrow: pip install 'goqueue[arrow]', or give lists of columns"
        ) from None
    from goqueue.records.arrow import to_view  # noqa: PLC0415 - likewise

    if not isinstance(table, pa.Table | pa.RecordBatch):
        is_pandas = hasattr(table, "iloc")
        table = pa.Table.from_pandas(table, preserve_index=False) if is_pandas else pa.table(table)
    _check_names(table.column_names)
    batches = [table] if isinstance(table, pa.RecordBatch) else table.to_batches()
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        timestamps = columns.get("timestamp_ms")
        yield Rows(
            batch.num_rows,
            to_view(columns["value"]),
            to_view(columns["key"]) if "key" in columns else None,
            _now_ms() if timestamps is None else _timestamps(timestamps.cast("int64").to_pylist()),
        )


# --- What becomes of them ------------------------------------------------------------------------


class Deliveries:
    """What becomes of messages that were published together."""

    def __init__(self, make: Callable[..., Delivery]) -> None:
        self._make = make
        self._pieces: list[tuple[Rows, list[BatchRows]]] = []
        self._count = 0

    def add(self, rows: Rows, runs: list[BatchRows]) -> None:
        """Some of them are in batches now."""
        self._pieces.append((rows, runs))
        self._count += rows.row_count

    def __len__(self) -> int:
        return self._count

    def _runs(self) -> Iterator[BatchRows]:
        for _, runs in self._pieces:
            yield from runs

    def done(self) -> bool:
        """Whether it is known what became of all of them."""
        return all(leaf.is_settled for run in self._runs() for leaf in run.fate.leaves())

    def _check(self) -> int:
        for run in self._runs():
            error = run.fate.error_within(run.first, run.end)
            if error is not None:
                raise error
        return self._count

    def receipts(self) -> list[Receipt]:
        """Where each message was stored, in the order in which they were given.

        Raises:
            GoQueueError: the first that was not stored.
            asyncio.InvalidStateError: that is not known yet of all.
        """
        found: list[Receipt] = []
        for rows, runs in self._pieces:
            handles = {
                row: self._make(run.fate, at, rows.timestamp_ms(row))
                for run in runs
                for at, row in enumerate(run.rows, run.first)
            }
            found += [handles[row].told() for row in sorted(handles)]
        return found


class AsyncDeliveries(Deliveries):
    """Of `AsyncClient.publish_many`: await it to know that all of them are stored."""

    def __await__(self) -> Generator[Any, None, int]:
        for run in self._runs():
            yield from run.fate.settled().__await__()
        return self._check()


class BlockingDeliveries(Deliveries):
    """Of `Client.publish_many`."""

    def result(self, timeout: float | None = None) -> int:
        """How many there are, once all of them are stored.

        Raises:
            TimeoutError: it was not known in time.
            GoQueueError: one of them was not stored.
        """
        deadline = Deadline(timeout)
        for run in self._runs():
            run.fate.wait(deadline)
        return self._check()
