"""Single messages in, for protocols whose clients do not make batches themselves.

A message is given a partition, put into a batch with its neighbours, and published like every other
batch. How one goes out again: `stored_messages`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from goqueue.model.delivery import DELIVERY_HEADERS
from goqueue.model.errors import (
    GoQueueError,
    MalformedBatchError,
    MalformedHeadersError,
    UnknownPartitionError,
)
from goqueue.model.limits import MAX_HEADERS_BYTES
from goqueue.model.partitioning import key_hash
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.delivery_headers import Later, Opened
from goqueue.publishing.new_messages import (
    NOWHERE,
    UNSAID,
    MessageResult,
    NewMessage,
    Portion,
    fail,
    headers_of,
)
from goqueue.publishing.pending_messages import Publishing
from goqueue.publishing.requests import (
    FITS,
    Acks,
    Published,
    PublishRequest,
    SchemaVerdict,
    refusal,
)
from goqueue.records import DELIVERY, TRANSACTIONAL, Record, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from goqueue.publishing.deferred import DeferredPublish
    from goqueue.publishing.routed import RoutedPublish
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topic, Topics

    Misfits: TypeAlias = Mapping[int, str]
    """The numbers of messages that do not fit their schemas, and why each does not."""

_SMALL_HEADER: Final = 1024


class ProducerSequence(NamedTuple):
    """An idempotent producer, and the number that it gives to the first message of a request."""

    producer_id: int
    epoch: int
    first_sequence: int
    is_transactional: bool = False
    """The messages belong to the transaction that the producer has open."""
    transactional_id: str | None = None
    """Of such a producer, where it is known."""


class Publishes(Protocol):
    """What takes batches in: the publisher of this node, or a router in a cluster."""

    def publish(self, request: PublishRequest) -> Published | DeferredPublish | RoutedPublish:
        """Publish a batch. Raises like `Publisher.publish`, and so may its `durable`."""


class MessageWriter:
    """Publishes messages, in as few batches as there are partitions to write to."""

    def __init__(
        self,
        topics: Topics,
        publisher: Publishes,
        clock: Clock,
        misfits: Callable[[Topic, Sequence[NewMessage]], Awaitable[Misfits]],
    ) -> None:
        """`misfits` finds messages that do not fit the schemas of their topic."""
        self._topics = topics
        self._publisher = publisher
        self._clock = clock
        self._turns: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
        """Whose turn it is; of topics that exist, see `forget_topic`."""
        self._misfits = misfits

    def forget_topic(self, name: str) -> None:
        """A topic is gone; one of the same name begins at its first partition."""
        self._turns.pop(name, None)

    async def publish(
        self,
        topic_name: str,
        messages: Sequence[NewMessage],
        acks: Acks = Acks.ALL,
        producer: ProducerSequence | None = None,
    ) -> list[MessageResult]:
        """Publish messages to one topic; one result for each, in the order given.

        Messages for one partition keep their order and are stored all or none, unless they are
        too large for one batch: then they are stored in several, and one that is too large by
        itself, or cannot be written, is refused alone. A producer's are one batch in any case.

        Raises:
            UnknownTopicError: there is no such topic; nothing was published.
            MalformedBatchError: messages with a producer's sequence name several partitions.
        """
        checked = await self.checked(topic_name, messages)
        return await self.begin(topic_name, messages, acks, producer, checked=checked).settled()

    async def checked(self, topic_name: str, messages: Sequence[NewMessage]) -> Misfits | None:
        """Hold messages against the schemas of their topic; None where it does not ask for it.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        topic = self._topics.catalogue.topic(topic_name)
        return await self._misfits(topic, messages) if topic.settings.validates else None

    def begin(
        self,
        topic_name: str,
        messages: Sequence[NewMessage],
        acks: Acks = Acks.ALL,
        producer: ProducerSequence | None = None,
        *,
        checked: Misfits | None = None,
    ) -> Publishing:
        """The same for what was `checked`, without waiting: messages are in the logs then.

        So a caller that begins one request after the other keeps their order, and need not wait
        for the first to be durable before it begins the second. Raises like `publish`.
        """
        topic = self._topics.catalogue.topic(topic_name)
        named = {message.partition for message in messages}
        if producer is not None and (len(named) > 1 or None in named):
            raise MalformedBatchError(
                "messages with a producer's sequence must all name the same partition; send one "
                "request for each"
            )
        results: list[MessageResult] = [NOWHERE] * len(messages)
        if _speak_of_delivery(messages):
            portions = self._special_portions(topic, messages, results)
        elif len(named) == 1 and None not in named:
            portions = self._one_portion(topic, messages, results)
        else:
            portions = self._portions(topic, messages, results)
        request = _Request(topic_name, acks, producer, checked)
        append = partial(self._append, request)
        publishing = Publishing(results, append, may_divide=producer is None)
        publishing.begin(portions.items())
        return publishing

    def _one_portion(
        self, topic: Topic, messages: Sequence[NewMessage], results: list[MessageResult]
    ) -> dict[int, Portion]:
        """`_portions` of messages that all name the same partition, in a third of the time."""
        indexes = range(len(messages))
        try:
            number = self.partition_of(topic, messages[0])
        except UnknownPartitionError as error:
            fail(results, indexes, error)
            return {}
        now_ms = self._clock.now_ms()
        records = [
            Record(at, now_ms if timestamp_ms is None else timestamp_ms, key, value, headers)
            for at, (value, key, headers, _, timestamp_ms, _, _, _) in enumerate(messages)
        ]
        return {number: Portion(indexes, records)}

    def _portions(
        self, topic: Topic, messages: Sequence[NewMessage], results: list[MessageResult]
    ) -> dict[int, Portion]:
        """What goes to each partition; messages that fit nowhere have their results already."""
        found: defaultdict[int, tuple[list[int], list[Record]]] = defaultdict(lambda: ([], []))
        now_ms = self._clock.now_ms()
        for index, message in enumerate(messages):
            value, key, headers, _, timestamp_ms, _, _, _ = message
            try:
                indexes, records = found[self.partition_of(topic, message)]
            except UnknownPartitionError as error:
                results[index] = MessageResult(error=error)
                continue
            indexes.append(index)
            at_ms = now_ms if timestamp_ms is None else timestamp_ms
            records.append(Record(len(records), at_ms, key, value, headers))
        return {number: Portion(*portion) for number, portion in found.items()}

    def _special_portions(
        self, topic: Topic, messages: Sequence[NewMessage], results: list[MessageResult]
    ) -> dict[int, Portion]:
        """`_portions` of messages of which some say how they are to be delivered."""
        found: defaultdict[int, tuple[list[int], list[Record]]] = defaultdict(lambda: ([], []))
        speaking = set()
        later: defaultdict[int, list[Later]] = defaultdict(list)
        now_ms = self._clock.now_ms()
        for index, message in enumerate(messages):
            try:
                headers, speaks, due_ms = headers_of(topic, message, now_ms)
                number = self.partition_of(topic, message)
            except GoQueueError as error:
                results[index] = MessageResult(error=error)
                continue
            indexes, records = found[number]
            indexes.append(index)
            at_ms = now_ms if message.timestamp_ms is None else message.timestamp_ms
            records.append(Record(len(records), at_ms, message.key, message.value, headers))
            if speaks:
                speaking.add(number)
                if due_ms > now_ms:
                    later[number].append((len(records) - 1, due_ms))
        return {
            number: Portion(*portion, number in speaking, later[number])
            for number, portion in found.items()
        }

    def partition_of(self, topic: Topic, message: NewMessage) -> int:
        """The partition of a message: the one it names, its key's, or the next in turn.

        Raises:
            UnknownPartitionError: it names one that there is not.
        """
        if message.partition is not None:
            if not 0 <= message.partition < topic.partition_count:
                raise UnknownPartitionError(
                    f"topic {topic.name!r} has partitions 0 to {topic.partition_count - 1}, not "
                    f"{message.partition}"
                )
            return message.partition
        if message.key is None:
            return next(self._turns[topic.name]) % topic.partition_count
        return key_hash(message.key) % topic.partition_count

    def _append(
        self, request: _Request, number: int, portion: Portion
    ) -> Published | DeferredPublish | RoutedPublish:
        topic_name, acks, producer, checked = request
        _check_headers(portion.records)
        attributes = DELIVERY if portion.delivery else 0
        if producer is not None and producer.is_transactional:
            attributes |= TRANSACTIONAL
        if producer is None:
            batch = encode(portion.records, attributes=attributes)
        else:
            batch = encode(
                portion.records,
                attributes=attributes,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=producer.first_sequence,
            )
        opened = None
        if portion.delivery and portion.later is not None:
            opened = Opened(portion.records, says_something=True, later=portion.later)
        return self._publisher.publish(
            PublishRequest(
                TopicPartition(topic_name, number),
                memoryview(batch),
                acks,
                delivery=portion.delivery,
                opened=opened,
                verdict=None if checked is None else _verdict(checked, portion.indexes),
                transactional_id=None if producer is None else producer.transactional_id,
            )
        )


