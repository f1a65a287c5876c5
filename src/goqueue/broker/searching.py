"""What one look into a partition finds: a window of stored batches, read in a thread.

Forwards a window begins where the last one ended. Backwards it ends where the last one began, and
the offset index says where to begin, so that a window has about the size that was asked for however
large the messages are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.model.errors import BatchError, DamagedRangeError
from goqueue.records import decode_rows
from goqueue.records.batch import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.time_range import Span
    from goqueue.records import Record
    from goqueue.records.batch import BatchInfo
    from goqueue.storage.log import Log
    from goqueue.storage.region import Chunk

_SLACK_BYTES: Final = 8 * 1024
"""What lies between two entries of an offset index, and more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages are looked for; what is None does not matter."""

    key: bytes | None = None
    key_is_whole: bool = False
    """The key must be equal, not only hold `key`."""
    text: bytes | None = None
    """In the value, or in the name or the value of a header; ASCII letters in either case."""
    begin_ms: int | None = None
    end_ms: int | None = None

    def matches(self, record: Record) -> bool:
        """Whether a message is one of them."""
        at_ms = record.timestamp_ms
        if (self.begin_ms is not None and at_ms < self.begin_ms) or (
            self.end_ms is not None and at_ms >= self.end_ms
        ):
            return False
        return self._key_matches(record.key) and self._text_matches(record)

    def _key_matches(self, key: bytes | None) -> bool:
        if self.key is None:
            return True
        if key is None:
            return False
        return key == self.key if self.key_is_whole else self.key.lower() in key.lower()

    def _text_matches(self, record: Record) -> bool:
        if self.text is None:
            return True
        needle = self.text.lower()
        if record.value is not None and needle in record.value.lower():
            return True
        return any(
            needle in name.encode(errors="surrogateescape").lower()
            or (value is not None and needle in value.lower())
            for name, value in record.headers
        )


class Hit(NamedTuple):
    """A message that was found, and the batch that holds it."""

    partition: int
    record: Record
    batch: BatchInfo


class Window(NamedTuple):
    """What a look has found, in the order of the offsets, and how far it went."""

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
    log: Log, span: Span, until: int, size_bytes: int, wanted: Wanted, *, newest_first: bool
) -> Window:
    """Look at about `size_bytes` at one end of a span; in a thread.

    `until` is where what may be read ends.

    Raises:
        StorageError: the disk refuses.
    """
    end = min(span.end, until)
    start = max(span.start, log.start_offset)
    if start >= end:
        return Window([], span._replace(start=span.end), None, 0, 0)
    if newest_first:
        start = max(log.offset_before(end, size_bytes), start)
    reading = _Reading(log, start, end)
    hits: list[Hit] = []
    edge_ms: int | None = None
    scanned = 0
    for chunk in reading.all(size_bytes) if newest_first else reading.some(size_bytes):
        for batch, records in _batches(chunk):
            for record in records:
                if not start <= record.offset < end:
                    continue
                scanned += 1
                if not newest_first or edge_ms is None:
                    edge_ms = record.timestamp_ms
                if wanted.matches(record):
                    hits.append(Hit(span.partition, record, batch))
    if newest_first:
        rest = span._replace(end=start)
    else:
        rest = span._replace(start=min(max(reading.at, start + 1), span.end))
    return Window(hits, rest, edge_ms, scanned, reading.read_bytes)


class _Reading:
    """Reads on through a log, over damage and the ends of segments."""

    def __init__(self, log: Log, at: int, end: int) -> None:
        self._log = log
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
            region = self._log.read(self.at, size_bytes)
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


def _batches(chunk: Chunk) -> Iterator[tuple[BatchInfo, list[Record]]]:
    for position, info in walk(chunk.data):
        if info.is_control:
            continue
        try:
            yield info, decode_rows(chunk.data, position, check_crc=False)
        except BatchError:
            continue  # whoever made it made it badly; consumers are told so
