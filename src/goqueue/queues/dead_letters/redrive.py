"""Redriving: dead letters go back to where they came from, or elsewhere, as new messages.

Each letter goes exactly once: `moves` says how.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count, groupby
from typing import TYPE_CHECKING, Any, Final, Protocol

from goqueue.model.dead_letters import dead_letter_topic
from goqueue.model.errors import (
    BatchError,
    DelayError,
    GoQueueError,
    InternalTopicError,
    SchemaError,
    TooManyRedrivesError,
    UnknownRedriveError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.publishing.handover import delivery_bit
from goqueue.publishing.requests import PublishRequest
from goqueue.queues.dead_letters.letters import LetterFilter, Letters
from goqueue.queues.dead_letters.moves import Moves
from goqueue.queues.dead_letters.redriven_records import as_published, portions
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.group import REDRIVE_GROUP
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.settings import QueueSettings

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partition import Partition, Placed
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.publishing.publish import Publisher
    from goqueue.queues.dead_letters.letters import Letter
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.service import Queues
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topics

_log = logging.getLogger(__name__)

_MAX_RUNNING: Final = 10
"""Redrives under way at once; one more is refused."""
_MAX_KEPT: Final = 100
"""Redrives whose end is remembered; of more, the oldest is forgotten."""
_REFUSALS: Final = (BatchError, DelayError, SchemaError)
"""What a topic has against single messages; everything else is in the way of all."""
_NO_MESSAGE: Final = (
    "letter {}/{} holds no message: the record that died does not decode, so it stays"
)


class RedriveServices(Protocol):
    """What redriving needs."""

    queues: Queues
    topics: Topics
    clock: Clock
    executor: Executor
    partitions: Partitions
    measures: Measures
    producer_ids: ProducerIds
    publisher: Publisher

    async def delete_records(self, partition_id: TopicPartition, offset: int | None) -> int:
        """Let a partition start at an offset."""


class RedriveState(StrEnum):
    """How far a redrive is."""

    COUNTING = "counting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """Which letters shall go where, and how fast."""

    topic: str
    """Where they came from."""
    to: str | None = None
    """Where they go; back, if nothing is said."""
    chosen: LetterFilter = field(default_factory=LetterFilter)
    limit: int | None = None
    rate: float | None = None
    """Messages a second."""
    dry_run: bool = False
    """Only count them."""

    @property
    def target(self) -> str:
        """The topic that they go to."""
        return self.topic if self.to is None else self.to


@dataclass(slots=True)
class Redrive:
    """A redrive, under way or over."""

    redrive_id: int
    request: RedriveRequest
    started_ms: int
    state: RedriveState = RedriveState.COUNTING
    total: int = 0
    """Letters that are meant; known once it is running."""
    done: int = 0
    failed: int = 0
    """Letters that the target refused; they stay where they are."""
    error: str = ""
    """Why letters were refused, or why all of it failed."""
    ended_ms: int | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        """Nothing more will happen."""
        return self.ended_ms is not None

    def rate(self, now_ms: int) -> float:
        """Messages a second so far."""
        took_ms = (now_ms if self.ended_ms is None else self.ended_ms) - self.started_ms
        return self.done * 1000 / max(took_ms, 1)


class Redrives:
    """Every redrive of this broker."""

    def __init__(self, services: RedriveServices, letters: Letters) -> None:
        self._services = services
        self._letters = letters
        self._numbers = count(1)
        self._kept: dict[int, Redrive] = {}
        self._moving = asyncio.Lock()
        """Letters go in one batch at a time, so that none goes twice."""
        self._moves = Moves(
            services.queues, services.partitions, services.producer_ids, services.executor
        )

    async def start(self) -> None:
        """Find out what became of letters that were on their way when the last process ended."""
        group = self._services.queues.find(REDRIVE_GROUP)
        if group is not None:
            for key in list(group.queues):
                with suppress(GoQueueError):  # then the next redrive finds out
                    await self._moves.resolve(group, key)

    async def stop(self) -> None:
        """End what is under way; the letters that have not gone stay."""
        tasks = [each.task for each in self._kept.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- Asking ----------------------------------------------------------------------------------

    def begin(self, request: RedriveRequest) -> Redrive:
        """Let letters go, in the background.

        Raises:
            TopicError: there is no such topic, or it takes no messages.
            TooManyRedrivesError: so many are under way already.
        """
        self._letters.topic(request.topic)
        if self._services.topics.catalogue.topic(request.target).is_internal:
            raise InternalTopicError(f"{request.target} belongs to the broker: nothing goes there")
        running = sum(not each.is_over for each in self._kept.values())
        if running >= _MAX_RUNNING:
            raise TooManyRedrivesError(f"{running} redrives are under way: wait for one to end")
        redrive = Redrive(next(self._numbers), request, self._services.clock.now_ms())
        self._kept[redrive.redrive_id] = redrive
        over = [number for number, each in self._kept.items() if each.is_over]
        for number in over[: max(len(self._kept) - _MAX_KEPT, 0)]:
            del self._kept[number]
        redrive.task = asyncio.get_running_loop().create_task(self._run(redrive))
        return redrive

    def __iter__(self) -> Iterator[Redrive]:
        return iter(self._kept.values())

    def get(self, redrive_id: int) -> Redrive:
        """A redrive of this process.

        Raises:
            UnknownRedriveError: there is none with that id, or it was long ago.
        """
        found = self._kept.get(redrive_id)
        if found is None:
            raise UnknownRedriveError(
                f"there is no redrive {redrive_id}: redrives are forgotten after {_MAX_KEPT} more, "
                "and when the server stops"
            )
        return found

    async def cancel(self, redrive_id: int) -> Redrive:
        """Let no more letters go; those that have gone stay gone. Raises like `get`."""
        redrive = self.get(redrive_id)
        if redrive.task is not None and not redrive.is_over:
            redrive.task.cancel()
            await asyncio.gather(redrive.task, return_exceptions=True)
        return redrive

    async def purge(self, source: str) -> int:
        """Remove every dead message of a topic, for every reader; says how many had not gone back.

        Raises:
            TopicError: there is no such topic.
        """
        async with self._moving:
            purged = await self._letters.count(source)
            for partition in self._letters.partitions(source):
                await self._services.delete_records(partition.id, None)
        return purged

    async def note_moved(self, source: str, number: int, ranges: Sequence[Range]) -> int:
        """Remember that somebody else has sent letters of a partition back; says how many are new.

        Raises:
            TopicError: there is no such partition.
        """
        self._letters.topic(source)
        place = TopicPartition(dead_letter_topic(source), number)
        partition = self._services.partitions.partition(place)
        upto = partition.readable_to(Isolation.READ_COMMITTED)
        async with self._moving:
            group = await self._group(place)
            key = self._services.queues.key(place)
            await self._moves.resolve(group, key)
            new = [
                each
                for first, end in ranges
                for each in self._letters.unmoved(partition, first, min(end, upto))
            ]
            moved = await self._letters.count_in(partition, new)
            if new:
                await self._moves.change(group, key, ops.Settled(new))
        self._services.measures.redriven(source, moved)
        return moved

    # --- Doing -----------------------------------------------------------------------------------

    async def _run(self, redrive: Redrive) -> None:
        try:
            ends = {
                each.id: each.readable_to(Isolation.READ_COMMITTED)
                for each in self._letters.partitions(redrive.request.topic)
            }
            await self._count(redrive, ends)
            if not redrive.request.dry_run:
                redrive.state = RedriveState.RUNNING
                await self._move_all(redrive, ends)
            redrive.state = RedriveState.DONE
        except asyncio.CancelledError:
            redrive.state = RedriveState.CANCELLED
        except GoQueueError as error:
            _log.error("redrive %d of %s: %s", redrive.redrive_id, redrive.request.topic, error)
            redrive.state, redrive.error = RedriveState.FAILED, str(error)
        finally:
            redrive.ended_ms = self._services.clock.now_ms()

    async def _count(self, redrive: Redrive, ends: dict[TopicPartition, int]) -> None:
        request = redrive.request
        total = 0
        async for letters in self._letters.read(request.topic, request.chosen, ends):
            total += len(letters)
            if request.limit is not None and total >= request.limit:
                total = request.limit
                break
        redrive.total = total

    async def _move_all(self, redrive: Redrive, ends: dict[TopicPartition, int]) -> None:
        request = redrive.request
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        left = redrive.total
        async for letters in self._letters.read(request.topic, request.chosen, ends):
            for portion in portions(letters[:left], request.rate):
                await _to_the_end(self._move(redrive, portion))
                if request.rate is not None:
                    gone = redrive.done + redrive.failed
                    await asyncio.sleep(max(began_s + gone / request.rate - loop.time(), 0))
            left -= len(letters[:left])
            if not left:
                return

    async def _move(self, redrive: Redrive, letters: Sequence[Letter]) -> None:
        """Move letters of one partition, except those that have gone meanwhile."""
        source = TopicPartition(dead_letter_topic(redrive.request.topic), letters[0].partition)
        async with self._moving:
            group = await self._group(source)
            key = self._services.queues.key(source)
            queue = group.queues[key]
            await self._moves.resolve(group, key)
            waiting = [
                each
                for each in letters
                if queue.window.state(each.record.offset) is MessageState.AVAILABLE
            ]
            for each in waiting:
                if not each.has_message:
                    redrive.failed += 1
                    redrive.error = _NO_MESSAGE.format(each.partition, each.record.offset)
            waiting = [each for each in waiting if each.has_message]
            waiting.sort(key=lambda each: self._target(redrive, each).id)
            for _, together in groupby(waiting, lambda each: self._target(redrive, each)):
                await self._send(redrive, group, key, list(together))

    async def _send(
        self, redrive: Redrive, group: QueueGroup, key: TopicIdPartition, letters: list[Letter]
    ) -> None:
        """Move letters to one partition: all, or those that it takes one by one."""
        target = self._target(redrive, letters[0])
        try:
            await self._append(group, key, target, letters)
        except _REFUSALS as error:
            if len(letters) == 1:
                redrive.failed += 1
                redrive.error = str(error)
                return
            for letter in letters:
                await self._send(redrive, group, key, [letter])
        else:
            redrive.done += len(letters)
            self._services.measures.redriven(redrive.request.topic, len(letters))

    async def _append(
        self, group: QueueGroup, key: TopicIdPartition, target: Partition, letters: list[Letter]
    ) -> None:
        """Publish letters to one partition, exactly once."""
        handover = await self._moves.handover()
        now_ms = self._services.clock.now_ms()
        records = [as_published(at, letter, now_ms) for at, letter in enumerate(letters)]
        bit = delivery_bit(records)
        publisher = self._services.publisher

        async def append(batch: bytearray) -> Placed:
            request = PublishRequest(target.id, memoryview(batch), delivery=bit != 0, traced=True)
            published = publisher.publish(await publisher.checked(request))
            if published.durable is not None:
                await published.durable
            return published.placed

        await self._moves.move(
            group,
            key,
            [letter.record.offset for letter in letters],
            target,
            handover.batch(records, handover.next_sequence(target), attributes=bit),
            append=append,
        )

    async def _group(self, source: TopicPartition) -> QueueGroup:
        """The group that knows which letters have gone back, reading this partition."""
        queues = self._services.queues
        group = await queues.open(REDRIVE_GROUP, QueueSettings())
        await queues.open_queues(group, [source])
        return group

    def _target(self, redrive: Redrive, letter: Letter) -> Partition:
        """Where a letter goes: to the partition with the number that it came from, if any."""
        topic = self._services.topics.catalogue.topic(redrive.request.target)
        number = letter.number("partition")
        number = letter.partition if number is None else number
        place = TopicPartition(topic.name, number % topic.partition_count)
        return self._services.partitions.partition(place)


async def _to_the_end(move: Coroutine[Any, Any, None]) -> None:
    """Make all of a move, also when it is cancelled meanwhile: then say so afterwards."""
    task = asyncio.create_task(move)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
