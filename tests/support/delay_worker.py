"""A broker that publishes to itself until it is killed, and says what it was promised.

Started by tests as a process of its own: `python delay_worker.py FOLDER SEED POLICY`. Each line of
its output is one promise: `published NAME ID DUE_MS`, `cancelling NAME`, `cancelled NAME`.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.model.errors import DelayedNotPendingError
from goqueue.publishing.new_messages import NewMessage
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk

TOPIC = "t"
PARTITIONS = 2


async def open_broker(folder: Path) -> Broker:
    """A started broker in a folder."""
    store = await SqliteMetadataStore.open(
        folder / "metadata.db", disk=SystemDisk(), clock=SystemClock()
    )
    broker = Broker(BrokerSettings(folder, offsets_partitions=1), store)
    await broker.start()
    return broker


def say(*words: object) -> None:
    """Tell whoever watches, before anything else happens."""
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


class Worker:
    """Publishes and cancels without an end."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.rng = random.Random(seed)
        self.seed = seed
        self.waiting: dict[str, int] = {}

    async def publish_for_ever(self) -> None:
        count = 0
        while True:
            names = [f"{self.seed}-{count + at}" for at in range(self.rng.choice([1, 5, 40]))]
            count += len(names)
            now_ms = self.broker.clock.now_ms()
            new = [
                NewMessage(
                    name.encode(),
                    partition=self.rng.randrange(PARTITIONS),
                    deliver_at_ms=now_ms + self.rng.choice([1, 15, 100, 400, 1500, 20_000_000]),
                )
                for name in names
            ]
            results = await self.broker.writer.publish(TOPIC, new)
            for name, result in zip(names, results, strict=True):
                if result.delayed_id is not None:
                    say("published", name, result.delayed_id, result.deliver_at_ms)
                    self.waiting[name] = result.delayed_id
            await asyncio.sleep(0.005)

    async def cancel_for_ever(self) -> None:
        while True:
            await asyncio.sleep(0.003)
            if not self.waiting:
                continue
            name = self.rng.choice(list(self.waiting))
            delayed_id = self.waiting.pop(name)
            say("cancelling", name)
            try:
                await self.broker.delays.cancel(TOPIC, None, delayed_id)
            except DelayedNotPendingError:
                say("refused", name)
            else:
                say("cancelled", name)

    async def save_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.02, 0.3))
            parts = self.broker.delays.shard().parts
            if parts is not None:
                await parts.keeper.save()


async def main(folder: Path, seed: int, policy: str) -> None:
    broker = await open_broker(folder)
    if TOPIC not in broker.topics.catalogue.by_name:
        await broker.create_topic(TOPIC, PARTITIONS, {"goqueue.fsync": policy})
    say("ready")
    worker = Worker(broker, seed)
    await asyncio.gather(
        worker.publish_for_ever(), worker.cancel_for_ever(), worker.save_for_ever()
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
