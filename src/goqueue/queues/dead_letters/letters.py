"""Dead letters, read: what is in a dead-letter topic and was not redriven yet.

Which letters were redriven is known to a queue group of the broker's own, which is done with them.
So nothing is ever taken out of the topic itself, and whoever reads it as a log sees all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.dead_letters import (
    HEADER_PREFIX,
    REDRIVEN_HEADER,
    SUFFIX,
    UNDECODABLE_HEADER,
    dead_letter_topic,
    is_dead_letter_topic,
)
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GoQueueError,
    InternalTopicError,
    LeaderUnavailableError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    PeerUnavailableError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.partition import Isolation
from goqueue.queues.dead_letters.error_patterns import error_pattern
from goqueue.queues.dead_letters.letter_gaps import LetterGaps
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.group import REDRIVE_GROUP
from goqueue.queues.delivery.pages import MessageState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from concurrent.futures import Executor

    from goqueue.model.ranges import Range
    from goqueue.queues.service import Queues
    from goqueue.reading.positions import Positions
    from goqueue.reading.record_reader import RecordReader, RecordSource
    from goqueue.records import Headers, Record
    from goqueue.topics.catalogue import Topic, Topics

_AT_ONCE: Final = 500
"""Letters that are read together."""
_READ_BYTES: Final = 8 * 1024 * 1024
"""Of batches that are read together; a larger one is read by itself."""
_MAX_DIGITS: Final = 18


class Letter(NamedTuple):
    """One dead letter."""

    partition: int
    """Of the dead-letter topic."""
    record: Record
    cause: dict[str, str]
    """What its headers say of its origin and its cause; see `service.dead_letter_headers`."""

    @property
    def headers(self) -> Headers:
        """The headers that the message had before it was dead-lettered."""
        return tuple(each for each in self.record.headers if not each[0].startswith(HEADER_PREFIX))

    def number(self, name: str) -> int | None:
        """A number in its headers; None when it says none."""
        text = self.cause.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None

    @property
    def has_message(self) -> bool:
        """Whether there is something to redrive: a record that did not decode leaves nothing."""
        return UNDECODABLE_HEADER.removeprefix(HEADER_PREFIX) not in self.cause

    @property
    def redriven(self) -> int:
        """How often it was redriven before."""
        for name, value in reversed(self.record.headers):
            if name == REDRIVEN_HEADER and value is not None and value.isdigit():
                return int(value[:_MAX_DIGITS])
        return 0

    @property
    def died_ms(self) -> int:
        """When it was dead-lettered."""
        found = self.number("time")
        return self.record.timestamp_ms if found is None else found


def letter_of(partition: int, record: Record) -> Letter:
    """A record of a dead-letter topic; one that somebody else put there has no such headers."""
    said = {
        name.removeprefix(HEADER_PREFIX): (value or b"").decode(errors="replace")
        for name, value in record.headers
        if name.startswith(HEADER_PREFIX)
    }
    return Letter(partition, record, said)


class LetterFilter(msgspec.Struct, frozen=True, dict=True):
    """Which letters are meant; everything that is said must hold."""

    reason: str | None = None
    group: str | None = None
    key: bytes | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Died from then on, and before then."""
    offsets: Mapping[int, frozenset[int]] | None = None
    """Only these, by partition."""
    error: str | None = None
    """With this last error; numbers and ids in it do not matter. Empty: without an error."""

    def matches(self, letter: Letter) -> bool:
        """Whether a letter is meant; its place has been looked at before."""
        said = letter.cause
        return (
            (self.reason is None or said.get("reason") == self.reason)
            and (self.group is None or said.get("group") == self.group)
            and (self.key is None or letter.record.key == self.key)
            and (self.since_ms is None or letter.died_ms >= self.since_ms)
            and (self.until_ms is None or letter.died_ms < self.until_ms)
            and (self.error is None or error_pattern(said.get("error", "")) == self._pattern)
        )

    @cached_property
    def _pattern(self) -> str:
        return error_pattern(self.error or "")


ALL: Final = LetterFilter()


