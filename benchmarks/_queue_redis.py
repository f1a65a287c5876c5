"""Redis Streams as a work queue, through redis-py with hiredis (see `_queue_system.py`).

The producer sends a pipeline of XADDs and waits for its replies. A consumer reads up to as many
with XREADGROUP, and then acknowledges: with a pipeline of one XACK a message, or, in `OneAck`, with
one XACK that names them all. In `Tasks` each message has a task that awaits its XACK, on asyncio,
where the client has a connection for each command under way. Entries stay in the stream after
that, as messages do in a log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import redis
import redis.asyncio

from benchmarks._queue_system import CHUNK, WAIT_S
from benchmarks._turns import expect

if TYPE_CHECKING:
    from benchmarks._queue_system import Feed, Tally

Entry: TypeAlias = tuple[bytes, dict[bytes, bytes]]

_GROUP: Final = "workers"
_FIELD: Final = b"value"


class Streams:
    """Acknowledges each message by a command of its own."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        # Its answers are typed as unions of all.
        self._redis: Any = redis.Redis(self._host, self._port)

    async def prepare(self, topic: str) -> None:
        """Make the stream with its group."""
        self._redis.xgroup_create(topic, _GROUP, id="0", mkstream=True)

    async def produce(self, topic: str, feed: Feed) -> None:
        """A pipeline a chunk."""
        async for values in feed:
            pipeline = self._redis.pipeline(transaction=False)
            for value in values:
                pipeline.xadd(topic, {_FIELD: value})
            pipeline.execute()

    async def consume(self, topic: str, tally: Tally) -> None:
        """Read, then acknowledge."""
        tally.ready()
        while not tally.is_done:
            entries = self._read(topic, tally.name)
            if entries:
                tally.see([fields[_FIELD] for _, fields in entries])
                acked = self._acknowledge(topic, entries)
                expect(acked == len(entries), f"{acked} of {len(entries)} entries were pending")
                tally.acked(acked)

    async def left(self, topic: str) -> int:
        """What was never delivered, and what was and is pending."""
        (group,) = self._redis.xinfo_groups(topic)
        return int(group["pending"]) + int(group["lag"])

    def _read(self, topic: str, name: str) -> list[Entry]:
        wanted = {topic: ">"}
        waits_ms = int(WAIT_S * 1000)
        found = self._redis.xreadgroup(_GROUP, name, wanted, count=CHUNK, block=waits_ms)
        entries: list[Entry] = found[0][1] if found else []
        return entries

    def _acknowledge(self, topic: str, entries: list[Entry]) -> int:
        pipeline = self._redis.pipeline(transaction=False)
        for entry_id, _ in entries:
            pipeline.xack(topic, _GROUP, entry_id)
        return sum(pipeline.execute())


class OneAck(Streams):
    """Acknowledges all that it has read by one command."""

    def _acknowledge(self, topic: str, entries: list[Entry]) -> int:
        acked: int = self._redis.xack(topic, _GROUP, *(entry_id for entry_id, _ in entries))
        return acked


class Tasks(Streams):
    """Awaits each acknowledgement in a task, as many of them as a chunk has messages."""

    async def consume(self, topic: str, tally: Tally) -> None:
        """Read ahead of the tasks, by a chunk."""
        where: dict[str, Any] = {"host": self._host, "port": self._port}
        async with redis.asyncio.Redis(**where, max_connections=1 + CHUNK) as client:
            read: asyncio.Queue[Entry] = asyncio.Queue(CHUNK)
            work = [asyncio.create_task(_work(client, topic, read, tally)) for _ in range(CHUNK)]
            tally.ready()
            while not tally.is_done:
                for entry in await _read_async(client, topic, tally.name):
                    await read.put(entry)
            for each in work:
                each.cancel()
            await asyncio.gather(*work, return_exceptions=True)


async def _work(client: Any, topic: str, read: asyncio.Queue[Entry], tally: Tally) -> None:
    while True:
        entry_id, fields = await read.get()
        tally.see([fields[_FIELD]])
        tally.acked(await client.xack(topic, _GROUP, entry_id))


async def _read_async(client: Any, topic: str, name: str) -> list[Entry]:
    waits_ms = int(WAIT_S * 1000)
    found = await client.xreadgroup(_GROUP, name, {topic: ">"}, count=CHUNK, block=waits_ms)
    entries: list[Entry] = found[0][1] if found else []
    return entries
