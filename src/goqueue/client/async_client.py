"""The client for programs on asyncio; the other one runs this one in a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, Self

from goqueue.client.administration import (
    AsyncGroups,
    AsyncOffsets,
    AsyncReceipts,
    AsyncTopics,
    AsyncTransactions,
)
from goqueue.client.channels import Channels
from goqueue.client.consumer import AUTO_COMMIT_MS, AsyncConsumer
from goqueue.client.outgoing import Handling, Item
from goqueue.client.producer import Producer
from goqueue.client.queue import PREFETCH, AsyncQueue, queue_join
from goqueue.client.reading import read_batches
from goqueue.client.settings import DEFAULT_ADDRESS, ClientSettings
from goqueue.client.transaction_producers import TransactionalProducers
from goqueue.client.transactions import AsyncTransaction
from goqueue.client.types import Content, Headers, Message, Receipt, SendStats, Start, Time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from goqueue.model.delivery import Priority


class AsyncClient:
    """One broker, as a program on asyncio sees it. Nothing is sent before it is used.

    async with AsyncClient("127.0.0.1:9000") as client:
        await client.publish("orders", b"an order", key=b"42")
    """

    def __init__(
        self, address: str = DEFAULT_ADDRESS, settings: ClientSettings | None = None
    ) -> None:
        self.settings = settings or ClientSettings()
        self.channels = Channels(address, self.settings)
        self._producer: Producer | None = None
        self.topics = AsyncTopics(self.channels)
        self.groups = AsyncGroups(self.channels)
        self.offsets = AsyncOffsets(self.channels)
        self.transactions = AsyncTransactions(self.channels)
        self._transactional = TransactionalProducers(self.channels)
        self.receipts = AsyncReceipts(self.channels)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what was published, wait for its acknowledgement, and disconnect.

        Raises:
            GoQueueError: a message that was published since the last `flush` was not stored.
        """
        try:
            if self._producer is not None:
                await self._producer.close()
        finally:
            await self.channels.close()

    # --- Publishing ------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        value: Content,
        *,
        key: Content = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        delay: Time | None = None,
        deliver_at: datetime | None = None,
        priority: Priority | str | None = None,
        ttl: Time | None = None,
    ) -> asyncio.Future[Receipt]:
        """Publish a message; messages are sent in batches in the background.

        Args:
            topic: The topic.
            value: The value; text is sent as UTF-8, None is a tombstone.
            key: Messages of one key go to one partition, and keep their order.
            headers: The headers.
            partition: The partition, instead of the one of the key.
            timestamp_ms: The timestamp; by default the broker's time.
            delay: Deliver it after this delay, in seconds.
            deliver_at: Deliver it at this time, instead of a delay.
            priority: The priority in queue groups: critical, high, normal, low or background.
            ttl: The time to live in queue groups, in seconds.

        Returns when the message is buffered. Await the future to know where the message was
        stored, or call `flush` to wait for all messages.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
            BatchTooLargeError: it exceeds the size limit.
            BufferFullError: the buffer is full, and `when_full` is `raise`.
        """
        delivery: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        handling = Handling.of(delay, deliver_at, priority, ttl)
        item = Item.of(delivery, value, key, headers, timestamp_ms, handling=handling)
        await self.producer.put(topic, item, partition)
        return delivery

    async def flush(self) -> None:
        """Send everything now, and return when all of it is acknowledged.

        Raises:
            GoQueueError: the first of the messages since the last flush that was not stored.
        """
        if self._producer is not None:
            await self._producer.flush()

    @property
    def send_stats(self) -> SendStats:
        """What became of the messages that were published."""
        return SendStats() if self._producer is None else self._producer.stats

    @property
    def producer(self) -> Producer:
        """Made when first used, inside of the loop."""
        if self._producer is None:
            self._producer = Producer(self.channels)
        return self._producer

    def transaction(
        self, transactional_id: str | None = None, *, timeout: Time | None = None
    ) -> AsyncTransaction:
        """A transaction: messages and consumed offsets that are committed atomically.

        Args:
            transactional_id: Names the producer across restarts of the program: a new instance
                fences the old one, and ends what that has left open. Without it, nobody does, and
                what a program leaves open ends with its timeout.
            timeout: The transaction timeout in seconds; by default a minute.

        Returns:
            A transaction, to be used as a context manager: it commits at the end of the block,
            and aborts when an exception leaves it.
        """
        return AsyncTransaction(self._transactional, transactional_id, timeout)

    # --- Consuming -------------------------------------------------------------------------------

    async def consume(
        self,
        topic: str,
        *,
        partition: int = 0,
        start: Start = "earliest",
        until_end: bool = False,
    ) -> AsyncIterator[Message]:
        """The messages of one partition from a position on, without a group.

        It waits for new messages, or with `until_end` stops at the end that the partition had at
        the start. After a lost connection it resumes, and no message is lost or repeated.
        """
        batches = read_batches(self.channels, topic, partition, start, until_end=until_end)
        async for batch in batches:
            for message in batch:
                yield message

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        *,
        start: Literal["earliest", "latest"] = "earliest",
        auto_commit_ms: float | None = AUTO_COMMIT_MS,
        client_id: str = "",
    ) -> AsyncConsumer:
        """Read topics as a member of a group, which shares their partitions among its members.

        Args:
            group: The group id; the group is created when its first member joins.
            topics: The topics to read.
            start: Where to start in partitions without a committed offset.
            auto_commit_ms: The auto-commit interval; None to commit explicitly.
            client_id: The client id, shown in descriptions of the group.

        Returns:
            A consumer, to be used as a context manager and iterated over inside.
        """
        return AsyncConsumer(
            self.channels,
            group,
            topics,
            start=start,
            auto_commit_ms=auto_commit_ms,
            client_id=client_id,
        )

    def queue(
        self,
        group: str,
        topics: Sequence[str],
        *,
        assignment: Literal["shared", "exclusive"] = "shared",
        visibility: Time | None = None,
        prefetch: int = PREFETCH,
        max_deliveries: int | None = None,
        max_unacked: int | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        client_id: str = "",
    ) -> AsyncQueue:
        """Receive messages as a member of a queue group, and acknowledge each.

        Args:
            group: The group id; the group is created when its first member joins.
            topics: The topics to receive from.
            assignment: `shared`, every member takes from every partition; or `exclusive`, each
                partition has one owner, which gets its messages in order.
            visibility: The visibility timeout in seconds.
            prefetch: The most messages that may be in transit, buffered here, or received and not
                acknowledged.
            max_deliveries: Failed deliveries before a message is dead-lettered.
            max_unacked: The most unacknowledged messages of a member.
            start: Where to start in topics that the group has not read.
            client_id: The client id, shown in descriptions of the group.

        `visibility` is this member's and, like `max_deliveries`, `max_unacked` and `start`, the
        group's if this member is its first; otherwise the group's or the broker's hold.

        Returns:
            A queue, to be used as a context manager and iterated over inside.
        """
        join = queue_join(
            group,
            topics,
            assignment=assignment,
            visibility=visibility,
            prefetch=prefetch,
            max_deliveries=max_deliveries,
            max_unacked=max_unacked,
            start=start,
            client_id=client_id,
        )
        return AsyncQueue(self.channels, join)
