"""A broker in this process with many messages in flight, and what they cost it."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._delay_broker import make_broker, resident_bytes
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.delivery.settings import QueueSettings

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

TOPIC: Final = "in-flight"
VALUE: Final = b"." * 100


def measure_in_flight(folder: str, count: int, at_once: int) -> None:
    """Print by how many bytes the process grows for each message that is in flight."""

    async def main() -> None:
        broker = await make_broker(Path(folder))
        await broker.create_topic(TOPIC, 1)
        for _ in range(count // 1000):
            messages = [NewMessage(VALUE, partition=0) for _ in range(1000)]
            await broker.writer.publish(TOPIC, messages)
        settings = QueueSettings(visibility_ms=3_600_000)
        # What reading costs, whoever reads, is there before.
        await _take(broker, "other", settings, 50_000, at_once)
        gc.collect()
        before = resident_bytes()
        taken = await _take(broker, "group", settings, count, at_once)
        gc.collect()
        assert taken == count, f"{taken} of {count} are in flight"
        print((resident_bytes() - before) / count)
        await broker.stop()

    asyncio.run(main())


async def _take(
    broker: Broker, group: str, settings: QueueSettings, count: int, at_once: int
) -> int:
    """Let as many members as it takes have so many messages."""
    taken = 0
    while taken < count:
        member = await broker.queue_members.join(group, [TOPIC], settings)
        while found := await broker.deliverer.poll(member, limit=at_once, max_wait_ms=0):
            taken += len(found)
            if taken >= count:
                break
    return taken
