"""NATS JetStream as a work queue, through nats-py (see `_queue_system.py`).

A file-backed stream that keeps what is acknowledged, as a log does, and one durable pull consumer
which both processes fetch from; each message's `ack()` is a publish that nothing answers. nats-py
has no call for a batch. So the producer publishes a chunk plainly but for its last message, and
has the server confirm that one: its number in the stream tells that all before it are stored, as
nobody else publishes there. `Confirmed` has each message confirmed, in the client's own window. In
`Tasks` each message has a task that awaits the server's answer to its acknowledgement.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import nats
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from benchmarks._queue_system import BACKLOG, CHUNK, WAIT_S
from benchmarks._turns import expect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

    from benchmarks._queue_system import Feed, Tally

_GROUP: Final = "workers"


class JetStream:
    """The server confirms each chunk."""

    def __init__(self, address: str) -> None:
        self._url = f"nats://{address}"

    async def prepare(self, topic: str) -> None:
        """Make the stream with its consumer, which may have a whole backlog under way."""
        stream = StreamConfig(
            name=topic,
            subjects=[topic],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
        )
        group = ConsumerConfig(
            durable_name=_GROUP, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=BACKLOG
        )
        async with self._connected() as client:
            context = client.jetstream()
            await context.add_stream(stream)
            await context.add_consumer(topic, group)

    async def produce(self, topic: str, feed: Feed) -> None:
        """All but the last message of a chunk are published as NATS's own, unconfirmed messages."""
        async with self._connected() as client:
            context = client.jetstream()
            async for values in feed:
                for value in values[:-1]:
                    await client.publish(topic, value)
                stored = await context.publish(topic, values[-1])
                expect(stored.seq == feed.sent, f"sent {feed.sent}, stored {stored.seq}")

    async def consume(self, topic: str, tally: Tally) -> None:
        """Fetch, then acknowledge one by one."""
        async with self._connected() as client:
            subscription = await client.jetstream().pull_subscribe(topic, _GROUP, stream=topic)
            tally.ready()
            while not tally.is_done:
                try:
                    messages = await subscription.fetch(CHUNK, timeout=WAIT_S)
                except TimeoutError:
                    continue
                tally.see([message.data for message in messages])
                for message in messages:
                    await message.ack()
                tally.acked(len(messages))

    async def left(self, topic: str) -> int:
        """What was never delivered, and what was and is not acknowledged."""
        async with self._connected() as client:
            group = await client.jetstream().consumer_info(topic, _GROUP)
            return (group.num_pending or 0) + (group.num_ack_pending or 0)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        """A connection that has sent everything when it is closed."""
        client = await nats.connect(self._url)
        try:
            yield client
            await client.flush()
        finally:
            await client.close()


class Confirmed(JetStream):
    """The server confirms each message, up to 4000 of them later."""

    async def produce(self, topic: str, feed: Feed) -> None:
        """The client waits when too many are not confirmed; a refusal shows in the counts."""
        async with self._connected() as client:
            context: JetStreamContext = client.jetstream()
            async for values in feed:
                for value in values:
                    await context.publish_async(topic, value)
            await context.publish_async_completed()


class Tasks(JetStream):
    """Awaits each acknowledgement in a task, as many of them as a chunk has messages."""

    async def consume(self, topic: str, tally: Tally) -> None:
        """Fetch ahead of the tasks, by a chunk."""
        async with self._connected() as client:
            subscription = await client.jetstream().pull_subscribe(topic, _GROUP, stream=topic)
            read: asyncio.Queue[Msg] = asyncio.Queue(CHUNK)
            work = [asyncio.create_task(_work(read, tally)) for _ in range(CHUNK)]
            tally.ready()
            while not tally.is_done:
                try:
                    messages = await subscription.fetch(CHUNK, timeout=WAIT_S)
                except TimeoutError:
                    continue
                for message in messages:
                    await read.put(message)
            for each in work:
                each.cancel()
            await asyncio.gather(*work, return_exceptions=True)


async def _work(read: asyncio.Queue[Msg], tally: Tally) -> None:
    while True:
        message = await read.get()
        tally.see([message.data])
        await message.ack_sync()
        tally.acked(1)
