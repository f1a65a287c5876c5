"""GoQueue's own queue groups, through its Python client (see `_queue_system.py`).

The producer publishes one by one and lets the client fill its batches. A consumer takes what has
come, up to a chunk, and acknowledges each message by a call of its own; it counts them when the
broker has stored that. In `Tasks` each message has a task that awaits its acknowledgement, as many
of them as a chunk has messages.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks._queue_system import CHUNK, WAIT_S
from goqueue import AsyncClient

if TYPE_CHECKING:
    from benchmarks._queue_system import Feed, Tally
    from goqueue.client.queues.messages import AsyncQueueMessage
    from goqueue.client.queues.queue import AsyncQueue


class Batches:
    """Acknowledges each message, and waits for a chunk of acknowledgements."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def prepare(self, topic: str) -> None:
        """Make the topic with its group, which is called the same."""
        async with AsyncClient(self._address) as client:
            await client.topics.create(topic, partitions=1)
            async with client.queue(topic, [topic]):
                pass

    async def produce(self, topic: str, feed: Feed) -> None:
        """The client waits when too many are not confirmed; `flush` raises if one is refused."""
        async with AsyncClient(self._address) as client:
            async for values in feed:
                for value in values:
                    await client.publish(topic, value)
            await client.flush()

    async def consume(self, topic: str, tally: Tally) -> None:
        """Take what is there, then acknowledge one by one."""
        async with AsyncClient(self._address) as client, client.queue(topic, [topic]) as queue:
            tally.ready()
            work = asyncio.create_task(self._work(queue, tally))
            while not tally.is_done and not work.done():  # noqa: ASYNC110 - a file tells it
                await asyncio.sleep(WAIT_S)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _work(self, queue: AsyncQueue, tally: Tally) -> None:
        async for messages in queue.batches(CHUNK):
            tally.see(message.value or b"" for message in messages)
            settled = [message.ack() for message in messages]
            for each in settled:
                await each
            tally.acked(len(messages))

    async def left(self, topic: str) -> int:
        """How far the group is behind, by the lowest message that is not acknowledged."""
        async with AsyncClient(self._address) as client:
            return sum(each.lag for each in await client.offsets.fetch(topic))


class Tasks(Batches):
    """Awaits each acknowledgement in a task."""

    async def _work(self, queue: AsyncQueue, tally: Tally) -> None:
        async def handle(message: AsyncQueueMessage) -> None:
            tally.see([message.value or b""])
            await message.ack()
            tally.acked(1)

        await queue.process(handle, concurrency=CHUNK)
