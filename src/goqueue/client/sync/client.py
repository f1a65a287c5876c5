"""The client for programs without asyncio: the other one, on a thread of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Self, overload

from goqueue.client.async_client import AsyncClient
from goqueue.client.consuming.reading import read_batches
from goqueue.client.errors import BrokerUnavailableError, BufferFullError, ClientClosedError
from goqueue.client.producing.deliveries import BlockingDelivery
from goqueue.client.producing.handling import with_handling
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.rows import BlockingDeliveries, rows_of
from goqueue.client.settings import DEFAULT_ADDRESS, ClientSettings
from goqueue.client.sync.administration import Administration
from goqueue.client.sync.blocking import LoopThread, abandon_in_children, wrapping
from goqueue.client.sync.consumer import Consumer
from goqueue.client.sync.queue import Queue
from goqueue.client.sync.transactions import Transaction
from goqueue.client.types import SendStats
from goqueue.model.errors import BatchError, TopicError, UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from goqueue.client.producing.rows import Many
    from goqueue.client.types import Content, Headers, Message, Start, Time
    from goqueue.model.delivery import Priority

_FORKED: Final = "the client was created before a fork: create another one in this process"


class Client(Administration[AsyncClient]):
    """One cluster, as a program without asyncio sees it. May be shared between threads.

    with Client("127.0.0.1:9092") as client:
        client.publish("orders", b"an order", key=b"42")

    A client does not survive a fork: create another one in the child.
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
        inner = AsyncClient(address, settings)  # what is wrong with them is said in this thread
        super().__init__(LoopThread(), inner)
        self.settings = inner.settings
        self._producer: Producer[BlockingDelivery] | None = self._thread.call(_producer(inner))
        self._is_closed = False
        abandon_in_children(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Send what was published, wait for its acknowledgement, and disconnect.

        Raises:
            GoQueueError: a message that was published since the last `flush` was not stored.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._thread.call(self._close())
        finally:
            self._thread.stop()

    async def _close(self) -> None:
        try:
            if self._producer is not None:
                await self._producer.close()
        finally:
            await self._inner.close()

    def abandon(self) -> None:
        """Give up everything: this is a child process, and the client is its parent's."""
        self._is_closed = True
        self._producer = None
        self._thread.abandon()

    # --- Publishing ------------------------------------------------------------------------------

    def publish(
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
    ) -> BlockingDelivery:
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

        Returns when the message is buffered. The `result()` of the handle is where the message was
        stored, or raises the error; `flush` waits for all messages.

        Raises:
            BufferFullError: the buffer is full, and `when_full` is `raise`.
        """
        says_delivery = (
            delay is not None or deliver_at is not None or priority is not None or ttl is not None
        )
        if says_delivery:
            headers = with_handling(headers, delay, deliver_at, priority, ttl)
        producer = self._producer
        if producer is None:
            raise ClientClosedError(_FORKED)
        has_grown = False
        try:
            with producer.lock:
                delivery = producer.add(
                    topic, value, key, headers, partition, timestamp_ms, says_delivery=says_delivery
                )
            if delivery is not None:
                return delivery
        except UnknownPartitionError as error:
            if self._thread.is_current:
                return producer.refused(topic, error)
            has_grown = True  # perhaps
        except (TopicError, BatchError) as error:
            return producer.refused(topic, error)
        try:
            if has_grown:
                self._thread.call(producer.renew(topic))
            return self._publish_slowly(
                producer,
                topic,
                (value, key, headers, partition, timestamp_ms),
                says_delivery=says_delivery,
            )
        except (TopicError, BatchError, BrokerUnavailableError) as error:
            return producer.refused(topic, error)

    def _publish_slowly(
        self,
        producer: Producer[BlockingDelivery],
        topic: str,
        message: tuple[Any, ...],
        *,
        says_delivery: bool,
    ) -> BlockingDelivery:
        """`publish` where the topic is to be looked up first, or there is no room."""
        while True:
            self._make_ready(producer, topic)
            with producer.lock:
                delivery = producer.add(topic, *message, says_delivery=says_delivery)
            if delivery is not None:
                return delivery

    def _make_ready(self, producer: Producer[BlockingDelivery], topic: str) -> None:
        """Until the topic is known and there is room."""
        if not producer.knows(topic):
            self._thread.call(producer.ready(topic))
            return
        ledger = producer.ledger
        with ledger.room:
            ledger.check_room()
            if self._thread.is_current:
                raise BufferFullError("the buffer is full, and a callback cannot wait for room")
            ledger.room.wait_for(lambda: not ledger.is_full or ledger.is_closed)

    def publish_many(self, topic: str, messages: Many) -> BlockingDeliveries:
        """Publish messages that are there already, a batch at a time.

        Args:
            topic: The topic.
            messages: Values; or columns by their names, an Arrow table or a data frame, with a
                column `value`, and `key` and `timestamp_ms` where there are such.

        Returns when all of them are buffered. The `result()` of what is returned waits until all
        are stored; its `receipts()` say where.

        Raises:
            UnknownTopicError: there is no such topic.
            BufferFullError: the buffer is full, and `when_full` is `raise`.
            TypeError, ValueError: these are no messages; those before it are published.
        """
        producer = self._producer
        if producer is None:
            raise ClientClosedError(_FORKED)
        deliveries = BlockingDeliveries(BlockingDelivery)
        for rows in rows_of(messages):
            deliveries.add(rows, self._thread.call(producer.put_rows(topic, rows)))
        return deliveries

    def flush(self) -> None:
        """Send everything now, and return when all of it is acknowledged.

        Raises:
            GoQueueError: the first of the messages since the last flush that was not stored.
        """
        producer = self._producer
        if producer is None:
            raise ClientClosedError(_FORKED)
        self._thread.call(producer.flush())

    queue = wrapping(Queue, AsyncClient.queue)
    transaction = wrapping(Transaction, AsyncClient.transaction)

    @property
    def send_stats(self) -> SendStats:
        """What became of the messages that were published."""
        return SendStats() if self._producer is None else self._producer.stats

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
    ) -> Iterator[Message]: ...

    @overload
    def consume(
        self,
        topic: str,
        *,
        partition: int | None = 0,
        start: Start = "earliest",
        until_end: bool = False,
        batch: int,
    ) -> Iterator[Sequence[Message]]: ...

    @overload
    def consume(
        self,
        topic: str,
        *,
        partition: int | None = 0,
        start: Start = "earliest",
        until_end: bool = False,
        batch: Literal["arrow", "pandas"],
    ) -> Iterator[Any]: ...

    def consume(
        self,
        topic: str,
        *,
        partition: int | None = 0,
        start: Start = "earliest",
        until_end: bool = False,
        batch: int | Literal["arrow", "pandas"] | None = None,
    ) -> Iterator[Any]:
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
        batches = read_batches(
            self._inner.link, topic, partition, start, until_end=until_end, batch=batch
        )
        try:
            while (found := self._thread.call(_next(batches))) is not None:
                if batch is None:
                    yield from found
                else:
                    yield found
        finally:
            with suppress(ClientClosedError):
                self._thread.call(_close(batches))

    subscribe = wrapping(Consumer, AsyncClient.subscribe)


async def _next(batches: Any) -> Any:
    return await anext(batches, None)


async def _close(batches: Any) -> None:
    # Ctrl-C has cancelled its last step, perhaps, and that has not ended yet.
    while batches.ag_running:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0)
    await batches.aclose()


async def _producer(client: AsyncClient) -> Producer[BlockingDelivery]:
    client.link.check()  # it belongs to the thread's loop from now on
    return Producer(client.link, BlockingDelivery)
