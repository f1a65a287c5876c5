"""What groups are not done with: how old the oldest of it is, and when it will be done.

Both need more than the present: the age of a message is in the log, and a rate needs two moments.
So a pass looks every few seconds, in a thread where it must read, and a caller in between
reads memory alone: a scrape of the metrics costs no read of the disk.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NO_TIMESTAMP
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import HEADER_BYTES, peek_header
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from concurrent.futures import Executor

    from goqueue.insight.group_views import GroupViews
    from goqueue.insight.lag import GroupLag
    from goqueue.model.lag import PartitionLag
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.clock import Clock

WINDOW_S: Final = 60.0
"""How far back rates are measured."""
SPACING_S: Final = 1.0
"""Marks that are closer than this become one, which bounds how many there are."""

KEEPS_UP_S: Final = 10.0
"""A group whose backlog is no more than it does in this time keeps up: there is always something
under way while messages come in, and that it does not become less means nothing."""


class _Mark(NamedTuple):
    at_s: float
    committed: int
    log_end: int


class Progress:
    """Where a group and the ends of its partitions were lately, all partitions added up."""

    def __init__(self) -> None:
        self._marks: deque[_Mark] = deque()
        self._partitions = 0

    def note(self, at_s: float, committed: int, log_end: int, partitions: int) -> None:
        """What is so now. When a group was set back or has other partitions, it begins anew."""
        if partitions != self._partitions or (
            self._marks and committed < self._marks[-1].committed
        ):
            self._marks.clear()
        self._partitions = partitions
        if len(self._marks) > 1 and at_s - self._marks[-2].at_s < SPACING_S:
            self._marks.pop()
        self._marks.append(_Mark(at_s, committed, log_end))
        while len(self._marks) > 2 and at_s - self._marks[1].at_s >= WINDOW_S:
            self._marks.popleft()

    @property
    def lag(self) -> int:
        """Messages that are left."""
        return max(self._marks[-1].log_end - self._marks[-1].committed, 0) if self._marks else 0

    @property
    def commits_per_s(self) -> float:
        """Messages a second that the group is done with."""
        return self._rate(1)

    @property
    def appends_per_s(self) -> float:
        """Messages a second that come in."""
        return self._rate(2)

    @property
    def drain_s(self) -> float | None:
        """Seconds until nothing is left, if all goes on like this.

        Infinite when it does not become less, None as long as nobody can tell.
        """
        if self._marks and not self.lag:
            return 0.0
        if self._span_s <= 0:
            return None
        done_per_s = self.commits_per_s
        if self.lag <= done_per_s * KEEPS_UP_S:
            return self.lag / done_per_s
        gained = done_per_s - self.appends_per_s
        return self.lag / gained if gained > 0 else math.inf

    @property
    def _span_s(self) -> float:
        return self._marks[-1].at_s - self._marks[0].at_s if self._marks else 0.0

    def _rate(self, field: int) -> float:
        span_s = self._span_s
        return (self._marks[-1][field] - self._marks[0][field]) / span_s if span_s > 0 else 0.0


_MAX_TRACKED: Final = 10_000
"""Pairs of a group and a topic that are looked at; of the others only the lag is known."""
_MAX_LOOKUPS: Final = 200
"""Messages whose time is read in one look. Those beyond it have their turn in the next ones; until
then the message before them counts, so that an age is too large rather than too small."""
_AT_ONCE: Final = 100
"""Partitions that a look deals with before others have their turn on the event loop."""

_Pair: TypeAlias = tuple[str, str]
_Lines: TypeAlias = "dict[_Pair, list[PartitionLag]]"


class Backlog(msgspec.Struct, frozen=True):
    """What a group has left of one topic, at the last look."""

    group_id: str
    topic: str
    lag: int
    uncommitted_lag: int
    """The part of it in partitions that the group has committed nothing of: an upper bound."""
    commits_per_s: float
    appends_per_s: float
    drain_s: float | None
    """Seconds until nothing is left; infinite when it does not become less, None: unknown yet."""
    oldest_ms: int | None
    """The time of the oldest message that the group is not done with; None: none, or unknown."""

    def oldest_age_s(self, now_ms: int) -> float:
        """How long that message has been waiting; 0 when nothing is."""
        return max(now_ms - self.oldest_ms, 0) / 1000 if self.lag and self.oldest_ms else 0.0


class _Known(NamedTuple):
    """The message that a group goes on with, and when that was looked up."""

    offset: int
    time_ms: int | None
    look: int


class Backlogs:
    """Every group's backlog, as of the last look."""

    def __init__(
        self,
        views: GroupViews,
        lag: GroupLag,
        partitions: Partitions,
        clock: Clock,
        executor: Executor,
    ) -> None:
        self._views = views
        self._lag = lag
        self._partitions = partitions
        self._clock = clock
        self._executor = executor
        self._look = 0
        self._progress: dict[_Pair, Progress] = {}
        self._known: dict[tuple[str, TopicPartition], _Known] = {}
        self._found: dict[_Pair, Backlog] = {}
        self.has_looked = False
        """Before the first look nobody knows what is left."""

    def all(self) -> Iterable[Backlog]:
        """One for each topic of each group, in no order; none before the first look."""
        return self._found.values()

    def of(self, group_id: str) -> list[Backlog]:
        """Those of one group."""
        return [each for each in self._found.values() if each.group_id == group_id]

    async def look(self) -> None:
        """See what is so now; run every few seconds."""
        self._look += 1
        lines = await self._lines()
        await self._look_up(lines)
        self._known = await self._still_known(lines)
        self._progress = {
            pair: known for pair in lines if (known := self._progress.get(pair)) is not None
        }
        self._found = await self._noted(lines)
        self.has_looked = True

    async def _lines(self) -> _Lines:
        """Where every group is, a group at a time: there may be thousands of partitions."""
        lines: _Lines = {}
        for group in self._views.all():
            await asyncio.sleep(0)
            for line in self._lag.of(group.group_id):
                pair = (group.group_id, line.topic)
                if pair in lines or len(lines) < _MAX_TRACKED:
                    lines.setdefault(pair, []).append(line)
        return lines

    async def _noted(self, lines: _Lines) -> dict[_Pair, Backlog]:
        now_s = self._clock.monotonic_s()
        found: dict[_Pair, Backlog] = {}
        async for pair, partitions in _in_turns(lines):
            progress = self._progress.setdefault(pair, Progress())
            committed = sum(each.position for each in partitions)
            log_end = committed + sum(each.lag for each in partitions)
            progress.note(now_s, committed, log_end, len(partitions))
            found[pair] = Backlog(
                *pair,
                progress.lag,
                sum(each.uncommitted_lag for each in partitions),
                progress.commits_per_s,
                progress.appends_per_s,
                progress.drain_s,
                self._oldest_ms(pair[0], partitions),
            )
        return found

    def _oldest_ms(self, group_id: str, partitions: list[PartitionLag]) -> int | None:
        times = [
            known.time_ms
            for each in partitions
            if each.lag and (known := self._known.get((group_id, _place(each)))) and known.time_ms
        ]
        return min(times, default=None)

    async def _still_known(self, lines: _Lines) -> dict[tuple[str, TopicPartition], _Known]:
        """Without groups and topics that are gone, and messages that were dealt with."""
        kept: dict[tuple[str, TopicPartition], _Known] = {}
        async for (group_id, _), partitions in _in_turns(lines):
            for each in partitions:
                key = (group_id, _place(each))
                if each.lag and (known := self._known.get(key)) is not None:
                    kept[key] = known
        return kept

    # --- When the oldest message was published ---------------------------------------------------

    async def _look_up(self, lines: _Lines) -> None:
        wanted: list[tuple[int, str, PartitionLag]] = []
        async for (group_id, _), partitions in _in_turns(lines):
            for each in partitions:
                known = self._known.get((group_id, _place(each))) if each.lag else None
                if each.lag and (known is None or known.offset != each.position):
                    wanted.append((known.look if known else 0, group_id, each))
        due = heapq.nsmallest(_MAX_LOOKUPS, wanted, key=lambda each: each[0])
        places = list({(_place(each), each.position) for _, _, each in due})
        if not places:
            return
        times = dict(
            zip(places, await in_thread(self._executor, lambda: self._times(places)), strict=True)
        )
        for _, group_id, each in due:
            time_ms = times[_place(each), each.position]
            self._known[group_id, _place(each)] = _Known(each.position, time_ms, self._look)

    def _times(self, places: Sequence[tuple[TopicPartition, int]]) -> list[int | None]:
        """Of each place, when its message was published; in a thread."""
        return [self._time_at(*place) for place in places]

    def _time_at(self, partition_id: TopicPartition, offset: int) -> int | None:
        """The time of the batch that holds an offset, or comes next; None when it is unreadable."""
        try:
            region = self._partitions.local(partition_id).read(offset, 1)
            if region is None:
                return None
            info = peek_header(region.file.read(region.position, HEADER_BYTES))
        except GoQueueError:
            return None  # gone meanwhile, or damaged: whoever reads it is told
        time_ms = info.max_timestamp if info.is_log_append_time else info.base_timestamp
        return None if time_ms == NO_TIMESTAMP else time_ms


def _place(line: PartitionLag) -> TopicPartition:
    return TopicPartition(line.topic, line.partition)


async def _in_turns(lines: _Lines) -> AsyncIterator[tuple[_Pair, list[PartitionLag]]]:
    """One pair after the other, and others in between: a look must not hold up who publishes."""
    count = 0
    for pair, partitions in lines.items():
        yield pair, partitions
        count += len(partitions)
        if count >= _AT_ONCE:
            count = 0
            await asyncio.sleep(0)
