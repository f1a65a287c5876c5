"""The client for programs on asyncio; the other one runs this one in a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, Self

from goqueue.client.administration import (
    AsyncGroups,
    AsyncOffsets,
    AsyncTopics,
    AsyncTransactions,
)
from goqueue.client.channels import Channels
from goqueue.client.consumer import AUTO_COMMIT_MS, AsyncConsumer
from goqueue.client.outgoing import Handling, Item
from goqueue.client.producer import Producer
from goqueue.client.queue import PREFETCH, AsyncQueue, queue_join
from goqueue.client.reading import read_batches
from goqueue.client.receipts import AsyncReceipts
from goqueue.client.settings import DEFAULT_ADDRESS, ClientSettings
from goqueue.client.transaction_producers import TransactionalProducers
from goqueue.client.transactions import AsyncTransaction
from goqueue.client.types import SendStats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from goqueue.client.types import Content, Headers, Message, Receipt, Start, Time
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
        """Hand a message over; it is sent with others in a moment.

        Args:
            topic: Where it goes.
            value: What it says; text is sent as UTF-8, None is a tombstone.
            key: Messages of one key go to one partition, and keep their order.
            headers: What goes with it.
            partition: The partition, in place of the key's choice.
            timestamp_ms: When it came to be; otherwise the broker says.
            delay: Deliver it so many seconds later.
            deliver_at: Or deliver it then; a moment that has passed is now.
            priority: How urgent it is to queue groups: critical, high, normal, low or background.
            ttl: For how many seconds it is worth delivering to queue groups.

        Returns when there is room for it. Await what it returns to know where the message was
        stored, or `flush` to wait for all.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such place.
            BatchTooLargeError: it is larger than a broker takes.
            BufferFullError: there is no room, and the settings say not to wait for it.
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
        """Messages, and the offsets of what was read, that are committed together or not at all.

        Args:
            transactional_id: Names the producer across restarts of the program: a new instance
                fences the old one, and ends what that has left open. Without it, nobody does, and
                what a program leaves open ends with its timeout.
            timeout: After so many seconds an open transaction is aborted; otherwise a minute.

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
        """The messages of one partition, from a place on; nothing is kept about the reader.

        It waits for further messages for ever, or with `until_end` ends where the partition ended
        at the beginning. A lost connection is made again, and nothing is missed or repeated.
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
            group: Its name; it is made when its first member joins.
            topics: What to read.
            start: Where to begin in partitions that the group has committed nothing of.
            auto_commit_ms: How often what is finished is committed; None when you do it yourself.
            client_id: Shown to those who look at the group.

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
        """Take messages one by one as a member of a queue group, and acknowledge each.

        Args:
            group: Its name; it is made when its first member joins.
            topics: What to take from.
            assignment: `shared`, every member takes from every partition; or `exclusive`, each
                partition has one owner, which gets its messages in order.
            visibility: After so many seconds an unacknowledged message is redelivered.
            prefetch: How many messages may be on their way, buffered here, or in hand and not
                acknowledged.
            max_deliveries: After so many failed deliveries a message is dead-lettered.
            max_unacked: How many unacknowledged messages a member of the group may have.
            start: Where to begin in topics that the group has not read.
            client_id: Shown to those who look at the group.

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
