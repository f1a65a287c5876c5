"""Dead-lettering: messages that nobody could process, moved to where somebody can look into them.

A dead message is copied to `{topic}.dlq`, whole, with headers that say where it came from and why
it died; then its group is done with it. It is copied exactly once: `moves` says how.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from goqueue.model.dead_letters import (
    HEADER_PREFIX,
    RETENTION_MS,
    UNDECODABLE_HEADER,
    dead_letter_topic,
    is_dead_letter_topic,
)
from goqueue.model.errors import (
    BatchTooLargeError,
    GoQueueError,
    InternalTopicError,
    NotCoordinatorError,
    TopicExistsError,
)
from goqueue.model.ids import NO_TIMESTAMP
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.partitions.damage import describe
from goqueue.queues.dead_letters.moves import Moves
from goqueue.queues.delivery import operations as ops
from goqueue.records import Headers, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from goqueue.partitions.measures import Measures
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.publishing.handover import Handover, Target
    from goqueue.publishing.targets import Targets
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.operations import Doom
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.service import Queues
    from goqueue.queues.traces import QueueTraces
    from goqueue.reading.record_reader import RecordReader, RecordSource
    from goqueue.records.salvage import Fault
    from goqueue.topics.catalogue import Topic, Topics
    from goqueue.tracing.tracer import Tracer

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 500
_READ_BYTES: Final = 8 * 1024 * 1024
"""Of source batches that are read for one portion."""
_BATCH_BYTES: Final = 1024 * 1024
"""Of messages that are moved at once; more go in further portions, a larger one by itself."""
_RECORD_BYTES: Final = 100
"""What a message costs beside its bytes, at least."""
_RETRY_S: Final = 1.0


class DeadLetterServices(Protocol):
    """What dead-lettering needs."""

    record_reader: RecordReader
    executor: Executor
    producer_ids: ProducerIds
    queue_traces: QueueTraces
    topics: Topics
    tracer: Tracer
    measures: Measures
    targets: Targets

    async def create_topic(
        self,
        name: str,
        partition_count: int | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic and its partitions."""

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""


OnDeadLettered: TypeAlias = (
    "Callable[[TopicPartition, TopicPartition, str, Sequence[tuple[Record, Doom]]], None]"
)
"""Where messages were, where they are now, their group, and the messages with their causes."""


def dead_letter_headers(
    source: TopicPartition, group_id: str, record: Record, doom: Doom, now_ms: int
) -> Headers:
    """The headers that say where a dead message came from, and why it died."""
    said = {
        "topic": source.topic,
        "partition": source.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "group": group_id,
        "consumer": doom.member,
        "reason": doom.reason,
        "error": doom.error,
        "attempts": doom.deliveries,
        "first-delivery": doom.first_delivery_ms,
        "last-delivery": doom.last_delivery_ms,
        "time": now_ms,
    }
    return tuple((HEADER_PREFIX + name, str(value).encode()) for name, value in said.items())


