"""Rows on their way to record batches: sorted by partition, cut to size."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, count, repeat
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.partitioning import PARTITIONERS
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import IMPLEMENTATION, Headers, Record
from goqueue.spark.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from goqueue.spark.writing.rows import Rows


_MAX_KNOWN_KEYS: Final = 100_000
"""Keys whose partition a task remembers; beyond it they are forgotten and reckoned again."""
_MAX_KNOWN_BYTES: Final = 256
"""Of such a key; longer ones are reckoned each time."""


class _Known(dict[bytes | None, int]):
    """Partitions by key; one that is not known is reckoned when it is looked up."""

    def __init__(self, hash_of: Callable[[bytes], int], count: int) -> None:
        super().__init__()
        self._hash_of = hash_of
        self._count = count

    def __missing__(self, key: bytes) -> int:
        number = self._hash_of(key) % self._count
        if len(key) <= _MAX_KNOWN_BYTES:
            self[key] = number
        return number


class Partitioner:
    """The partitions of one topic, as one task fills them."""

    def __init__(self, name: str, count: int, first: int) -> None:
        self.count: Final = count
        self._turn = first
        self._known = _Known(PARTITIONERS[name], count)

    def partitions(self, keys: Sequence[bytes | None]) -> list[int]:
        """One for each key.

        Rows without a key go to one partition together, and the next ones to the next: so they
        make few and long record batches.
        """
        if len(self._known) > _MAX_KNOWN_KEYS:
            self._known.clear()
        if None in keys:
            self._known[None] = self.turn()
        return list(map(self._known.__getitem__, keys))

    def turn(self) -> int:
        """Where rows go together that have no keys."""
        self._turn += 1
        return (self._turn - 1) % self.count


_RECORD_BYTES: Final = 24
"""About what a record takes beside its key, value and headers."""
WAITING_BYTES: Final = 64 << 20
"""Of the rows of all partitions that wait for more; then those of the fullest go as they are."""


class Pending:
    """Rows of one partition that are not sent yet, as columns."""

    __slots__ = ("headers", "keys", "size_bytes", "timestamps_ms", "values")

    def __init__(self) -> None:
        self.timestamps_ms: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Headers] = []
        self.size_bytes = 0

    def extend(
        self,
        timestamps_ms: list[int],
        keys: list[bytes | None] | None,
        values: list[bytes | None],
        headers: list[Headers] | None,
    ) -> None:
        """Take in some more rows; a column that is None is null in all of them."""
        self.timestamps_ms += timestamps_ms
        self.values += values
        self.keys += keys if keys is not None else repeat(None, len(values))
        self.headers += headers if headers is not None else repeat((), len(values))

    def records(self) -> list[Record]:
        """The rows as the codec takes them.

        The compiled one reads plain tuples as well, which are made three times as fast; only the
        first and the last are looked at by name.
        """
        plain = zip(count(), self.timestamps_ms, self.keys, self.values, self.headers, strict=False)
        if IMPLEMENTATION != "native":
            return list(map(Record._make, plain))
        rows: list[Any] = list(plain)
        for at in (0, -1):
            rows[at] = Record._make(rows[at])
        return rows


class BatchMaker:
    """Takes rows, and says when those of a partition are enough for a record batch."""

    def __init__(
        self,
        partition_count: Callable[[str], int],
        *,
        topic: str | None,
        partitioner: str,
        batch_bytes: int,
        first_turn: int = 0,
    ) -> None:
        self._partition_count = partition_count
        self._topic = topic
        self._partitioner = partitioner
        self._batch_bytes = batch_bytes
        self._first_turn = first_turn
        self._partitioners: dict[str, Partitioner] = {}
        self._pending: dict[TopicPartition, Pending] = {}

    def add(self, rows: Rows) -> Iterator[tuple[TopicPartition, Pending]]:
        """Take in rows; what is full comes out, oldest first, and what there is no room for.

        Raises:
            RowError: a row has no topic, or names a partition that there is not.
            TopicMissingError: there is no such topic.
        """
        for place, indexes in self._places(rows):
            yield from self._put(place, rows, indexes)
        yield from self._overflow()

    def _overflow(self) -> Iterator[tuple[TopicPartition, Pending]]:
        """What goes early, so that a task with many partitions keeps to its memory."""
        waiting_bytes = sum(each.size_bytes for each in self._pending.values())
        if waiting_bytes <= WAITING_BYTES:
            return
        fullest = sorted(self._pending, key=lambda place: self._pending[place].size_bytes)
        while waiting_bytes > WAITING_BYTES // 2:
            pending = self._pending.pop(place := fullest.pop())
            waiting_bytes -= pending.size_bytes
            yield place, pending

    def rest(self) -> Iterator[tuple[TopicPartition, Pending]]:
        """Everything that is left."""
        waiting, self._pending = self._pending, {}
        yield from waiting.items()

    # --- Where rows go ---------------------------------------------------------------------------

    def _places(self, rows: Rows) -> Iterator[tuple[TopicPartition, list[int] | None]]:
        """Partitions and the rows for each; None: all of them."""
        if not rows.values:
            return
        if self._topic is not None:
            yield from self._in_topic(self._topic, rows, None)
            return
        by_topic: dict[str | None, list[int]] = {}
        for at, topic in enumerate(rows.topics or ()):
            by_topic.setdefault(topic, []).append(at)
        for name, indexes in by_topic.items():
            if not name:
                raise RowError(
                    "a row's topic is null or empty: give it one, or set the option topic"
                )
            yield from self._in_topic(name, rows, indexes)

    def _in_topic(
        self, topic: str, rows: Rows, indexes: list[int] | None
    ) -> Iterator[tuple[TopicPartition, list[int] | None]]:
        partitioner = self._partitioners.get(topic)
        if partitioner is None:
            partitioner = self._partitioners[topic] = Partitioner(
                self._partitioner, self._partition_count(topic), self._first_turn
            )
        if rows.keys is None and rows.partitions is None:
            yield TopicPartition(topic, partitioner.turn()), indexes
            return
        keys = rows.keys if rows.keys is not None else [None] * len(rows.values)
        numbers = partitioner.partitions(keys if indexes is None else [keys[at] for at in indexes])
        if rows.partitions is not None:
            numbers = self._named(
                topic, partitioner.count, numbers, _chosen(rows.partitions, indexes)
            )
        groups: list[list[int]] = [[] for _ in range(partitioner.count)]
        appends = [group.append for group in groups]
        for at, number in zip(
            range(len(keys)) if indexes is None else indexes, numbers, strict=True
        ):
            appends[number](at)
        for number, group in enumerate(groups):
            if group:
                yield TopicPartition(topic, number), group

    @staticmethod
    def _named(
        topic: str, count: int, numbers: list[int], wanted: Sequence[int | None]
    ) -> list[int]:
        """Where rows go that say so, and the others as their keys do."""
        for number in set(wanted):
            if number is not None and not 0 <= number < count:
                raise RowError(
                    f"a row names partition {number}: topic {topic!r} has 0 to {count - 1}"
                )
        return [
            by_key if by_name is None else by_name
            for by_key, by_name in zip(numbers, wanted, strict=True)
        ]

    # --- Cutting ---------------------------------------------------------------------------------

    def _put(
        self, place: TopicPartition, rows: Rows, indexes: list[int] | None
    ) -> Iterator[tuple[TopicPartition, Pending]]:
        keys = _chosen(rows.keys, indexes) if rows.keys is not None else None
        values = _chosen(rows.values, indexes)
        stamps = _chosen(rows.timestamps_ms, indexes)
        headers = _chosen(rows.headers, indexes) if rows.headers is not None else None
        pending = self._pending.setdefault(place, Pending())
        size_bytes = sum(_sizes(keys, values, headers)) + _RECORD_BYTES * len(values)
        if pending.size_bytes + size_bytes <= self._batch_bytes:
            pending.extend(stamps, keys, values, headers)
            pending.size_bytes += size_bytes
            return
        yield from self._cut(place, stamps, keys, values, headers)

    def _cut(
        self,
        place: TopicPartition,
        stamps: list[int],
        keys: list[bytes | None] | None,
        values: list[bytes | None],
        headers: list[Headers] | None,
    ) -> Iterator[tuple[TopicPartition, Pending]]:
        ends = list(accumulate(size + _RECORD_BYTES for size in _sizes(keys, values, headers)))
        start, before = 0, 0
        while start < len(values):
            pending = self._pending.setdefault(place, Pending())
            room = self._batch_bytes - pending.size_bytes
            stop = bisect_right(ends, before + room, start)
            if stop == start and not pending.values:
                stop += 1  # larger than a batch should be: the broker says whether it may
            if stop > start:
                pending.extend(
                    stamps[start:stop],
                    None if keys is None else keys[start:stop],
                    values[start:stop],
                    None if headers is None else headers[start:stop],
                )
                pending.size_bytes += ends[stop - 1] - before
                before = ends[stop - 1]
            if stop < len(values):
                yield place, self._pending.pop(place)
            start = stop


def _chosen(column: Sequence[Any], indexes: list[int] | None) -> list[Any]:
    if indexes is None:
        return list(column)
    if len(indexes) == 1:
        return [column[indexes[0]]]
    return list(itemgetter(*indexes)(column))


def _sizes(
    keys: list[bytes | None] | None,
    values: list[bytes | None],
    headers: list[Headers] | None,
) -> Iterable[int]:
    """How many bytes the records bring along, each of them."""
    sizes = _lengths(values)
    if keys is not None:
        sizes = map(add, sizes, _lengths(keys))
    if headers is not None:
        sizes = map(add, sizes, map(_headers_bytes, headers))
    return sizes


def _lengths(column: list[bytes | None]) -> Iterable[int]:
    if None in column:
        return [len(each or b"") for each in column]
    filled: Any = column
    return map(len, filled)


def _headers_bytes(row: Headers) -> int:
    return sum(len(name) + len(value or b"") + 4 for name, value in row)
