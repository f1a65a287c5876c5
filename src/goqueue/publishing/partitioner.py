"""Which messages of a request go to which partition, and the records that they become there."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

from goqueue.model.delivery import DELIVERY_HEADERS
from goqueue.model.errors import GoQueueError, UnknownPartitionError
from goqueue.model.partitioning import key_hash
from goqueue.publishing.new_messages import (
    UNSAID,
    MessageResult,
    NewMessage,
    Portion,
    fail,
    headers_of,
)
from goqueue.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.publishing.delivery_headers import Later
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topic


class Partitioner:
    """Gives each message a partition: the one that it names, its key's, or the next in turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
        """Whose turn it is; of topics that exist, see `forget_topic`."""

    def forget_topic(self, name: str) -> None:
        """A topic is gone; one of the same name begins at its first partition."""
        self._turns.pop(name, None)

    def portions(
        self, topic: Topic, messages: Sequence[NewMessage], results: list[MessageResult]
    ) -> dict[int, Portion]:
        """What goes to each partition; messages that fit nowhere have their results already."""
        if _have_delivery_settings(messages):
            return self._special_portions(topic, messages, results)
        named = {message.partition for message in messages}
        if len(named) == 1 and None not in named:
            return self._one_portion(topic, messages, results)
        return self._portions(topic, messages, results)

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


def _have_delivery_settings(messages: Sequence[NewMessage]) -> bool:
    """Whether one of the messages says how it is to be delivered, in a field or in a header."""
    return any(
        message[5:] != UNSAID
        or (message.headers and any(name in DELIVERY_HEADERS for name, _ in message.headers))
        for message in messages
    )
