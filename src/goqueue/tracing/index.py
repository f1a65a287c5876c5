"""Which stored messages are traced, and in which trace: what an acknowledgement is looked up in.

Whoever acknowledges names offsets. The batches around them are not at hand then, so it is noted
here which ranges of offsets are traced, and the traces of those messages that name one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goqueue.tracing.context import TraceContext

_MAX_TRACED: Final = 100_000
"""Batches and messages with traces of their own. Of more, the oldest batch is forgotten: what is
said of its messages is noted again once they have been delivered again."""


class Traced(NamedTuple):
    """A batch that is traced."""

    first: int
    end: int
    own: Mapping[int, TraceContext | None]
    """Messages that name their trace, by offset; None for those that want none."""


_NOTHING: Final = Traced(-1, -1, {})


class _Batches:
    """The traced batches of one partition, by offset; none overlaps another.

    The oldest goes first, and mostly is the first of them: it leaves an empty place, and these
    places are given up together, so that to forget one does not move all others.
    """

    __slots__ = ("_gone", "_known")

    def __init__(self) -> None:
        self._known: list[Traced] = []
        self._gone = 0
        """Places at the beginning that hold nothing any more."""

    def __len__(self) -> int:
        return len(self._known) - self._gone

    def add(self, traced: Traced) -> Sequence[Traced]:
        """Note what was not known of a batch; tells which parts of it these are."""
        known = self._known
        if not known or known[-1].end <= traced.first:
            known.append(traced)
            return (traced,)
        parts = []
        for first, end in self._unknown(traced.first, traced.end):
            own = {at: context for at, context in traced.own.items() if first <= at < end}
            parts.append(Traced(first, end, own))
            insort(known, parts[-1], lo=self._gone, key=_first)
        return parts

    def _unknown(self, first: int, end: int) -> list[tuple[int, int]]:
        """What of [first, end) is in none of them."""
        found = []
        for batch in self.around(first, end):
            if first < batch.first:
                found.append((first, batch.first))
            first = max(first, batch.end)
        if first < end:
            found.append((first, end))
        return found

    def around(self, first: int, end: int) -> Iterator[Traced]:
        """Those that have something in common with [first, end)."""
        known = self._known
        at = max(bisect_right(known, first, lo=self._gone, key=_first) - 1, self._gone)
        while at < len(known) and known[at].first < end:
            if known[at].end > first:
                yield known[at]
            at += 1

    def forget(self, first: int) -> Traced:
        """Forget the one that begins there, and is known."""
        known = self._known
        batch = known[self._gone]
        if batch.first != first:
            return known.pop(bisect_left(known, first, lo=self._gone, key=_first))
        known[self._gone] = _NOTHING
        self._gone += 1
        if 2 * self._gone > len(known):
            del known[: self._gone]
            self._gone = 0
        return batch


class TracedIndex:
    """The traced batches of all partitions, by place."""

    def __init__(self, limit: int = _MAX_TRACED) -> None:
        self._limit = limit
        self._places: dict[str, _Batches] = {}
        self._order: deque[tuple[str, int]] = deque()
        self._cost = 0

    def __len__(self) -> int:
        return len(self._order)

    def add(self, place: str, traced: Traced) -> None:
        """Note a batch; what of it is noted already stays as it is."""
        batches = self._places.get(place)
        if batches is None:
            batches = self._places[place] = _Batches()
        for part in batches.add(traced):
            self._order.append((place, part.first))
            self._cost += 1 + len(part.own)
        while self._cost > self._limit and len(self._order) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        place, first = self._order.popleft()
        batches = self._places[place]
        self._cost -= 1 + len(batches.forget(first).own)
        if not batches:
            del self._places[place]

    def knows(self, place: str) -> bool:
        """Whether anything of a partition is traced."""
        return place in self._places

    def within(
        self, place: str, first: int, end: int
    ) -> Iterator[tuple[TraceContext | None, int, int]]:
        """What of [first, end) is traced, each message once.

        Single messages with the traces that they name, and ranges of others.
        """
        batches = self._places.get(place)
        if batches is not None:
            for batch in batches.around(first, end):
                yield from parts_of(batch, max(first, batch.first), min(end, batch.end))


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
