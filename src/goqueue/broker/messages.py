"""Single messages in and out, for protocols whose clients do not make batches themselves.

A message that comes in is given a partition, put into a batch with its neighbours, and published
like every other batch. One that goes out is a record taken out of the batch that holds it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import mmh3

from goqueue.broker.fetch import FetchRequest, PartitionRead
from goqueue.broker.partition import Isolation, PartitionId
from goqueue.broker.publish import Acks, PublishRequest
from goqueue.model.errors import GoQueueError, UnknownPartitionError
from goqueue.records import Record, decode_rows, encode, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.broker.fetch import Fetched, Fetcher
    from goqueue.broker.publish import Published, Publisher
    from goqueue.broker.topics import Topic, Topics
    from goqueue.records import Headers
    from goqueue.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be published. Without a partition, its key chooses one, or its turn does."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MessageResult:
    """What became of one message: its place, or the error that says why it has none."""

    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    error: GoQueueError | None = None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that was read."""

    topic: str
    partition: int
    record: Record


@dataclass(frozen=True, slots=True)
class MessagesRead:
    """The messages of one partition from an offset on, and how to go on."""

    messages: list[StoredMessage]
    next_offset: int
    high_watermark: int
    log_start: int


class MessageWriter:
    """Publishes messages, in as few batches as there are partitions to write to."""

    def __init__(self, topics: Topics, publisher: Publisher, clock: Clock) -> None:
        self._topics = topics
        self._publisher = publisher
        self._clock = clock
        self._turns: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    async def publish(
        self, topic_name: str, messages: Sequence[NewMessage], acks: Acks = Acks.ALL
    ) -> list[MessageResult]:
        """Publish messages to one topic; one result for each, in the order given.

        Messages for one partition keep their order and are stored all or none.

        Raises:
            UnknownTopicError: there is no such topic; nothing was published.
        """
        topic = self._topics.catalogue.topic(topic_name)
        results: list[MessageResult] = [MessageResult()] * len(messages)
        by_partition: defaultdict[int, list[int]] = defaultdict(list)
        for index, message in enumerate(messages):
            try:
                by_partition[self._partition(topic, message)].append(index)
            except UnknownPartitionError as error:
                results[index] = MessageResult(error=error)
        now_ms = self._clock.now_ms()
        stamped = [
            message if message.timestamp_ms is not None else replace(message, timestamp_ms=now_ms)
            for message in messages
        ]
        appended: list[_Appended] = []
        for number, indexes in by_partition.items():
            try:
                published = self._append(
                    PartitionId(topic_name, number), [stamped[index] for index in indexes], acks
                )
            except GoQueueError as error:
                _fail(results, indexes, error)
            else:
                appended.append(_Appended(number, indexes, published))
        for each in appended:
            await _settle(each, stamped, results)
        return results

    def _partition(self, topic: Topic, message: NewMessage) -> int:
        """The partition of a message: the one it names, its key's, or the next in turn."""
        if message.partition is not None:
            if not 0 <= message.partition < topic.partition_count:
                raise UnknownPartitionError(
                    f"topic {topic.name!r} has partitions 0 to {topic.partition_count - 1}, not "
                    f"{message.partition}"
                )
            return message.partition
        if message.key is None:
            return next(self._turns[topic.name]) % topic.partition_count
        number: int = mmh3.hash(message.key, signed=False)
        return number % topic.partition_count

    def _append(self, partition: PartitionId, messages: list[NewMessage], acks: Acks) -> Published:
        batch = encode(
            [
                Record(at, each.timestamp_ms or 0, each.key, each.value, each.headers)
                for at, each in enumerate(messages)
            ]
        )
        return self._publisher.publish(PublishRequest(partition, memoryview(batch), acks))


class _Appended(NamedTuple):
    """A batch that is in the log: which messages are in it, and where it went."""

    partition: int
    indexes: list[int]
    published: Published


async def _settle(
    appended: _Appended, messages: list[NewMessage], results: list[MessageResult]
) -> None:
    """Fill in the results of one batch, once it is as durable as was asked for."""
    published = appended.published
    try:
        if published.durable is not None:
            await published.durable
    except GoQueueError as error:
        _fail(results, appended.indexes, error)
        return
    for at, index in enumerate(appended.indexes):
        append_time_ms = published.append_time_ms
        results[index] = MessageResult(
            appended.partition,
            published.placed.first_offset + at,
            append_time_ms if append_time_ms >= 0 else messages[index].timestamp_ms,
        )


class MessageReader:
    """Reads messages without keeping anything about the reader."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def read(
        self,
        partition: PartitionId,
        offset: int,
        *,
        limit: int,
        max_bytes: int = 4 * 1024 * 1024,
        max_wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> MessagesRead:
        """Up to `limit` messages from `offset` on, waiting for the first if there is none.

        Raises:
            TopicError, OffsetOutOfRangeError, StorageError: they cannot be read.
        """
        request = FetchRequest(
            [PartitionRead(partition, offset, max_bytes)], max_wait_ms, isolation=isolation
        )
        (fetched,) = await self._fetcher.fetch(request)
        if fetched.error is not None:
            raise fetched.error
        messages = list(itertools.islice(messages_of(fetched), limit))
        cut_short = len(messages) == limit and messages
        return MessagesRead(
            messages,
            messages[-1].record.offset + 1 if cut_short else fetched.next_offset,
            fetched.high_watermark,
            fetched.log_start,
        )


def messages_of(fetched: Fetched) -> Iterator[StoredMessage]:
    """The data messages of a fetch, from the offset that was asked for on."""
    place = fetched.read.partition
    for position, info in walk(fetched.data):
        if info.is_control or info.last_offset < fetched.read.offset:
            continue
        for record in decode_rows(fetched.data, position, check_crc=False):
            if record.offset >= fetched.read.offset:
                yield StoredMessage(place.topic, place.number, record)


def _fail(results: list[MessageResult], indexes: Iterable[int], error: GoQueueError) -> None:
    for index in indexes:
        results[index] = MessageResult(error=error)
