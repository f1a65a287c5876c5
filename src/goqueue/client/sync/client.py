"""The client for programs without asyncio: the other one, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from goqueue.client.administration import (
    AsyncGroups,
    AsyncOffsets,
    AsyncReceipts,
    AsyncTopics,
    AsyncTransactions,
)
from goqueue.client.async_client import AsyncClient
from goqueue.client.errors import BufferFullError, ClientClosedError
from goqueue.client.outgoing import Handling, Item
from goqueue.client.reading import read_batches
from goqueue.client.settings import DEFAULT_ADDRESS, ClientSettings
from goqueue.client.sync.blocking import Blocking, BlockingBlock, LoopThread, blocking, wrapping
from goqueue.client.sync.consumer import Consumer
from goqueue.client.sync.queue import Queue
from goqueue.client.transactions import AsyncTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from goqueue.client.types import (
        Content,
        Headers,
        Message,
        Receipt,
        SendStats,
        Start,
        Time,
    )
    from goqueue.model.delivery import Priority
    from goqueue.model.topic_partition import TopicPartition


class Topics(Blocking[AsyncTopics]):
    """`client.topics`."""

    create = blocking(AsyncTopics.create)
    list = blocking(AsyncTopics.list)
    describe = blocking(AsyncTopics.describe)
    configure = blocking(AsyncTopics.configure)
    grow = blocking(AsyncTopics.grow)
    delete = blocking(AsyncTopics.delete)


class Groups(Blocking[AsyncGroups]):
    """`client.groups`."""

    list = blocking(AsyncGroups.list)
    describe = blocking(AsyncGroups.describe)
    delete = blocking(AsyncGroups.delete)


class Offsets(Blocking[AsyncOffsets]):
    """`client.offsets`: of groups whose members are elsewhere, or gone."""

    fetch = blocking(AsyncOffsets.fetch)
    commit = blocking(AsyncOffsets.commit)
    reset = blocking(AsyncOffsets.reset)


class Transactions(Blocking[AsyncTransactions]):
    """`client.transactions`: what an administrator sees."""

    list = blocking(AsyncTransactions.list)
    describe = blocking(AsyncTransactions.describe)
    abort = blocking(AsyncTransactions.abort)


class Receipts(Blocking[AsyncReceipts]):
    """`client.receipts`: whoever has a receipt may acknowledge its message.

    All of them raise `UnknownReceiptError` for a receipt that was used or never given, and
    `ExpiredReceiptError` for one whose visibility timeout is over.
    """

    ack = blocking(AsyncReceipts.ack)
    nack = blocking(AsyncReceipts.nack)
    reject = blocking(AsyncReceipts.reject)
    extend = blocking(AsyncReceipts.extend)
    ack_all = blocking(AsyncReceipts.ack_all)


class Transaction(BlockingBlock[AsyncTransaction]):
    """Use it in `with`; see `Client.transaction`."""

    flush = blocking(AsyncTransaction.flush)
    commit = blocking(AsyncTransaction.commit)
    abort = blocking(AsyncTransaction.abort)

    def publish(
        self,
        topic: str,
        value: Content,
        *,
        key: Content = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Hand a message over; see `AsyncTransaction.publish`."""
        is_full = self._inner.add(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        if is_full:
            self.flush()

    def send_offsets(
        self, source: Consumer | str, offsets: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Commit with the transaction how far messages were read.

        See `AsyncTransaction.send_offsets`.
        """
        inner = source if isinstance(source, str) else source.inner
        self._thread.call(self._inner.send_offsets(inner, offsets))


_AT_ONCE: Final = 500
"""Messages taken over before the loop does something else."""

_ROOM: Final = 0.75
"""Publishers that wait for room go on when no more than this share of the buffer is in use."""


class _Publish(NamedTuple):
    """A message on its way from the caller's thread to the loop's."""

    topic: str
    item: Item
    partition: int | None


class Client(Blocking[AsyncClient]):
    """One broker, as a program without asyncio sees it. May be shared between threads.

    with Client("127.0.0.1:9000") as client:
        client.publish("orders", b"an order", key=b"42")
    """

    def __init__(
        self, address: str = DEFAULT_ADDRESS, settings: ClientSettings | None = None
    ) -> None:
        thread = LoopThread()
        super().__init__(thread, thread.call(_make(address, settings, self._settled)))
        self.settings = self._inner.settings
        self._handing_over: deque[_Publish] = deque()
        self._room = threading.Condition()
        self._unsettled = 0
        self._is_awake = False
        """Somebody will look at what is handed over."""
        self._draining = asyncio.Lock()
        """Held by whoever does, so that messages stay in their order."""
        self._failure: Exception | None = None
        self._is_closed = False
        self.topics = Topics(self._thread, self._inner.topics)
        self.groups = Groups(self._thread, self._inner.groups)
        self.offsets = Offsets(self._thread, self._inner.offsets)
        self.transactions = Transactions(self._thread, self._inner.transactions)
        self.receipts = Receipts(self._thread, self._inner.receipts)

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
            await self._flush()
        finally:
            await self._inner.close()

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
    ) -> Future[Receipt]:
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

        Returns when the message is buffered. The `result()` of the future is where the message was
        stored, or raises the error; `flush` waits for all messages.

        Raises:
            BufferFullError: the buffer is full, and `when_full` is `raise`.
        """
        delivery: Future[Receipt] = Future()
        delivery.set_running_or_notify_cancel()  # what is handed over cannot be called back
        handling = Handling.of(delay, deliver_at, priority, ttl)
        item = Item.of(delivery, value, key, headers, timestamp_ms, handling=handling)
        with self._room:
            if self._is_closed:
                raise ClientClosedError("the client is closed: create another one")
            self._wait_for_room()
            self._unsettled += 1
            self._handing_over.append(_Publish(topic, item, partition))
            if self._is_awake:
                return delivery
            self._is_awake = True
        self._thread.loop.call_soon_threadsafe(self._wake)
        return delivery

    def _wait_for_room(self) -> None:
        bound = self.settings.buffer_messages
        if self._unsettled < bound:
            return
        if self.settings.when_full == "raise":
            raise BufferFullError(f"{bound} messages wait to be acknowledged: publish more slowly")
        # To wake up for each message that is settled would cost more than the messages do.
        self._room.wait_for(lambda: self._unsettled <= bound * _ROOM)

    def _wake(self) -> None:
        self._drainer = self._thread.loop.create_task(self._drain())

    async def _drain(self) -> None:
        """Take over what the callers have left, in the order they left it."""
        async with self._draining:
            while True:
                with self._room:
                    if not self._handing_over:
                        self._is_awake = False
                        return
                    count = min(len(self._handing_over), _AT_ONCE)
                    taken = [self._handing_over.popleft() for _ in range(count)]
                for each in taken:
                    await self._take_over(each)
                await asyncio.sleep(0)  # let the sender have its turn

    async def _take_over(self, message: _Publish) -> None:
        try:
            await self._inner.producer.put(*message)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the publisher's to know
            self._failure = self._failure or error
            self._settled(1)
            message.item.delivery.set_exception(error)

    def _settled(self, count: int) -> None:
        with self._room:
            self._unsettled -= count
            if self._unsettled <= self.settings.buffer_messages * _ROOM:
                self._room.notify_all()

    def flush(self) -> None:
        """Send everything now, and return when all of it is acknowledged.

        Raises:
            GoQueueError: the first of the messages since the last flush that was not stored.
        """
        self._thread.call(self._flush())

    async def _flush(self) -> None:
        await self._drain()
        failure, self._failure = self._failure, None
        await self._inner.flush()
        if failure is not None:
            raise failure

    @property
    def send_stats(self) -> SendStats:
        """What became of the messages that were published."""
        return self._inner.send_stats

    transaction = wrapping(Transaction, AsyncClient.transaction)

    # --- Consuming -------------------------------------------------------------------------------

    def consume(
        self,
        topic: str,
        *,
        partition: int = 0,
        start: Start = "earliest",
        until_end: bool = False,
    ) -> Iterator[Message]:
        """The messages of one partition from a position on, without a group.

        It waits for new messages, or with `until_end` stops at the end that the partition had at
        the start. After a lost connection it resumes, and no message is lost or repeated.
        """
        batches = read_batches(
            self._inner.channels,
            topic,
            partition,
            start,
            until_end=until_end,
        )
        try:
            while batch := self._thread.call(_next(batches)):
                yield from batch
        finally:
            self._thread.call(batches.aclose())

    subscribe = wrapping(Consumer, AsyncClient.subscribe)
    queue = wrapping(Queue, AsyncClient.queue)


async def _make(
    address: str, settings: ClientSettings | None, on_settled: Callable[[int], None]
) -> AsyncClient:
    client = AsyncClient(address, settings)
    client.producer.on_settled = on_settled
    return client


async def _next(batches: Any) -> list[Message] | None:
    return await anext(batches, None)
