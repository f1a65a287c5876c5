"""Transactions: messages, and the offsets of what was read for them, that count all or not at all.

A transaction is used in `async with`: it commits at the end of the block, and aborts when an
exception leaves it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self

from goqueue.client.errors import ClientClosedError
from goqueue.client.times import to_ms
from goqueue.model.errors import GoQueueError, PartitionNotAssignedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.client.producing.deliveries import AsyncDelivery
    from goqueue.client.producing.producer import Producer
    from goqueue.client.producing.transactional import (
        TransactionalProducer,
        TransactionalProducers,
    )
    from goqueue.client.types import Content, Headers, Time
    from goqueue.model.topic_partition import TopicPartition


class Reader(Protocol):
    """A consumer whose offsets can be sent with a transaction."""

    @property
    def group(self) -> str:
        """Its group."""

    @property
    def member_id(self) -> str:
        """What the group calls it."""

    @property
    def member_epoch(self) -> int:
        """Since when it has what it has."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that it reads."""

    @property
    def auto_commits(self) -> bool:
        """Whether it commits by itself."""

    def positions(self) -> Mapping[TopicPartition, int]:
        """Where it goes on reading, after everything that was taken from it."""


class AsyncTransaction:
    """Use it in `async with`; see `AsyncClient.transaction`."""

    def __init__(
        self,
        producers: TransactionalProducers,
        transactional_id: str | None,
        timeout: Time | None,
    ) -> None:
        self._producers = producers
        self._wanted_id = transactional_id
        self._timeout_ms = to_ms(timeout) or 0
        self._producer: TransactionalProducer | None = None
        self._failure: GoQueueError | None = None

    # --- From the beginning to the end -----------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin.

        Raises:
            GoQueueError: the broker refuses, or none answers.
        """
        producer = self._producers.take(self._wanted_id, self._timeout_ms)
        try:
            await producer.begin()
        except BaseException:
            self._producers.give_back(producer, self._timeout_ms)
            raise
        self._producer = producer
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        """Commit, or abort when an exception leaves the block.

        Raises:
            GoQueueError: it could not be committed; nothing of it counts, unless the error says
                that this is not known.
        """
        if self._producer is None:
            return  # it was ended before
        if kind is not None:
            with suppress(GoQueueError):  # the one that brought us here is the one to be told
                await self.abort()
            return
        await self.commit()

    async def commit(self) -> None:
        """Send what waits, and let all of it count. The transaction is over then.

        Raises:
            GoQueueError: as `__aexit__` says.
        """
        try:
            await self.flush()
        except BaseException:
            with suppress(GoQueueError):
                await self.abort()
            raise
        producer = self._end()
        try:
            await producer.commit()
        finally:
            self._producers.give_back(producer, self._timeout_ms)

    async def abort(self) -> None:
        """Let nothing of it count. The transaction is over then."""
        producer = self._end()
        try:
            await producer.abort()
        finally:
            self._producers.give_back(producer, self._timeout_ms)

    def _end(self) -> TransactionalProducer:
        producer = self._open()
        self._producer = None
        return producer

    def _open(self) -> TransactionalProducer:
        if self._producer is None:
            raise ClientClosedError("the transaction is over, or was not begun: use `with`")
        return self._producer

    # --- What belongs to it ----------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        value: Content,
        *,
        key: Content = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Hand a message over; it is sent with others, at the commit at the latest.

        Raises:
            GoQueueError: messages before it were refused; the transaction must be aborted.
            BatchTooLargeError: it exceeds the size limit.
        """
        producer = self.sender
        if producer.add(topic, value, key, headers, partition, timestamp_ms) is None:
            await producer.put(topic, value, key, headers, partition, timestamp_ms)
        if producer.is_busy:
            await producer.breathe()

    @property
    def sender(self) -> Producer[AsyncDelivery]:
        """Takes the messages of the transaction.

        Raises:
            ClientClosedError: the transaction is over.
        """
        return self._open().producer

    async def flush(self) -> None:
        """Send what waits. It counts with the commit.

        Raises:
            GoQueueError: a message was refused, or it is not known what became of it.
        """
        if self._failure is None:
            try:
                await self.sender.flush()
            except GoQueueError as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure

    async def send_offsets(
        self, source: Reader | str, offsets: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Let it count with the commit how far messages were read.

        Args:
            source: The consumer that has read them, made with `auto_commit_ms=None`: everything
                taken from it so far, also the message in hand. Or the name of a group without
                members.
            offsets: Where that group goes on reading.

        Raises:
            PartitionNotAssignedError: the consumer does not read one of the partitions.
            GoQueueError: the group refuses, as when somebody else reads the partition meanwhile.
        """
        producer = self._open()
        if isinstance(source, str):
            if offsets:
                await producer.send_offsets(source, offsets)
            return
        if source.auto_commits:
            raise ValueError("the consumer commits by itself: subscribe with auto_commit_ms=None")
        if offsets is None:
            offsets = source.positions()
        elif others := offsets.keys() - source.assignment:
            raise PartitionNotAssignedError(
                f"the consumer does not read {sorted(others)}: it has {sorted(source.assignment)}"
            )
        if offsets:
            await producer.send_offsets(
                source.group, offsets, source.member_id, source.member_epoch
            )
