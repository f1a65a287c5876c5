"""Dead letters of the last hour that have not gone back, whoever wrote them.

A queue group of this broker writes them, or a pipeline elsewhere that publishes them like any other
message. So it is asked where they end up: what came to a dead-letter topic is a new letter. Where
the last hour begins in a partition is looked up by time, and kept for a few minutes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import msgspec

from goqueue.model.dead_letters import is_dead_letter_topic
from goqueue.model.errors import GoQueueError
from goqueue.model.tuples import NamedTuple
from goqueue.reading.positions import Anchor, Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.pipelines.service import Pipelines
    from goqueue.queues.dead_letters.letters import Letters
    from goqueue.reading.positions import Positions
    from goqueue.reading.record_reader import RecordSource
    from goqueue.runtime.clock import Clock

_NEW_MS: Final = 3_600_000
_LOOK_AGAIN_S: Final = 300.0
"""For so long the place found in a partition serves: letters count for an hour and that at most."""


class DeadLetterCount(msgspec.Struct, frozen=True):
    """Letters that came to one topic."""

    count: int
    topic: str
    """Where they are."""
    source: str | None = None
    """Of which topic they are, if its name says so; then they can be redriven."""
    pipeline: str | None = None
    """Which pipeline says that it puts its letters there."""


class _Place(NamedTuple):
    looked_s: float
    offset: int


class NewDeadLetters:
    """How many letters are new."""

    def __init__(
        self,
        letters: Letters,
        positions: Positions,
        pipelines: Pipelines,
        clock: Clock,
    ) -> None:
        self._letters = letters
        self._positions = positions
        self._pipelines = pipelines
        self._clock = clock
        self._places: WeakKeyDictionary[RecordSource, _Place] = WeakKeyDictionary()
        """One of each partition of a dead-letter topic."""

    async def all(self) -> list[DeadLetterCount]:
        """Every topic with new letters, most of them first.

        In a cluster, on the node that knows which letters were redriven; on others none.
        """
        if not self._letters.is_index_here():
            return []
        found = []
        for source in self._letters.sources():
            with suppress(GoQueueError):  # deleted meanwhile, or the disk refuses: nobody can tell
                topic = self._letters.topic(source)
                if topic is not None:
                    partitions = await self._letters.told(source)
                    found.append(DeadLetterCount(await self._count(partitions), topic.name, source))
        for topic_name, pipeline in dict(self._elsewhere()).items():
            with suppress(GoQueueError):
                count = await self._count(await self._letters.told(topic_name, topic_name))
                found.append(DeadLetterCount(count, topic_name, pipeline=pipeline))
        return sorted((each for each in found if each.count), key=lambda each: -each.count)

    def _elsewhere(self) -> Iterator[tuple[str, str]]:
        """Topics that are not called like dead-letter topics, and the pipelines that say so."""
        for report in self._pipelines.all():
            for query in report.queries:
                topic = query.dead_letters
                if topic is not None and not is_dead_letter_topic(topic):
                    yield topic, report.name

    async def _count(self, partitions: Iterable[RecordSource]) -> int:
        total = 0
        for partition in partitions:
            await asyncio.sleep(0)  # there may be thousands of them
            if partition.log_start < partition.log_end:
                ranges = [(await self._begin(partition), partition.log_end)]
                total += await self._letters.count_in(partition, ranges)
        return total

    async def _begin(self, partition: RecordSource) -> int:
        """Where the last hour begins."""
        clock = self._clock
        known, now_s = self._places.get(partition), clock.monotonic_s()
        if known is not None and now_s - known.looked_s < _LOOK_AGAIN_S:
            return known.offset
        hour_ago = Position(Anchor.TIMESTAMP, clock.now_ms() - _NEW_MS)
        offset = await self._positions.offset_of(partition.id, hour_ago)
        self._places[partition] = _Place(now_s, offset)
        return offset
