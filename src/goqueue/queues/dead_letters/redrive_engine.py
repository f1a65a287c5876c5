"""The one way in which dead letters are published again, each exactly once; see `moves`.

They go as new messages, without the headers that say how they died. A letter that its target
refuses stays where it is, and holds up no other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import StrEnum
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec
from msgspec import UNSET

from goqueue.model.dead_letters import (
    REDRIVEN_GROUP_HEADER,
    REDRIVEN_HEADER,
    dead_letter_topic,
)
from goqueue.model.delivery import DELIVER_AT_HEADER
from goqueue.model.errors import (
    BatchError,
    DelayError,
    GoQueueError,
    InternalTopicError,
    MalformedRecordError,
    SchemaError,
    TopicError,
)
from goqueue.model.partitioning import key_hash
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.partition import Isolation
from goqueue.publishing.handover import delivery_bit
from goqueue.queues.dead_letters.letter_edit import LetterEdit
from goqueue.queues.dead_letters.letters import Letter, LetterFilter, Letters
from goqueue.queues.delivery.group import REDRIVE_GROUP, QueueGroup
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.records import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from goqueue.partitions.measures import Measures
    from goqueue.publishing.handover import Target
    from goqueue.publishing.targets import Targets
    from goqueue.queues.dead_letters.moves import Moves
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.service import Queues
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topics

_T = TypeVar("_T")

_BATCH_BYTES: Final = 512 * 1024
"""Of messages that go at once; a larger one goes by itself."""
_PAUSES_PER_S: Final = 10
"""How often a redrive with a rate pauses, so that it goes smoothly."""
_MAX_NAMED: Final = 100
"""Refused letters that a redrive names; all of them are counted."""
_RETRIED_FOR_S: Final = 60.0
"""How long a redrive waits for a leader or a coordinator that moves; after that it fails."""
_RETRY_S: Final = 0.2
_REFUSALS: Final = (BatchError, DelayError, SchemaError)
"""What a topic has against single messages; everything else is in the way of all."""


class RedriveState(StrEnum):
    """How far a redrive is."""

    COUNTING = "counting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RedriveRequest(msgspec.Struct, frozen=True):
    """Which letters shall go where, and how fast."""

    topic: str
    """Where they came from."""
    to: str | None = None
    """Where they go; back, if nothing is said."""
    chosen: LetterFilter = msgspec.field(default_factory=LetterFilter)
    limit: int | None = None
    rate: float | None = None
    """Messages a second."""
    dry_run: bool = False
    """Only count them."""
    letters_in: str | None = None
    """The topic that holds the letters, if it is not the dead-letter queue of `topic`."""
    for_group: bool = False
    """They are for the group in which they died alone: its readers skip those of others. So letters
    of the broker's own topics go back, and no other way."""
    to_source: bool = False
    """Each goes to the topic that its headers name; `target` is for those without."""
    edit: LetterEdit = msgspec.field(default_factory=LetterEdit)
    """What is corrected in each before it goes."""

    @property
    def target(self) -> str:
        """The topic that they go to."""
        return self.topic if self.to is None else self.to

    @property
    def holder(self) -> str:
        """The topic that holds the letters."""
        return self.letters_in or dead_letter_topic(self.topic)


class RefusedLetter(NamedTuple):
    """A letter that stays."""

    partition: int
    offset: int
    to: str
    error: str


class Redrive(msgspec.Struct):
    """A redrive, under way or over."""

    redrive_id: int
    request: RedriveRequest
    started_ms: int
    state: RedriveState = RedriveState.COUNTING
    total: int = 0
    """Letters that are meant; known once it is running."""
    targets: Counter[str] = msgspec.field(default_factory=Counter)
    """How many went to which topic."""
    failed: int = 0
    """Letters that the target refused; they stay where they are."""
    refused: list[RefusedLetter] = msgspec.field(default_factory=list)
    """The first of them."""
    error: str = ""
    """Why letters were refused, or why all of it failed."""
    ended_ms: int | None = None
    task: asyncio.Task[None] | None = None

    @property
    def done(self) -> int:
        """Letters that were redriven."""
        return self.targets.total()

    @property
    def is_over(self) -> bool:
        """Nothing more will happen."""
        return self.ended_ms is not None

    def rate(self, now_ms: int) -> float:
        """Messages a second so far."""
        took_ms = (now_ms if self.ended_ms is None else self.ended_ms) - self.started_ms
        return self.done * 1000 / max(took_ms, 1)

    def refuse(self, letter: Letter, to: str, error: GoQueueError) -> None:
        """A letter stays."""
        self.failed += 1
        self.error = str(error)
        if len(self.refused) < _MAX_NAMED:
            offset = letter.record.offset
            self.refused.append(RefusedLetter(letter.partition, offset, to, self.error))