class DeadLetters:
    """Moves the dead messages of every queue group to their dead-letter queues."""

    def __init__(self, services: DeadLetterServices, queues: Queues) -> None:
        self._services = services
        self._queues = queues
        queues.on_dead = self.look
        self._waiting: set[str] = set()
        """Groups that have messages to dead-letter."""
        self.on_dead_lettered: OnDeadLettered | None = None
        """Told of messages that were moved; set by whoever wants to know."""
        self._task: asyncio.Task[None] | None = None
        self._moves = Moves(queues, services.topics, services.targets, services.producer_ids)

    def start(self) -> None:
        """Go on where the last process stopped."""
        for group in self._queues:
            self.look(group)

    def look(self, group: QueueGroup) -> None:
        """Move the dead messages of a group soon, if it has any."""
        if any(queue.dooms for queue in group.queues.values()):
            self._waiting.add(group.group_id)
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Leave the rest for the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        try:
            while self._waiting:
                group_id = self._waiting.pop()
                try:
                    group = self._queues.find(group_id)
                    if group is not None:
                        await self._move_all(group)
                except NotCoordinatorError:
                    continue  # another node does it now
                except GoQueueError as error:
                    _log.error("dead-lettering of group %s is delayed: %s", group_id, error)
                    self._waiting.add(group_id)
                    await asyncio.sleep(_RETRY_S)
        finally:
            self._task = None

    async def _move_all(self, group: QueueGroup) -> None:
        for key in list(group.queues):
            while (queue := group.queues.get(key)) is not None and queue.dooms:
                await self._move_some(group, key, queue)

    async def _move_some(
        self, group: QueueGroup, key: TopicIdPartition, queue: PartitionQueue
    ) -> None:
        """Move some of the dead messages of a partition."""
        offsets = sorted(islice(queue.dooms, _AT_ONCE))
        source = self._queues.sources.find(key)
        if source is None or is_dead_letter_topic(source.id.topic):
            # A message of a dead-letter queue that dies stays where it is, and can be read there.
            await self._moves.change(group, key, ops.Settled(ops.ranges_of(offsets)))
            return
        if queue.moving:
            await self._moves.resolve(group, key)
            return
        loaded = await self._services.record_reader.load(
            source,
            ops.ranges_of(offsets),
            max_bytes=_READ_BYTES,
            isolation=group.isolation,
        )
        if loaded.gone:
            await self._moves.change(group, key, ops.Settled(list(loaded.gone)))
        records = [*loaded.records(), *_without_message(loaded.faults)]
        if any(record.offset in queue.dooms for record in records):
            target = await self._target(source)
            records.sort(key=lambda record: record.offset)
            await self._move(group, key, source, target, records)

    async def _move(
        self,
        group: QueueGroup,
        key: TopicIdPartition,
        source: RecordSource,
        target: Target,
        records: list[Record],
    ) -> None:
        traces, topics = self._services.queue_traces, self._services.topics.catalogue.by_name
        source_topic = self._services.topics.catalogue.topic(source.id.topic)
        source_place = self._services.tracer.place(source_topic, source.id.partition)
        if traces.is_on:
            await traces.learn(source_place, records)
        handover, position = await self._moves.next_to(target)
        queue = group.queues.get(key)
        dooms = {} if queue is None else queue.dooms
        records = _portion([record for record in records if record.offset in dooms])
        if not records:
            return  # the topic was deleted meanwhile, or the messages were acknowledged
        now_ms = self._queues.now_ms(group)
        if traces.is_on:
            records = traces.naming_traces(source_place, records)
        dead = [(record, dooms[record.offset]) for record in records]
        letters = [
            Record(
                index,
                now_ms,
                record.key,
                record.value,
                record.headers
                + dead_letter_headers(source.id, group.group_id, record, doom, now_ms),
            )
            for index, (record, doom) in enumerate(dead)
        ]
        placed = await self._moves.move(
            group,
            key,
            [record.offset for record in records],
            place=target.id,
            batch=_batch(handover, letters, position.next_sequence),
            from_offset=position.end_offset,
            append=target.append,
        )
        if self.on_dead_lettered is not None:
            self.on_dead_lettered(source.id, target.id, group.group_id, dead)
        reasons = [doom.reason for _, doom in dead]
        self._services.measures.dead_lettered(source.id.topic, group.group_id, reasons)
        if traces.is_on and target.id.topic in topics:
            target_place = self._services.tracer.place(topics[target.id.topic], target.id.partition)
            traces.dead_lettered(
                source_place, target_place, group.group_id, dead, placed.first_offset
            )

    async def _target(self, source: RecordSource) -> Target:
        """The partition that takes the dead messages of another, made if need be."""
        name = dead_letter_topic(source.id.topic)
        topics = self._services.topics.catalogue.by_name
        source_topic = self._services.topics.catalogue.topic(source.id.topic)
        if source_topic.is_internal:
            await self._services.create_internal_topic(name, source_topic.partition_count)
        elif name not in topics:
            count = source_topic.partition_count
            with suppress(TopicExistsError):  # somebody may be faster
                await self._services.create_topic(name, count, {"retention.ms": str(RETENTION_MS)})
        topic = self._services.topics.catalogue.topic(name)
        if topic.is_internal and not source_topic.is_internal:
            raise InternalTopicError(f"{name} belongs to the broker: it takes no dead messages")
        number = source.id.partition % topic.partition_count
        return self._services.targets.of(TopicPartition(name, number))


def _without_message(faults: Iterable[Fault]) -> Iterator[Record]:
    """Records that do not decode, as what can be said of them."""
    for fault in faults:
        said = (UNDECODABLE_HEADER, describe(fault).encode())
        for offset in range(fault.first, fault.end):
            yield Record(offset, NO_TIMESTAMP, None, None, (said,))


def _portion(records: list[Record]) -> list[Record]:
    """As many of the first records as are moved at once; at least one."""
    size_bytes = 0
    for count, record in enumerate(records):
        size_bytes += _size(record)
        if count and size_bytes > _BATCH_BYTES:
            return records[:count]
    return records


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + _RECORD_BYTES


def _batch(handover: Handover, letters: list[Record], sequence: int) -> bytearray:
    """The letters as one batch. One whose message leaves no room for its headers goes without."""
    try:
        return handover.batch(letters, sequence)
    except BatchTooLargeError as error:
        said = (UNDECODABLE_HEADER, str(error).encode())
        bare = [each._replace(value=None, headers=(said, *each.headers)) for each in letters]
        return handover.batch(bare, sequence)
