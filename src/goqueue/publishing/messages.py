"""Single messages in, for protocols whose clients do not make batches themselves.

A message is given a partition, put into a batch with its neighbours, and published like every other
batch. How one goes out again: `stored_messages`.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from goqueue.model.errors import (
    BatchTooLargeError,
    GoQueueError,
    MalformedBatchError,
    MalformedHeadersError,
    MalformedRecordError,
)
from goqueue.model.limits import MAX_HEADERS_BYTES
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.delivery_headers import Opened
from goqueue.publishing.new_messages import (
    BY_RECORD,
    NOWHERE,
    MessageResult,
    NewMessage,
    Portion,
    fail,
    smaller,
)
from goqueue.publishing.partitioner import Partitioner
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
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from goqueue.publishing.deferred import DeferredPublish
    from goqueue.publishing.routed import RoutedPublish
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topic, Topics

    Misfits: TypeAlias = Mapping[int, str]
    """The numbers of messages that do not fit their schemas, and why each does not."""

_SMALL_HEADER: Final = 1024
_DIVIDED: Final = (BatchTooLargeError, MalformedRecordError, *BY_RECORD)
"""Refusals of a batch of which some messages may be stored without the others."""


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
        self._partitioner = Partitioner(clock)
        self._misfits = misfits
        self.admit: Callable[[str, Sequence[NewMessage]], None] | None = None
        """Counts messages for a topic, or refuses them by its tenant's quotas; set by the
        broker."""

    def forget_topic(self, name: str) -> None:
        """A topic is gone; one of the same name begins at its first partition."""
        self._partitioner.forget_topic(name)

    def partition_of(self, topic: Topic, message: NewMessage) -> int:
        """The partition of a message. Raises like `Partitioner.partition_of`."""
        return self._partitioner.partition_of(topic, message)

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
        if self.admit is not None:
            self.admit(topic_name, messages)
        results: list[MessageResult] = [NOWHERE] * len(messages)
        portions = self._partitioner.portions(topic, messages, results)
        request = _Request(topic_name, acks, producer, checked)
        append = partial(self._append, request)
        publishing = Publishing(results, append, may_divide=producer is None)
        publishing.begin(portions.items())
        return publishing

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


class _Appended(NamedTuple):
    """A batch that is in the log, or on its way there: its messages, and where it went."""

    partition: int
    portion: Portion
    published: Published | DeferredPublish | RoutedPublish


class Publishing:
    """Messages on their way to being as durable as was asked for."""

    __slots__ = ("_append", "_appended", "_may_divide", "_results")

    def __init__(
        self,
        results: list[MessageResult],
        append: Callable[[int, Portion], Published | DeferredPublish | RoutedPublish],
        *,
        may_divide: bool,
    ) -> None:
        """Fill in `results`; `may_divide` what does not fit one batch, or is refused in parts."""
        self._results = results
        self._append = append
        self._may_divide = may_divide
        self._appended: list[_Appended] = []

    def begin(self, portions: Iterable[tuple[int, Portion]]) -> None:
        """Append what goes to each partition."""
        self._appended += self._all_appended(portions)

    def _all_appended(self, portions: Iterable[tuple[int, Portion]]) -> list[_Appended]:
        appended: list[_Appended] = []
        waiting = deque(portions)
        while waiting:
            number, portion = waiting.popleft()
            try:
                appended.append(_Appended(number, portion, self._append(number, portion)))
            except GoQueueError as error:
                rest = self._refused(portion, error)
                waiting.extendleft((number, each) for each in reversed(rest))
        return appended

    def _refused(self, portion: Portion, error: GoQueueError) -> list[Portion]:
        """What is left to be tried of a portion that is refused; the others have their results."""
        if self._may_divide and isinstance(error, _DIVIDED):
            return smaller(self._results, portion, error)
        fail(self._results, portion.indexes, error)
        return []

    @property
    def is_duplicate(self) -> bool:
        """A producer's batch was in the log already, and nothing was stored again."""
        return any(each.published.placed.duplicate for each in self._appended)

    async def settled(self) -> list[MessageResult]:
        """What became of each message, once it is known. To be called once."""
        for appended in self._appended:
            await self._settle(appended)
        return self._results

    async def _settle(self, appended: _Appended) -> None:
        """Fill in the results of one batch, once it is as durable as was asked for.

        A leader elsewhere may refuse some of its messages: then the others are sent again.
        """
        number, (indexes, records, _, _), published = appended
        try:
            if published.durable is not None:
                await published.durable
        except GoQueueError as error:
            rest = [(number, each) for each in self._refused(appended.portion, error)]
            for smaller_one in self._all_appended(rest):
                await self._settle(smaller_one)
            return
        first, stamp_ms = published.placed.first_offset, published.append_time_ms
        if published.delayed:
            self._settle_delayed(appended)
            return
        for index, record in zip(indexes, records, strict=True):
            at_ms = stamp_ms if stamp_ms >= 0 else record.timestamp_ms
            self._results[index] = MessageResult(number, first + record.offset, at_ms)

    def _settle_delayed(self, appended: _Appended) -> None:
        """`_settle` of a batch of which some records wait."""
        number, (indexes, records, _, _), published = appended
        delayed = {each[0]: each for each in published.delayed}
        offset, end, _ = published.placed
        keep_places = end - offset == len(records)
        for at, (index, record) in enumerate(zip(indexes, records, strict=True)):
            later = delayed.get(at)
            if later is None:
                if keep_places:
                    offset = published.placed.first_offset + at
                stamp_ms = published.append_time_ms
                at_ms = stamp_ms if stamp_ms >= 0 else record.timestamp_ms
                self._results[index] = MessageResult(number, offset, at_ms)
                offset += 1
            else:
                self._results[index] = MessageResult(
                    number, None, record.timestamp_ms, None, later[1], later[2]
                )
