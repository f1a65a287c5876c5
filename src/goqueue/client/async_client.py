"""The client for programs on asyncio; the other one runs this one in a thread."""

from __future__ import annotations

from asyncio import get_running_loop
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from goqueue.client.administration.client import AsyncAdministration
from goqueue.client.consuming.consumer import AUTO_COMMIT_MS, AsyncConsumer
from goqueue.client.consuming.reading import each_of, read_batches
from goqueue.client.link.addresses import parse_addresses
from goqueue.client.link.link import Link
from goqueue.client.producing.deliveries import AsyncDelivery
from goqueue.client.producing.handling import with_handling
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.rows import AsyncDeliveries, rows_of
from goqueue.client.producing.transactional import TransactionalProducers
from goqueue.client.queues.queue import PREFETCH, AsyncQueue, queue_join
from goqueue.client.settings import DEFAULT_ADDRESS, ClientSettings
from goqueue.client.transactions import AsyncTransaction
from goqueue.client.types import Content, Headers, SendStats, Start, Time
from goqueue.model.errors import UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from goqueue.client.producing.rows import Many
    from goqueue.client.types import Message
    from goqueue.model.delivery import Priority


class AsyncClient(AsyncAdministration):
    """One cluster, as a program on asyncio sees it. Nothing is sent before it is used.

    async with AsyncClient("127.0.0.1:9092") as client:
        await client.publish("orders", b"an order", key=b"42")
    """

    def __init__(
        self,
        address: str | Sequence[str] = DEFAULT_ADDRESS,
        settings: ClientSettings | None = None,
    ) -> None:
        """A client of the cluster that brokers at these addresses belong to.

        Args:
            address: `host:port` of a Kafka listener; several with commas, or a list.
            settings: How to send, wait and try again, and who we are.
        """
        self.settings = settings or ClientSettings()
        self.link = Link(parse_addresses(address), self.settings)
        self._producer: Producer[AsyncDelivery] | None = None
        self._transactional = TransactionalProducers(self.link)

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
            await self.link.close()

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
    ) -> AsyncDelivery:
        """Publish a message; messages are sent in batches in the background.

        Args:
            topic: The topic.
            value: The value; text is sent as UTF-8, None is a tombstone.
            key: Messages of one key go to one partition, and keep their order.
            headers: The headers.
            partition: The partition, instead of the one of the key.
            timestamp_ms: The timestamp; by default the time of this machine.
            delay: Deliver it after this delay, in seconds.
            deliver_at: Deliver it at this time, instead of a delay.
            priority: The priority in queue groups: critical, high, normal, low or background.
            ttl: The time to live in queue groups, in seconds.

        Returns when the message is buffered. Await the handle to know where the message was
        stored, or call `flush` to wait for all messages.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
            BatchTooLargeError: it exceeds the size limit.
            BufferFullError: the buffer is full, and `when_full` is `raise`.
        """
        producer = self._producer
        if producer is None or producer.loop is not get_running_loop():
            producer = self.producer
        says_delivery = (
            delay is not None or deliver_at is not None or priority is not None or ttl is not None
        )
        if says_delivery:
            headers = with_handling(headers, delay, deliver_at, priority, ttl)
        try:
            delivery = producer.add(
                topic, value, key, headers, partition, timestamp_ms, says_delivery=says_delivery
            )
        except UnknownPartitionError:
            await producer.renew(topic)
            delivery = None
        if delivery is None:
            return await producer.put(
                topic, value, key, headers, partition, timestamp_ms, says_delivery=says_delivery
            )
        if producer.is_busy:
            await producer.breathe()
        return delivery

    async def publish_many(self, topic: str, messages: Many) -> AsyncDeliveries:
        """Publish messages that are there already, a batch at a time.

        Args:
            topic: The topic.
            messages: Values; or columns by their names, an Arrow table or a data frame, with a
                column `value`, and `key` and `timestamp_ms` where there are such.

        Returns when all of them are buffered. Await the result to know that all are stored; its
        `receipts()` say where.

        Raises:
            UnknownTopicError: there is no such topic.
            BufferFullError: the buffer is full, and `when_full` is `raise`.
            TypeError, ValueError: these are no messages; those before it are published.
        """
        producer = self.producer
        deliveries: AsyncDeliveries = AsyncDeliveries(AsyncDelivery)
        for rows in rows_of(messages):
            deliveries.add(rows, await producer.put_rows(topic, rows))
        return deliveries

    async def flush(self) -> None:
        """Send everything now, and return when all of it is acknowledged.

        Raises:
            GoQueueError: the first of the messages since the last flush that was not stored.
        """
        if self._producer is not None:
            self.link.check()
            await self._producer.flush()

    @property
    def send_stats(self) -> SendStats:
        """What became of the messages that were published."""
        return SendStats() if self._producer is None else self._producer.stats

    @property
    def producer(self) -> Producer[AsyncDelivery]:
        """Made when first used, inside of the loop."""
        self.link.check()
        if self._producer is None:
            self._producer = Producer(self.link, AsyncDelivery)
        return self._producer

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
        return AsyncQueue(self.link, join)

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

    @overload
    def consume(
        self,
        topic: str,
        *,
        partition: int | None = 0,
        start: Start = "earliest",
        until_end: bool = False,
        batch: None = None,
    ) -> AsyncIterator[Message]: ...

    @overload
    def consume(
        self,
        topic: str,
        *,
        partition: int | None = 0,
        start: Start = "earliest",
        until_end: bool = False,
        batch: int,
    ) -> AsyncIterator[Sequence[Message]]: ...

    @overload
    def consume(
        self,
        topic: str,
        *,
        partition: int | None = 0,
        start: Start = "earliest",
        until_end: bool = False,
        batch: Literal["arrow", "pandas"],
    ) -> AsyncIterator[Any]: ...

    def consume(
        self,
        topic: str,
        *,
        partition: int | None = 0,
        start: Start = "earliest",
        until_end: bool = False,
        batch: int | Literal["arrow", "pandas"] | None = None,
    ) -> AsyncIterator[Any]:
        """The messages of one partition from a position on, without a group.

        It waits for new messages, or with `until_end` stops at the end that the partition had at
        the start. After a lost connection it resumes, and no message is lost or repeated.

        Args:
            topic: The topic.
            partition: The partition; None for all of them, each in its order.
            start: Where to start: an end, an offset, or a time.
            until_end: Stop at the end that the partition had at the start.
            batch: Return up to so many messages at once, as a list; or with `arrow` a
                `pyarrow.Table`, with `pandas` a `DataFrame`, of as many as there are.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
            OffsetOutOfRangeError: nothing has been stored at that offset yet.
        """
        batches = read_batches(self.link, topic, partition, start, until_end=until_end, batch=batch)
        return each_of(batches) if batch is None else batches

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
            self.link,
            group,
            topics,
            start=start,
            auto_commit_ms=auto_commit_ms,
            client_id=client_id,
        )
