"""A batch that is filled message by message, or many at a time; `_native_builder.c` does it in C.

What is added is encoded at once, so a batch under way is its bytes and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from goqueue.model.errors import BatchTooLargeError, MalformedRecordError
from goqueue.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from goqueue.model.limits import FREE_BATCH_ITEMS, MAX_BATCH_BYTES
from goqueue.records.batch import HEADER_BYTES
from goqueue.records.compression import Compression
from goqueue.records.contents import entries, to_bytes, to_headers
from goqueue.records.encoding import encode_record
from goqueue.records.sealing import seal
from goqueue.records.section import I64_MAX, I64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.records.columns import Buffer
    from goqueue.records.contents import Content, Contents, HeaderInput
    from goqueue.records.record import Headers


class SectionBuilder:
    """The records of one batch, behind room for its header. Not to be used by threads at a time.

    Bound: it is full when the next record would make the whole batch, before it is compressed,
    larger than `limit_bytes`, or when the broker would not open more records and headers. The
    first record always fits, up to what a batch may be at all.
    """

    __slots__ = (
        "_base_timestamp",
        "_is_taken",
        "_items",
        "_limit_bytes",
        "_max_timestamp",
        "_output",
        "count",
        "is_full",
        "size_bytes",
    )

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = min(limit_bytes, MAX_BATCH_BYTES)
        self._output = bytearray(HEADER_BYTES)
        self._items = self._base_timestamp = self._max_timestamp = 0
        self._is_taken = False
        self.count = 0
        """Records so far."""
        self.size_bytes = HEADER_BYTES
        """Of the whole batch, before it is compressed."""
        self.is_full = False
        """A record did not fit, or the batch is finished."""

    def add(self, value: Content, key: Content, headers: HeaderInput, timestamp_ms: int, /) -> int:
        """The index of the record in the batch; -1 when it does not fit any more.

        Raises:
            TypeError: an argument is of another type.
            UnicodeEncodeError: text with surrogates is no UTF-8.
            MalformedRecordError: the timestamp does not fit.
            BatchTooLargeError: no batch can hold the record.
        """
        _check_timestamp(timestamp_ms)
        taken = self._append(
            to_bytes("value", value), to_bytes("key", key), to_headers(headers), timestamp_ms
        )
        return self.count - 1 if taken else -1

    def add_many(
        self,
        values: Contents,
        keys: Contents | None,
        timestamps_ms: int | Buffer,
        rows: Buffer | None = None,
        start: int = 0,
        /,
    ) -> int:
        """Add messages until the batch is full; how many were taken.

        What raises for one row leaves those before it in the batch.

        Args:
            values: A list, a tuple, or a column.
            keys: As many; None where no message has one.
            timestamps_ms: One for all of them, or an i64 for each in a buffer.
            rows: Which of them, as i32 in a buffer (see `split_rows`); None is all of them.
            start: Where to go on: a place in `rows`, without them a row.

        Raises:
            ValueError: there are not as many keys or timestamps as values, or a column is damaged.
            IndexError: there is no such row.
            TypeError, UnicodeEncodeError, MalformedRecordError, BatchTooLargeError: as `add`.
        """
        if start < 0:
            raise ValueError("the start must not be negative")
        count, value_at = entries("value", values)
        key_count, key_at = (count, _no_key) if keys is None else entries("key", keys)
        if key_count != count:
            raise ValueError(f"{key_count} keys for {count} values")
        timestamp_at = _timestamps(timestamps_ms, count)
        numbers = range(count) if rows is None else _row_numbers(rows)
        for taken, row in enumerate(numbers[start:]):
            if not 0 <= row < count:
                raise IndexError(f"there is no row {row} among {count}")
            if not self._append(value_at(row), key_at(row), (), timestamp_at(row)):
                return taken
        return max(len(numbers) - start, 0)

    def take(self) -> tuple[bytearray, int, int]:
        """Room for a header and the records, and their first and their largest timestamp.

        Raises:
            RuntimeError: that was done before.
        """
        if self._is_taken:
            raise RuntimeError("the batch was finished before")
        self._is_taken = self.is_full = True
        output, self._output = self._output, bytearray()
        return output, self._base_timestamp, self._max_timestamp

    def _append(
        self, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int
    ) -> bool:
        if self._is_taken:
            return False
        delta = timestamp_ms - self._base_timestamp if self.count else 0
        if not I64_MIN <= delta <= I64_MAX:
            raise MalformedRecordError(
                f"timestamp {timestamp_ms} does not fit a batch based at {self._base_timestamp}"
            )
        record = encode_record(delta, self.count, key, value, headers)
        size_bytes, items = self.size_bytes + len(record), self._items + 1 + len(headers)
        if self.count and (size_bytes > self._limit_bytes or items > FREE_BATCH_ITEMS):
            self.is_full = True
            return False
        if size_bytes > MAX_BATCH_BYTES:
            raise BatchTooLargeError(
                f"a batch of {size_bytes} bytes; at most {MAX_BATCH_BYTES} are allowed, before "
                "compression and after"
            )
        if not self.count:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        self._max_timestamp = max(self._max_timestamp, timestamp_ms)
        self._output += record
        self.size_bytes, self._items = size_bytes, items
        self.count += 1
        return True


class BatchBuilder(SectionBuilder):
    """Fills one batch and finishes it."""

    __slots__ = ()

    def finish(
        self,
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        attributes: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> bytearray:
        """The whole batch, given away without a copy; `restamp` changes its producer later.

        Raises:
            ValueError: there is no record in it.
            RuntimeError: it was finished before.
            MalformedBatchError: a field of the header does not fit.
        """
        if not self.count:
            raise ValueError("a batch without records cannot be finished; add one")
        batch, base_timestamp, max_timestamp = self.take()
        return seal(
            batch,
            self.count,
            compression=compression,
            level=level,
            attributes=attributes,
            last_offset_delta=self.count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )


def builder_type(sections: type[SectionBuilder]) -> type[BatchBuilder]:
    """`BatchBuilder` on another builder of sections."""
    if sections is SectionBuilder:
        return BatchBuilder
    members = {"__slots__": (), "__doc__": BatchBuilder.__doc__, "finish": BatchBuilder.finish}
    return cast("type[BatchBuilder]", type("BatchBuilder", (sections,), members))


def _check_timestamp(timestamp_ms: int) -> None:
    if not isinstance(timestamp_ms, int):
        raise TypeError(
            f"a timestamp must be an int of milliseconds, not {type(timestamp_ms).__name__}"
        )
    if not I64_MIN <= timestamp_ms <= I64_MAX:
        raise MalformedRecordError(f"timestamp {timestamp_ms} does not fit 64 bits")


def _no_key(_: int) -> None:
    return None


def _timestamps(timestamps_ms: int | Buffer, count: int) -> Callable[[int], int]:
    if isinstance(timestamps_ms, int):
        _check_timestamp(timestamps_ms)
        return lambda _: timestamps_ms
    try:
        numbers = memoryview(timestamps_ms).cast("B")
    except TypeError:
        raise TypeError(
            "timestamps must be an int or a buffer of int64, not " + type(timestamps_ms).__name__
        ) from None
    if len(numbers) // 8 < count:
        raise ValueError("there are fewer timestamps than values")
    return numbers[: count * 8].cast("q").__getitem__


def _row_numbers(rows: Buffer) -> memoryview[int]:
    numbers = memoryview(rows).cast("B")
    if len(numbers) % 4:
        raise ValueError("rows must be whole numbers of 32 bits")
    return numbers.cast("i")
