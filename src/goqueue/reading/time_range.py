"""Read a topic across a stretch of time: its partitions side by side, merged by time.

A stretch of time is a span of offsets in each partition: from the first message of its beginning
up to the first message of its end. Messages whose producers' clocks disagree with the order of the
log are left out where they fall outside.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import OffsetOutOfRangeError
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.reading.positions import EARLIEST, LATEST, Anchor, Position
from goqueue.reading.stored_messages import StoredMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.reading.positions import Positions
    from goqueue.reading.stored_messages import MessageReader
    from goqueue.topics.catalogue import Topics

_READ_BYTES: Final = 16 * 1024 * 1024
"""What one reading may load of all partitions together, apart from one batch of each."""
_LEAST_BYTES: Final = 64 * 1024
_ROUNDS: Final = 5
"""How often it is read on when there were too few messages; then the caller has to ask again."""


class Span(NamedTuple):
    """Offsets of one partition, from `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int


class Page(NamedTuple):
    """The messages at the beginning of a span, and where it goes on behind them."""

    span: Span
    messages: Sequence[StoredMessage]
    next_offset: int


class Merged(msgspec.Struct, frozen=True):
    """Messages of several partitions, and the spans that are left to be read."""

    messages: list[StoredMessage]
    rest: list[Span]


class TimeRanges:
    """Reads topics between two moments."""

    def __init__(self, topics: Topics, positions: Positions, reader: MessageReader) -> None:
        self._topics = topics
        self._positions = positions
        self._reader = reader

    async def spans(
        self,
        topic_name: str,
        begin_ms: int | None,
        end_ms: int | None,
        partitions: Iterable[int] | None = None,
    ) -> list[Span]:
        """The spans of a topic's partitions between two moments; None is the end on that side.

        Raises:
            TopicError: there is no such topic or partition.
        """
        topic = self._topics.catalogue.topic(topic_name)
        begin = EARLIEST if begin_ms is None else Position(Anchor.TIMESTAMP, begin_ms)
        end = LATEST if end_ms is None else Position(Anchor.TIMESTAMP, end_ms)
        spans = []
        for number in range(topic.partition_count) if partitions is None else partitions:
            place = TopicPartition(topic_name, number)
            span = Span(
                number,
                await self._positions.offset_of(place, begin),
                await self._positions.offset_of(place, end),
            )
            if span.start < span.end:
                spans.append(span)
        return spans

    async def read(
        self,
        topic_name: str,
        spans: Sequence[Span],
        *,
        limit: int,
        begin_ms: int | None = None,
        end_ms: int | None = None,
    ) -> Merged:
        """Up to `limit` messages of the spans, merged by time.

        Raises:
            TopicError, StorageError, ClusterError: they cannot be read.
        """
        messages: list[StoredMessage] = []
        rest = list(spans)
        for _ in range(_ROUNDS):
            if not rest or len(messages) >= limit:
                break
            merged = merge(await self._pages(topic_name, rest, limit), limit - len(messages))
            rest = merged.rest
            messages += [each for each in merged.messages if _is_between(each, begin_ms, end_ms)]
        return Merged(messages, rest)

    async def _pages(self, topic_name: str, spans: Sequence[Span], limit: int) -> list[Page]:
        """What can be read at once of each span; those with nothing left to read are left out."""
        max_bytes = max(_READ_BYTES // len(spans), _LEAST_BYTES)
        pages = []
        for span in spans:
            place = TopicPartition(topic_name, span.partition)
            start = span.start
            try:
                found = await self._reader.read(place, start, limit=limit, max_bytes=max_bytes)
            except OffsetOutOfRangeError as error:
                start = error.log_start
                if not span.start < start < span.end:
                    continue
                found = await self._reader.read(place, start, limit=limit, max_bytes=max_bytes)
            end = min(span.end, found.last_stable)
            if start >= end:
                continue
            inside = [each for each in found.messages if each.record.offset < end]
            next_offset = max(found.next_offset, start + 1)  # an empty stretch is stepped over
            pages.append(Page(Span(span.partition, start, end), inside, next_offset))
        return pages


def _is_between(message: StoredMessage, begin_ms: int | None, end_ms: int | None) -> bool:
    at_ms = message.record.timestamp_ms
    return (begin_ms is None or at_ms >= begin_ms) and (end_ms is None or at_ms < end_ms)


def merge(pages: Sequence[Page], limit: int) -> Merged:
    """Take messages by their time, each partition in its own order, as far as that is certain.

    It is not certain any more where a page ends before its span does: what follows may be earlier
    than everything else.
    """
    taken = [0] * len(pages)
    heap: list[tuple[int, int]] = []
    messages: list[StoredMessage] = []
    is_certain = True

    def offer(at: int) -> bool:
        """Let a page's next message take part; False when nobody knows what it is."""
        page = pages[at]
        if taken[at] < len(page.messages):
            heapq.heappush(heap, (page.messages[taken[at]].record.timestamp_ms, at))
            return True
        return page.next_offset >= page.span.end

    for at in range(len(pages)):
        is_certain = offer(at) and is_certain
    while is_certain and heap and len(messages) < limit:
        _, at = heapq.heappop(heap)
        messages.append(pages[at].messages[taken[at]])
        taken[at] += 1
        is_certain = offer(at)
    rest = [_rest(page, count) for page, count in zip(pages, taken, strict=True)]
    return Merged(messages, [span for span in rest if span.start < span.end])


def _rest(page: Page, count: int) -> Span:
    """What is left of a span when so many messages of its page were taken."""
    is_cut = count < len(page.messages)
    start = page.messages[count].record.offset if is_cut else page.next_offset
    return page.span._replace(start=start)