class EngineServices(Protocol):
    """What redriving needs."""

    queues: Queues
    topics: Topics
    clock: Clock
    measures: Measures
    targets: Targets


class RedriveEngine:
    """Publishes letters again. Everybody who redrives does it by the same one."""

    def __init__(self, services: EngineServices, letters: Letters, moves: Moves) -> None:
        self._services = services
        self._letters = letters
        self._moves = moves
        self.lock: Final = asyncio.Lock()
        """Letters go in one batch at a time, so that none goes twice."""

    async def run(self, redrive: Redrive) -> None:
        """Do what was asked for. Raises `GoQueueError`: the letters that have not gone stay."""
        request = redrive.request
        readable = await self._retried(
            partial(self._letters.readable, request.topic, request.letters_in)
        )
        ends = {each.id: each.readable_to(Isolation.READ_COMMITTED) for each in readable}
        await self._retried(partial(self._count, redrive, ends))
        if not request.dry_run:
            redrive.state = RedriveState.RUNNING
            await self._move_all(redrive, ends)

    async def index(
        self, source: TopicPartition
    ) -> tuple[QueueGroup, TopicIdPartition, PartitionQueue]:
        """What knows which letters of a partition were redriven: a queue of a group of its own.

        Raises:
            TopicError: there is no such partition.
            StorageError: it cannot be known yet.
        """
        queues = self._services.queues
        group = await queues.open(REDRIVE_GROUP, QueueSettings())
        await queues.open_queues(group, [source])
        key = queues.key(source)
        return group, key, await self._moves.resolve(group, key)

    async def _count(self, redrive: Redrive, ends: dict[TopicPartition, int]) -> None:
        request = redrive.request
        total = 0
        async for letters in self._letters.read(
            request.topic, request.chosen, ends, request.letters_in
        ):
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
        async for letters in self._letters.read(
            request.topic, request.chosen, ends, request.letters_in
        ):
            for portion in _portions(letters[:left], request.rate):
                await _to_the_end(self._retried(partial(self._move, redrive, portion)))
                if request.rate is not None:
                    gone = redrive.done + redrive.failed
                    await asyncio.sleep(max(began_s + gone / request.rate - loop.time(), 0))
            left -= len(letters[:left])
            if not left:
                return

    async def _move(self, redrive: Redrive, letters: Sequence[Letter]) -> None:
        """Redrive letters of one partition, except those that were redriven meanwhile."""
        async with self.lock:
            source = TopicPartition(redrive.request.holder, letters[0].partition)
            group, key, queue = await self.index(source)
            placed: list[tuple[TopicPartition, Letter]] = []
            for each in letters:
                if queue.window.state(each.record.offset) is not MessageState.AVAILABLE:
                    continue
                name = self._target_name(redrive.request, each)
                edited = redrive.request.edit.of(each)
                try:
                    placed.append((self._target(name, redrive.request, each), edited))
                except (TopicError, MalformedRecordError) as error:
                    redrive.refuse(each, name, error)
            placed.sort(key=lambda each: each[0])
            for place, together in groupby(placed, lambda each: each[0]):
                target = self._services.targets.of(place)
                await self._send(redrive, group, key, target, [each for _, each in together])

    async def _send(
        self,
        redrive: Redrive,
        group: QueueGroup,
        key: TopicIdPartition,
        target: Target,
        letters: list[Letter],
    ) -> None:
        """Redrive letters to one partition: all, or those that it takes."""
        try:
            for_group = redrive.request.for_group
            await self._publish(group, key, target, letters, for_group=for_group)
        except _REFUSALS as error:
            if len(letters) == 1:
                redrive.refuse(letters[0], target.id.topic, error)
                return
            half = len(letters) // 2
            for some in (letters[:half], letters[half:]):
                await self._send(redrive, group, key, target, some)
        else:
            redrive.targets[target.id.topic] += len(letters)
            self._services.measures.redriven(redrive.request.topic, len(letters))

    async def _publish(
        self,
        group: QueueGroup,
        key: TopicIdPartition,
        target: Target,
        letters: list[Letter],
        *,
        for_group: bool,
    ) -> None:
        """Publish letters to one partition, exactly once."""
        handover, position = await self._moves.next_to(target)
        now_ms = self._services.clock.now_ms()
        records = [
            _as_published(at, letter, now_ms, for_group=for_group)
            for at, letter in enumerate(letters)
        ]
        bit = delivery_bit(records)
        publish = partial(target.publish, delivery=bit != 0, traced=True)
        await self._moves.move(
            group,
            key,
            [letter.record.offset for letter in letters],
            place=target.id,
            batch=handover.batch(records, position.next_sequence, attributes=bit),
            from_offset=position.end_offset,
            append=target.append if for_group else publish,
        )

    async def _retried(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do what can be done again, until it succeeds: nodes of a cluster may die meanwhile.

        On a node of its own nothing moves: what fails there fails at once.

        Raises:
            GoQueueError: trying again does not help, or has not helped for a long time.
        """
        loop = asyncio.get_running_loop()
        patience_s = _RETRIED_FOR_S if self._services.targets.is_cluster else 0.0
        deadline_s = loop.time() + patience_s
        while True:
            try:
                return await work()
            except GoQueueError as error:
                if not error.retriable or loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(_RETRY_S)

    @staticmethod
    def _target_name(request: RedriveRequest, letter: Letter) -> str:
        return (letter.cause.get("topic") if request.to_source else None) or request.target

    def _target(self, name: str, request: RedriveRequest, letter: Letter) -> TopicPartition:
        """Where a letter goes: to the partition with the number that it came from, if any.

        One that was given another key goes where that key goes.

        Raises:
            TopicError: there is no such topic, or it takes no letters.
            MalformedRecordError: there is no message to send.
        """
        if not letter.has_message and request.edit.value is UNSET:
            raise MalformedRecordError(
                f"letter {letter.partition}/{letter.record.offset} holds no message: the record "
                "that died does not decode, so it stays"
            )
        topic = self._services.topics.catalogue.topic(name)
        is_refused = topic.is_internal and not request.for_group
        if is_refused or (request.to_source and name == request.holder):
            raise InternalTopicError(f"{name} takes no letters: redrive them to another topic")
        if request.edit.moves(letter) and request.edit.key:
            return TopicPartition(topic.name, key_hash(request.edit.key) % topic.partition_count)
        number = letter.number("partition")
        number = letter.partition if number is None else number
        return TopicPartition(topic.name, number % topic.partition_count)


def _portions(letters: Sequence[Letter], rate: float | None) -> Iterator[list[Letter]]:
    """Letters in portions that are not too large to go at once, and not too many for the rate."""
    at_most = len(letters) if rate is None else max(int(rate / _PAUSES_PER_S), 1)
    portion: list[Letter] = []
    size_bytes = 0
    for letter in letters:
        record = letter.record
        letter_bytes = len(record.value or b"") + len(record.key or b"")
        if portion and (len(portion) >= at_most or size_bytes + letter_bytes > _BATCH_BYTES):
            yield portion
            portion, size_bytes = [], 0
        portion.append(letter)
        size_bytes += letter_bytes
    if portion:
        yield portion


def _as_published(at: int, letter: Letter, now_ms: int, *, for_group: bool) -> Record:
    """The message as it is published again: new, due now, and as it was before it died."""
    own = (REDRIVEN_HEADER, REDRIVEN_GROUP_HEADER, DELIVER_AT_HEADER)
    headers = [each for each in letter.headers if each[0] not in own]
    headers.append((REDRIVEN_HEADER, b"%d" % (letter.redriven + 1)))
    if for_group:
        headers.append((REDRIVEN_GROUP_HEADER, letter.cause.get("group", "").encode()))
    return Record(at, now_ms, letter.record.key, letter.record.value, tuple(headers))


async def _to_the_end(move: Coroutine[Any, Any, None]) -> None:
    """Make all of a move, also when it is cancelled meanwhile: then say so afterwards."""
    task = asyncio.create_task(move)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
