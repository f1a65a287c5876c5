"""What one look into a partition finds: a window of stored batches, read in a thread.

Forwards a window begins where the last one ended. Backwards it ends where the last one began, and
the offset index says where to begin, so that a window has about the size that was asked for however
large the messages are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import DamagedRangeError
from goqueue.model.tuples import NamedTuple
from goqueue.records import Headers, Record, decode_readable
from goqueue.records.batch import BatchInfo, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.partitions.partition import Partition
    from goqueue.reading.time_range import Span
    from goqueue.storage.region import Chunk

_SLACK_BYTES: Final = 8 * 1024
"""What lies between two entries of an offset index, and more."""


class SearchFilter(msgspec.Struct, frozen=True, dict=True):
    """Which messages are looked for; what is None does not matter."""

    key: bytes | None = None
    key_is_whole: bool = False
    """The key must be equal, not only hold `key`."""
    text: bytes | None = None
    """In the value, or in the name or the value of a header; ASCII letters in either case."""
    begin_ms: int | None = None
    end_ms: int | None = None
    also: Callable[[Record], bool] | None = None
    """What must hold besides; asked last, in the thread that reads."""

    @cached_property
    def _key(self) -> bytes | None:
        return None if self.key is None or self.key_is_whole else self.key.lower()

    @cached_property
    def _text(self) -> bytes | None:
        return None if self.text is None else self.text.lower()

    def matches(self, record: Record) -> bool:
        """Whether a message is one of them."""
        return self._fits(record) and (self.also is None or self.also(record))

    def _fits(self, record: Record) -> bool:
        _, at_ms, key, value, headers = record
        if (self.begin_ms is not None and at_ms < self.begin_ms) or (
            self.end_ms is not None and at_ms >= self.end_ms
        ):
            return False
        if self.key is not None:
            if key is None:
                return False
            if key != self.key if self._key is None else self._key not in key.lower():
                return False
        needle = self._text
        if needle is None or (value is not None and needle in value.lower()):
            return True
        return bool(headers) and _is_in_headers(needle, headers)


def _is_in_headers(needle: bytes, headers: Headers) -> bool:
    return any(
        needle in name.encode(errors="surrogateescape").lower()
        or (value is not None and needle in value.lower())
        for name, value in headers
    )


class Hit(NamedTuple):
    """A message that was found, and the batch that holds it."""

    partition: int
    record: Record
    batch: BatchInfo


class Window(NamedTuple):
    """What a look has found, in the order asked for, and how far it went."""

    hits: list[Hit]
    rest: Span
    """What is left to be looked at."""
    edge_ms: int | None
    """The time of the message next to the rest; None when there was none."""
    scanned: int
    """Messages that were looked at."""
    size_bytes: int
    """Bytes that were read."""


def look(
    partition: Partition,
    span: Span,
    wanted: SearchFilter,
    *,
    until: int,
    size_bytes: int,
    limit: int,
    newest: bool,
) -> Window:
    """Look at about `size_bytes` at one end of a span, or until there are enough; in a thread.

    `until` is where what may be read ends.

    Raises:
        StorageError: the disk refuses.
    """
    end = min(span.end, until)
    start = max(span.start, partition.log_start)
    if start >= end:
        return Window([], span._replace(start=span.end), None, 0, 0)
    if newest:
        start = max(partition.offset_before(end, size_bytes), start)
    reading = _Reading(partition, start, end)
    chunks = reading.all(size_bytes) if newest else reading.some(size_bytes)
    batches = [(chunk.data, *each) for chunk in chunks for each in walk(chunk.data)]
    read = Loaded(batches, start, end, reading.at, reading.read_bytes)
    return pick(read, span, wanted, limit=limit, newest=newest)


class Loaded(NamedTuple):
    """The stored batches of a window."""

    batches: list[tuple[bytes | bytearray, int, BatchInfo]]
    """In the order of their offsets: where each is, and its header."""
    start: int
    end: int
    """What of them is meant."""
    read_to: int
    size_bytes: int
    """Bytes that were read."""


def pick(read: Loaded, span: Span, wanted: SearchFilter, *, limit: int, newest: bool) -> Window:
    """What of a window is wanted, in the order asked for; opens the batches, so in a thread."""
    batches, start, end, read_to, size_bytes = read
    if newest:
        batches.reverse()
        rest = span._replace(end=start)
    else:
        rest = span._replace(start=min(max(read_to, start + 1), span.end))
    hits: list[Hit] = []
    edge_ms: int | None = None
    scanned = 0
    for data, position, info in batches:
        for record in _records(data, position, info, newest=newest):
            if not start <= record.offset < end:
                continue
            is_hit = wanted.matches(record)
            if is_hit and len(hits) == limit:  # which is for the next look
                rest = cut_before(span, record.offset, newest=newest)
                return Window(hits, rest, edge_ms, scanned, size_bytes)
            scanned += 1
            edge_ms = record.timestamp_ms
            if is_hit:
                hits.append(Hit(span.partition, record, info))
    return Window(hits, rest, edge_ms, scanned, size_bytes)


def cut_before(span: Span, offset: int, *, newest: bool) -> Span:
    """What is left of a span when a message, and all that come after it, are for another look."""
    return span._replace(end=offset + 1) if newest else span._replace(start=offset)


def _records(
    data: bytes | bytearray, position: int, info: BatchInfo, *, newest: bool
) -> Iterator[Record] | list[Record]:
    if info.is_control:
        return []
    records = decode_readable(data, position).records  # consumers are told of the others
    return reversed(records) if newest else records


class _Reading:
    """Reads on through a partition, over damage and the ends of segments."""

    def __init__(self, partition: Partition, at: int, end: int) -> None:
        self._partition = partition
        self._end = end
        self.at = at
        self.read_bytes = 0

    def all(self, size_bytes: int) -> Iterator[Chunk]:
        """Everything up to the end, of which `size_bytes` and a little more are expected."""
        while self.at < self._end:
            yield from self._next(size_bytes + _SLACK_BYTES)

    def some(self, size_bytes: int) -> Iterator[Chunk]:
        """About `size_bytes`, or what there is."""
        while self.at < self._end and self.read_bytes < size_bytes:
            yield from self._next(size_bytes - self.read_bytes)

    def _next(self, size_bytes: int) -> Iterator[Chunk]:
        """The next batches; none where they are damaged, which goes on behind the damage."""
        try:
            region = self._partition.read(self.at, size_bytes)
            chunk = None if region is None else region.load()
        except DamagedRangeError as damage:
            self.at = max(damage.resume_at, self.at + 1)
            return
        if chunk is None:
            self.at = self._end
            return
        self.read_bytes += len(chunk.data)
        self.at = max(chunk.next_offset, self.at + 1)
        yield chunk
