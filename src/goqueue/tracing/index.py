"""Which stored messages are traced, and in which trace: what an acknowledgement is looked up in.

Whoever acknowledges names offsets. The batches around them are not at hand then, so it is noted
here which ranges of offsets are traced, and the traces of those messages that name one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from goqueue.tracing.context import TraceContext

MAX_TRACED: Final = 100_000
"""Batches and messages with traces of their own. Of more, the oldest batch is forgotten: what is
said of its messages is noted again once they have been delivered again."""


class Traced(NamedTuple):
    """A batch that is traced."""

    first: int
    end: int
    own: Mapping[int, TraceContext | None]
    """Messages that name their trace, by offset; None for those that want none."""


class TracedIndex:
    """The traced batches of all partitions, by place. Batches of one place do not overlap."""

    def __init__(self, limit: int = MAX_TRACED) -> None:
        self._limit = limit
        self._places: dict[str, list[Traced]] = {}
        self._order: deque[tuple[str, int]] = deque()
        self._cost = 0

    def __len__(self) -> int:
        return len(self._order)

    def add(self, place: str, traced: Traced) -> None:
        """Note a batch; one that is noted already counts once."""
        batches = self._places.setdefault(place, [])
        if not batches or batches[-1].first < traced.first:
            batches.append(traced)
        elif self.batch(place, traced.first) is None:
            insort(batches, traced, key=_first)
        else:
            return
        self._order.append((place, traced.first))
        self._cost += 1 + len(traced.own)
        while self._cost > self._limit and len(self._order) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        place, first = self._order.popleft()
        batches = self._places.get(place, [])
        at = bisect_left(batches, first, key=_first)
        if at < len(batches) and batches[at].first == first:
            self._cost -= 1 + len(batches[at].own)
            del batches[at]
            if not batches:
                del self._places[place]

    def knows(self, place: str) -> bool:
        """Whether anything of a partition is traced."""
        return place in self._places

    def batch(self, place: str, offset: int) -> Traced | None:
        """The traced batch that holds an offset."""
        batches = self._places.get(place)
        if not batches:
            return None
        at = bisect_right(batches, offset, key=_first) - 1
        return batches[at] if at >= 0 and offset < batches[at].end else None

    def within(
        self, place: str, first: int, end: int
    ) -> Iterator[tuple[TraceContext | None, int, int]]:
        """What of [first, end) is traced, each message once.

        Single messages with the traces that they name, and ranges of others.
        """
        batches = self._places.get(place)
        if not batches:
            return
        at = max(bisect_right(batches, first, key=_first) - 1, 0)
        while at < len(batches) and batches[at].first < end:
            batch = batches[at]
            yield from parts_of(batch, max(first, batch.first), min(end, batch.end))
            first = max(first, batch.end)
            at += 1


def _first(batch: Traced) -> int:
    return batch.first


def parts_of(batch: Traced, first: int, end: int) -> Iterator[tuple[TraceContext | None, int, int]]:
    """What of [first, end), which lies in the batch, is traced; as `TracedIndex.within` has it."""
    if batch.own:
        for offset in sorted(each for each in batch.own if first <= each < end):
            if first < offset:
                yield None, first, offset
            context = batch.own[offset]
            if context is not None:
                yield context, offset, offset + 1
            first = offset + 1
    if first < end:
        yield None, first, end
