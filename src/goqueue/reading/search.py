"""Look through a topic for messages, a bounded stretch at a time, the newest or the oldest first.

A call reads so many bytes, or takes so long, and says what is left to be looked at; nothing is kept
in between. No message is counted that is not read: a topic of ten million messages shows its newest
as fast as an empty one shows none.
"""

from __future__ import annotations

import heapq
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.topic_partition import TopicPartition
from goqueue.reading.searching import Hit, SearchFilter, Window, cut_before
from goqueue.reading.time_range import Span
from goqueue.reading.windows import Looks, WindowRequest, Windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.runtime.clock import Clock

_MAX_READ_BYTES: Final = 8 * 1024 * 1024
"""Read by one call, but for the last window of it."""
_MAX_TIME_S: Final = 0.2
_MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Of the messages of one answer, each counted up to `SHOWN_BYTES`; one is returned in any case."""
SHOWN_BYTES: Final = 64 * 1024
_FIRST_WINDOW: Final = 16 * 1024
_LARGEST_WINDOW: Final = 1024 * 1024
"""Windows double while little is found."""


class SearchResult(msgspec.Struct, frozen=True):
    """Messages in the order asked for, and what is left to be looked at."""

    hits: list[Hit]
    rest: list[Span]
    scanned: int
    """Messages that were looked at."""


class _Scan(msgspec.Struct):
    """How far one partition was looked through."""

    windows: Windows
    rest: Span
    edge: float
    """How far in time; what is left lies behind it, as far as clocks agree."""
    window: int = _FIRST_WINDOW
    hits: deque[Hit] = msgspec.field(default_factory=deque)
    """Found and not yet in the answer, in the order asked for."""

    @property
    def is_through(self) -> bool:
        return self.rest.start >= self.rest.end


class Search:
    """One call."""

    def __init__(
        self,
        looks: Looks,
        clock: Clock,
        wanted: SearchFilter,
        limit: int,
        *,
        newest_first: bool,
    ) -> None:
        self._looks = looks
        self._clock = clock
        self._wanted = wanted
        self._limit = limit
        self._newest_first = newest_first
        self._sign = -1 if newest_first else 1
        """Times with this sign grow in the order asked for."""
        self._read_bytes = 0
        self._scanned = 0

    async def run(self, topic_name: str, spans: Sequence[Span]) -> SearchResult:
        """Look through the spans, as far as one call goes.

        Raises:
            TopicError: there is no such partition.
            StorageError, ClusterError: the disk refuses, or a leader does not answer.
        """
        scans = [self._scan(topic_name, span) for span in spans]
        deadline_s = self._clock.monotonic_s() + _MAX_TIME_S
        while (scan := self._next(scans)) is not None:
            await self._advance(scan)
            if self._read_bytes >= _MAX_READ_BYTES:
                break
            if self._clock.monotonic_s() >= deadline_s:
                break
        hits = self._merged(scans)
        rest = [self._left(scan) for scan in scans]
        return SearchResult(hits, [each for each in rest if each.start < each.end], self._scanned)

    def _scan(self, topic_name: str, span: Span) -> _Scan:
        windows = self._looks.into(TopicPartition(topic_name, span.partition), span)
        return _Scan(windows, span, -inf)

    def _next(self, scans: list[_Scan]) -> _Scan | None:
        """Whom to look at next: who is behind; None when the answer is certain."""
        open_scans = [
            each for each in scans if not each.is_through and len(each.hits) < self._limit
        ]
        if not open_scans:
            return None
        behind = min(open_scans, key=lambda each: each.edge)
        if behind.edge == -inf:
            return behind
        certain = 0
        for scan in scans:
            for hit in scan.hits:
                if self._sign * hit.record.timestamp_ms > behind.edge:
                    break
                certain += 1
        return None if certain >= self._limit else behind

    async def _advance(self, scan: _Scan) -> None:
        asked = WindowRequest(self._wanted, scan.window, self._limit, self._newest_first)
        window = await scan.windows.look(scan.rest, asked)
        self._read_bytes += window.size_bytes
        self._scanned += window.scanned
        scan.window = min(scan.window * 2, _LARGEST_WINDOW)
        scan.rest = window.rest
        if window.edge_ms is not None:
            scan.edge = max(scan.edge, self._sign * window.edge_ms)
        elif scan.edge == -inf:
            scan.edge = inf if scan.is_through else -inf
        self._take(scan, window)

    def _take(self, scan: _Scan, window: Window) -> None:
        """Keep what was found, but no more than an answer holds: the rest is found again."""
        hits = window.hits
        room = self._limit - len(scan.hits)
        scan.hits.extend(hits[:room])
        if len(hits) > room:
            scan.rest = self._before(scan.rest, hits[room])

    def _before(self, rest: Span, hit: Hit) -> Span:
        return cut_before(rest, hit.record.offset, newest=self._newest_first)

    def _merged(self, scans: list[_Scan]) -> list[Hit]:
        """The messages of the answer by their time, each partition in its own order."""
        heap = [
            (self._sign * scan.hits[0].record.timestamp_ms, number)
            for number, scan in enumerate(scans)
            if scan.hits
        ]
        heapq.heapify(heap)
        merged: list[Hit] = []
        left_bytes = _MAX_PAGE_BYTES
        while heap and len(merged) < self._limit and (left_bytes > 0 or not merged):
            _, number = heapq.heappop(heap)
            hits = scans[number].hits
            hit = hits.popleft()
            merged.append(hit)
            left_bytes -= _shown_bytes(hit)
            if hits:
                heapq.heappush(heap, (self._sign * hits[0].record.timestamp_ms, number))
        return merged

    def _left(self, scan: _Scan) -> Span:
        """What is left of a partition: where the first message lies that is not in the answer."""
        return self._before(scan.rest, scan.hits[0]) if scan.hits else scan.rest


def _shown_bytes(hit: Hit) -> int:
    record = hit.record
    sizes = [len(record.key or b""), len(record.value or b"")]
    sizes += [len(value or b"") for _, value in record.headers]
    return sum(min(size, SHOWN_BYTES) for size in sizes) + 200