class Letters:
    """The letters of all dead-letter topics."""

    def __init__(
        self,
        queues: Queues,
        topics: Topics,
        positions: Positions,
        reader: RecordReader,
        executor: Executor,
    ) -> None:
        self._queues = queues
        self._topics = topics
        self._positions = positions
        self._reader = reader
        self._gaps = LetterGaps(executor)

    def is_index_here(self) -> bool:
        """Whether this node knows which letters were redriven: in a cluster, one of them does."""
        try:
            self._queues.find(REDRIVE_GROUP)
        except CoordinatorUnavailableError:
            return False
        return True

    def topic(self, source: str, letters_in: str | None = None) -> Topic | None:
        """Where the dead letters of a topic are; None when it never had any.

        With `letters_in`, they are in that topic rather than in the dead-letter queue.

        Raises:
            UnknownTopicError: there is no such topic, and no dead letter of one.
            InternalTopicError: it is the broker's own.
        """
        catalogue = self._topics.catalogue
        found = catalogue.by_name.get(letters_in or dead_letter_topic(source))
        if found is None:
            catalogue.topic(letters_in or source)
        elif found.is_internal and not is_dead_letter_topic(found.name):
            raise InternalTopicError(f"{found.name} belongs to the broker: it holds no letters")
        return found

    def sources(self) -> list[str]:
        """Every topic that has dead letters, or had some, by name."""
        names = self._topics.catalogue.by_name
        return sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))

    async def newest_ms(self, source: str) -> int | None:
        """When the last of the letters that were not redriven came. Raises like `topic`."""
        found: list[int] = []
        for partition in await self.readable(source):
            end = _end(partition)
            gaps = await self._gaps.upto(partition, end)
            lasts = (gaps.last_outside(*each) for each in self.unmoved(partition, 0, end))
            last = max((each for each in lasts if each is not None), default=None)
            if last is not None:
                loaded = await self._reader.load(partition, [(last, last + 1)])
                found += (letter_of(0, each).died_ms for each in loaded.records())
        return max(found, default=None)

    async def readable(self, source: str, letters_in: str | None = None) -> list[RecordSource]:
        """`partitions`, as far as their leaders have committed them. Raises like `partition`."""
        found = self.partitions(source, letters_in)
        if all(each.is_leading for each in found):
            return found
        return await asyncio.gather(*(self._current(each.id) for each in found))

    async def told(self, source: str, letters_in: str | None = None) -> list[RecordSource]:
        """The same as far as this node has heard, which costs nothing."""
        found = self.partitions(source, letters_in)
        return [await self._queues.sources.known(each.id) for each in found]

    async def _current(self, place: TopicPartition) -> RecordSource:
        """A partition with everything that was acknowledged by now, or what is here of it."""
        sources = self._queues.sources
        try:
            return await sources.reaching(place, await self._positions.ends(place))
        except (LeaderUnavailableError, OffsetNotAvailableError, PeerUnavailableError):
            return await sources.known(place)

    def partitions(self, source: str, letters_in: str | None = None) -> list[RecordSource]:
        """The partitions that hold the dead letters of a topic. Raises like `topic`."""
        topic = self.topic(source, letters_in)
        if topic is None:
            return []
        of = self._queues.sources.of
        return [of(TopicPartition(topic.name, each)) for each in range(topic.partition_count)]

    async def partition(
        self, source: str, number: int, letters_in: str | None = None
    ) -> RecordSource:
        """One of them.

        Raises:
            TopicError: there is no such partition.
            LeaderUnavailableError: its leader does not answer, and nothing of it is here.
        """
        self.topic(source, letters_in)
        return await self._current(TopicPartition(letters_in or dead_letter_topic(source), number))

    def unmoved(self, partition: RecordSource, first: int, end: int) -> Iterator[Range]:
        """What of [first, end) was not redriven."""
        first = max(first, partition.log_start)
        group = self._queues.find(REDRIVE_GROUP)
        queue = None if group is None else group.queues.get(self._queues.key(partition.id))
        if queue is None:
            if first < end:
                yield first, end
            return
        yield from queue.window.in_state(first, end, MessageState.AVAILABLE)

    def moved(self, partition: RecordSource, first: int, limit: int) -> list[Range]:
        """What of a partition was redriven, from an offset on: so many ranges at most."""
        at = max(first, partition.log_start)
        found: list[Range] = []
        for start, end in self.unmoved(partition, at, _end(partition)):
            if at < start:
                found.append((at, start))
            at = end
            if len(found) >= limit:
                return found
        return [*found, (at, _end(partition))] if at < _end(partition) else found

    async def count(self, source: str) -> int:
        """How many letters were not redriven. Raises like `topic`."""
        return await self._count(await self.readable(source))

    async def _count(self, partitions: Iterable[RecordSource]) -> int:
        total = 0
        for partition in partitions:
            total += await self.count_in(partition, [(0, _end(partition))])
        return total

    async def count_in(self, partition: RecordSource, ranges: Iterable[Range]) -> int:
        """How many letters of some ranges of a partition were not redriven.

        An offset is not a letter: the end of a transaction has one as well.
        """
        end = _end(partition)
        gaps = await self._gaps.upto(partition, end)
        return sum(
            upto - start - gaps.covered(start, upto)
            for first, behind in ranges
            for start, upto in self.unmoved(partition, first, min(behind, end))
        )

    async def count_all(self) -> int:
        """How many letters of all topics were not redriven, as far as this node has heard."""
        total = 0
        for source in self.sources():
            await asyncio.sleep(0)  # there may be hundreds of them
            with suppress(GoQueueError):  # deleted meanwhile, or the disk refuses: nobody can tell
                total += await self._count(await self.told(source))
        return total

    async def read(
        self,
        source: str,
        chosen: LetterFilter = ALL,
        ends: Mapping[TopicPartition, int] | None = None,
        letters_in: str | None = None,
        after: tuple[int, int] | None = None,
    ) -> AsyncIterator[list[Letter]]:
        """The letters that are meant and were not redriven, some at a time.

        With `ends`, those that came later are left out; with `after`, a partition and an offset,
        those up to it. Raises like `topic`.
        """
        for partition in await self.readable(source, letters_in):
            number, first = partition.id.partition, 0
            if after is not None:
                if number < after[0]:
                    continue
                first = after[1] + 1 if number == after[0] else 0
            end = _end(partition) if ends is None else ends.get(partition.id, 0)
            for stretch in _stretches(partition, first, end, chosen):
                parts = [part for each in stretch for part in self.unmoved(partition, *each)]
                while parts:
                    loaded = await self._reader.load(partition, parts, max_bytes=_READ_BYTES)
                    parts = loaded.rest
                    letters = (letter_of(number, each) for each in loaded.records())
                    if found := [each for each in letters if chosen.matches(each)]:
                        yield found

    async def get(self, partition: RecordSource, offset: int) -> Letter:
        """One letter, also when it was redriven.

        Raises:
            OffsetOutOfRangeError: there is no letter at that offset.
        """
        if partition.log_start <= offset < _end(partition):
            loaded = await self._reader.load(partition, [(offset, offset + 1)])
            for record in loaded.records():
                return letter_of(partition.id.partition, record)
        raise OffsetOutOfRangeError(offset, partition.log_start, _end(partition))

    def is_redriven(self, partition: RecordSource, letter: Letter) -> bool:
        """Whether a letter was redriven."""
        offset = letter.record.offset
        return not any(self.unmoved(partition, offset, offset + 1))


def _stretches(
    partition: RecordSource, first: int, end: int, chosen: LetterFilter
) -> Iterator[list[Range]]:
    """What of [first, end) is to be read, so many offsets at a time."""
    if chosen.offsets is not None:
        named = sorted(at for at in chosen.offsets.get(partition.id.partition, ()) if at >= first)
        for at in range(0, len(named), _AT_ONCE):
            yield [
                (begin, min(upto, end))
                for begin, upto in ops.ranges_of(named[at : at + _AT_ONCE])
                if begin < end
            ]
        return
    at = max(first, partition.log_start)
    while at < end:
        yield [(at, min(at + _AT_ONCE, end))]
        at = max(at + _AT_ONCE, partition.log_start)


def _end(partition: RecordSource) -> int:
    return partition.readable_to(Isolation.READ_COMMITTED)
