"""Sending: messages into batches, batches into a stream, answers back to those who wait."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from grpc import aio

from goqueue.client.accumulator import Accumulator, Batch, Identity, Lane, Refusal
from goqueue.client.errors import (
    BrokerUnavailableError,
    BufferFullError,
    ClientClosedError,
    DeliveryTimeoutError,
    from_call,
    from_wire,
)
from goqueue.client.outgoing import NOBODY, Item, KnownTopic, to_request
from goqueue.client.types import Receipt, SendStats
from goqueue.model.errors import (
    BatchTooLargeError,
    GoQueueError,
    OutOfOrderSequenceError,
    SchemaValidationError,
    UnknownPartitionError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.client.channels import Channels

logger = logging.getLogger(__name__)

T = TypeVar("T")

TOPIC_AGE_S: Final = 60.0
"""How long a topic's number of partitions is believed; keys of a topic that has grown move to their
new partitions after that."""

_MAX_TOPICS: Final = 10_000
"""Topics whose number of partitions is remembered; then all are looked up anew."""


class Producer:
    """Sends what is published, over one stream, in the background."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._settings = channels.settings
        self._accumulator: Accumulator[Item] = Accumulator(self._settings)
        self._topics: dict[str, KnownTopic] = {}
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._room = asyncio.Condition()
        self._unsettled = 0
        self._failure: Exception | None = None
        """The first since the last flush."""
        self._identity: Identity | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._published = self._acknowledged = self._failed = self._batches = self._bytes = 0
        self._last_error: Exception | None = None
        self.on_settled: Callable[[int], None] = lambda _: None
        """Told how many messages have found their end, batch by batch."""

    @property
    def stats(self) -> SendStats:
        """What became of the messages so far."""
        return SendStats(
            self._published,
            self._acknowledged,
            self._failed,
            self._batches,
            self._bytes,
            self._last_error,
        )

    # --- Publishing ------------------------------------------------------------------------------

    async def put(self, topic: str, item: Item, partition: int | None) -> None:
        """Put a message into the buffer, when there is room for it; see `AsyncClient.publish`."""
        if self._is_closed:
            raise ClientClosedError("the client is closed: create another one")
        size_bytes = item.size_bytes()
        known, now_s = self._topics.get(topic), self._loop.time()
        if known is None or known.until_s < now_s:
            known = await self._look_up(topic)
        place = TopicPartition(topic, known.partition(item.key, partition))
        if self._unsettled >= self._settings.buffer_messages:
            await self._wait_for_room()
        self._unsettled += 1
        self._published += 1
        if self._accumulator.add(place, item, size_bytes, now_s):
            self._news.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="goqueue producer")

    async def _look_up(self, topic: str) -> KnownTopic:
        found = await self._channels.ask(
            lambda stubs: stubs.admin.DescribeTopic, pb.TopicRequest(name=topic), pb.Topic
        )
        before = self._topics.get(topic)
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()
        known = self._topics[topic] = KnownTopic(
            topic,
            len(found.partitions),
            self._loop.time() + TOPIC_AGE_S,
            count() if before is None else before.turns,
        )
        return known

    async def _wait_for_room(self) -> None:
        bound = self._settings.buffer_messages
        if self._settings.when_full == "raise":
            raise BufferFullError(f"{bound} messages wait to be acknowledged: publish more slowly")
        async with self._room:
            await self._room.wait_for(lambda: self._unsettled < bound)

    async def flush(self) -> None:
        """Send everything and wait until it is settled; see `AsyncClient.flush`."""
        self._accumulator.close_open()
        self._news.set()
        waiting = deque(item.delivery for item in self._accumulator.items())

        def are_settled() -> bool:
            while waiting and waiting[0].done():
                waiting.popleft()
            return not waiting

        async with self._room:
            await self._room.wait_for(are_settled)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Flush, then stop."""
        self._is_closed = True
        try:
            if self._task is not None:
                await self.flush()
        finally:
            if self._task is not None:
                self._task.cancel()
                with suppress(asyncio.CancelledError):
                    await self._task

    # --- The stream ------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Keep a stream open while there is something to send, and open it again when it breaks."""
        failures = 0
        while True:
            await self._until_due()
            answered = self._batches
            lost = await self._serve()
            self._accumulator.lost()
            self._last_error = lost
            logger.info("the stream is opened anew: %s", lost)
            failures = failures + 1 if self._batches == answered else 1
            await self._expire()
            await asyncio.sleep(self._settings.backoff_s(failures))

    async def _until_due(self) -> None:
        """Until there is something to send."""
        while True:
            self._news.clear()
            await self._expire()
            due_s = self._accumulator.due_s()
            now_s = self._loop.time()
            if due_s is not None and due_s <= now_s:
                return
            await self._wait(due_s)

    async def _wait(self, due_s: float | None) -> None:
        """Until there is news, or that moment."""
        if due_s is None:
            await self._news.wait()
            return
        handle = self._loop.call_at(due_s, self._news.set)
        try:
            await self._news.wait()
        finally:
            handle.cancel()

    async def _serve(self) -> GoQueueError:
        """One stream, until it breaks; returns why it did."""
        call: Any = self._channels.next().publish.PublishStream()
        sent: deque[tuple[int, Lane[Item]]] = deque()
        reader = asyncio.create_task(self._read(call, sent))
        reader.add_done_callback(lambda _: self._news.set())
        watch = asyncio.create_task(self._watch(call))
        try:
            await self._write(call, sent, reader)
            await reader
        except aio.AioRpcError as failure:
            return from_call(failure, self._channels.address)
        except GoQueueError as error:
            return error
        except asyncio.InvalidStateError:
            pass  # a write to a stream that has just ended
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the client is closed; otherwise only the call was cancelled
        finally:
            for each in (reader, watch, call):
                each.cancel()
        return BrokerUnavailableError(f"{self._channels.address} has ended the stream")

    async def _write(
        self, call: Any, sent: deque[tuple[int, Lane[Item]]], reader: asyncio.Task[None]
    ) -> None:
        for number in count(1):
            lane = await self._next_lane(reader)
            if lane is None:
                return
            batch = lane.take(self._loop.time())
            if batch is not None:
                sent.append((number, lane))
                await call.write(to_request(number, batch, self._settings.acks))

    async def _watch(self, call: Any) -> None:
        """Give up a stream whose broker does not answer any more."""
        timeout_s = self._settings.delivery_timeout_ms / 1000
        while True:
            await asyncio.sleep(min(timeout_s / 4, 1.0))
            oldest_s = self._accumulator.oldest_in_flight_s()
            if oldest_s is not None and oldest_s < self._loop.time() - timeout_s:
                call.cancel()

    async def _next_lane(self, reader: asyncio.Task[None]) -> Lane[Item] | None:
        """A lane with something to send, and a name to send it by; None when the stream is over."""
        while not reader.done():
            self._news.clear()
            now_s = self._loop.time()
            lane = self._accumulator.due_lane(now_s)
            if lane is None:
                await self._wait(self._accumulator.due_s())
            elif lane.identity is None:
                lane.identify(await self._identify(fresh=lane.was_identified))
            else:
                return lane
        return None

    async def _identify(self, *, fresh: bool) -> Identity:
        if not self._settings.idempotent:
            return NOBODY
        if fresh or self._identity is None:
            made = await self._in_time(
                self._channels.ask(
                    lambda stubs: stubs.publish.InitProducer,
                    pb.InitProducerRequest(),
                    pb.InitProducerResponse,
                )
            )
            identity = Identity(made.producer_id, made.epoch)
            if fresh:
                return identity
            self._identity = identity
        return self._identity

    async def _in_time(self, asked: Awaitable[T]) -> T:
        """What was asked for, if it comes before the messages that need it have waited too long."""
        try:
            async with asyncio.timeout(self._settings.delivery_timeout_ms / 1000):
                return await asked
        except TimeoutError:
            raise BrokerUnavailableError(
                f"{self._channels.address} gives the producer no id: no answer in "
                f"{self._settings.delivery_timeout_ms} ms"
            ) from None

    # --- Answers ---------------------------------------------------------------------------------

    async def _read(self, call: Any, sent: deque[tuple[int, Lane[Item]]]) -> None:
        async for response in call:
            number, lane = sent.popleft()
            if response.correlation_id != number:
                raise BrokerOutOfStepError(number, response.correlation_id)
            error = _error_of(response)
            if error is None:
                self._stored(lane.stored(), response)
            else:
                self._refused(lane, error)
            self._news.set()
            await self._settled()

    def _stored(self, batch: Batch[Item], response: pb.PublishResponse) -> None:
        if response.HasField("stored"):
            self._stored_in_a_row(batch, response.stored)
        else:
            for item, result in zip(batch.items, response.results, strict=True):
                if not item.delivery.done():
                    item.delivery.set_result(_receipt(batch.place.topic, result))
        self._unsettled -= len(batch.items)
        self.on_settled(len(batch.items))
        self._acknowledged += len(batch.items)
        self._batches += 1
        self._bytes += batch.size_bytes

    def _stored_in_a_row(self, batch: Batch[Item], stored: pb.StoredRow) -> None:
        topic, partition, at_ms = batch.place.topic, stored.partition, stored.timestamp_ms
        for offset, item in enumerate(batch.items, stored.first_offset):
            if not item.delivery.done():
                item.delivery.set_result(Receipt(topic, partition, offset, at_ms))

    def _refused(self, lane: Lane[Item], error: GoQueueError) -> None:
        if isinstance(error, OutOfOrderSequenceError):
            refusal = Refusal.OUT_OF_ORDER
        elif isinstance(error, BatchTooLargeError | SchemaValidationError):
            refusal = Refusal.TOO_LARGE  # in halves, until what cannot be stored is alone
        else:
            refusal = Refusal.FOR_NOW if error.retriable else Refusal.FINAL
        if isinstance(error, UnknownPartitionError):
            self._topics.pop(lane.place.topic, None)
        failed = lane.refused(refusal, self._loop.time())
        self._last_error = error
        if failed is not None:
            self._fail(failed, error)

    def _fail(self, batch: Batch[Item], error: GoQueueError) -> None:
        for item in batch.items:
            if not item.delivery.done():
                item.delivery.set_exception(error)
                item.delivery.exception()  # it is told by `flush` as well: nothing goes unnoticed
        self._unsettled -= len(batch.items)
        self.on_settled(len(batch.items))
        self._failure = self._failure or error
        self._failed += len(batch.items)
        self._last_error = error

    async def _expire(self) -> None:
        timeout_s = self._settings.delivery_timeout_ms / 1000
        for batch in self._accumulator.expired(self._loop.time() - timeout_s):
            cause = self._last_error
            self._fail(
                batch,
                DeliveryTimeoutError(
                    f"no acknowledgement in {timeout_s:g} s for {len(batch.items)} messages to "
                    f"{batch.place.topic}-{batch.place.partition}; the last error was: {cause}"
                ),
            )
        await self._settled()

    async def _settled(self) -> None:
        """Let those go on who wait for room, or for everything."""
        async with self._room:
            self._room.notify_all()


class BrokerOutOfStepError(GoQueueError):
    """The answers of a stream do not follow its requests; it is opened anew."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(f"answer {found} came where {expected} was expected")


def _receipt(topic: str, result: pb.MessageResult) -> Receipt:
    """Where a message is that may wait for its time."""
    if not result.HasField("deliver_at_ms"):
        return Receipt(topic, result.partition, result.offset, result.timestamp_ms)
    return Receipt(
        topic,
        result.partition,
        -1,
        result.timestamp_ms,
        result.delayed_id if result.HasField("delayed_id") else None,
        result.deliver_at_ms,
    )


def _error_of(response: pb.PublishResponse) -> GoQueueError | None:
    """A batch is for one partition and stored all or not at all: its first result tells."""
    if response.HasField("error"):
        return from_wire(response.error)
    if response.results and response.results[0].HasField("error"):
        return from_wire(response.results[0].error)
    return None