class _Request(NamedTuple):
    """What all batches of a request have in common."""

    topic_name: str
    acks: Acks
    producer: ProducerSequence | None
    checked: Misfits | None


def _verdict(misfits: Misfits, indexes: Sequence[int]) -> SchemaVerdict:
    """What is to be said of some of the messages that were checked."""
    if not misfits:
        return FITS
    return SchemaVerdict(refusal(misfits_among(misfits, indexes)))


def misfits_among(misfits: Misfits, indexes: Sequence[int]) -> Misfits:
    """What was found of some of the messages, by their numbers among these."""
    return {at: misfits[index] for at, index in enumerate(indexes) if index in misfits}


def _speak_of_delivery(messages: Sequence[NewMessage]) -> bool:
    """Whether one of the messages says how it is to be delivered, in a field or in a header."""
    return any(
        message[5:] != UNSAID
        or (message.headers and any(name in DELIVERY_HEADERS for name, _ in message.headers))
        for message in messages
    )


def _check_headers(records: Iterable[Record]) -> None:
    """Refuse headers that are larger than a record may have; most have none, or one small one."""
    for number, record in enumerate(records):
        headers = record.headers
        if not headers:
            continue
        name, value = headers[0]
        if len(headers) == 1 and len(name) + len(value or b"") <= _SMALL_HEADER:
            continue
        size = sum(
            len(each.encode("utf-8", "surrogateescape")) + len(content or b"")
            for each, content in headers
        )
        if size > MAX_HEADERS_BYTES:
            raise MalformedHeadersError(
                f"record {number} has {size} bytes of headers, at most {MAX_HEADERS_BYTES}"
            )
