"""Whether a topic is being given partitions is told while it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.brokers import running_broker

if TYPE_CHECKING:
    from pathlib import Path


def test_a_topic_is_growing_until_its_partitions_are_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, {})
            growing = asyncio.create_task(broker.grow_topic("t", 3))
            seen = set()
            while not growing.done():
                seen.add(broker.topic_changes.growing.get("t"))
                await asyncio.sleep(0)
            assert 3 in seen
            assert broker.topic_changes.growing == {}
            assert (await growing).partition_count == 3

    asyncio.run(scenario())
