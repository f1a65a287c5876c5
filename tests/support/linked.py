"""A client on asyncio of a node inside the test's own loop, or of any server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from goqueue import AsyncClient, ClientSettings
from goqueue.publishing.new_messages import NewMessage
from support.nodes_in_loop import running_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from support.nodes_in_loop import Nodes

SCENARIO_S = 180.0


@asynccontextmanager
async def linked(address: str, **settings: Any) -> AsyncIterator[AsyncClient]:
    """A client of a server, closed at the end."""
    settings.setdefault("call_timeout_ms", 90_000)
    async with AsyncClient(address, ClientSettings(**settings)) as client:
        yield client


def played(
    folder: Path, scenario: Callable[[AsyncClient, Nodes], Awaitable[None]], **settings: Any
) -> None:
    """Play a scenario with a client of its own, on a topic with three partitions."""

    async def main() -> None:
        async with running_nodes(folder) as node:
            await node.broker.create_topic("t", 3)
            async with linked(node.address, **settings) as client:
                await asyncio.wait_for(scenario(client, node), SCENARIO_S)

    asyncio.run(main())


async def fill(broker: Broker, count: int, topic: str = "t", **options: Any) -> None:
    """Publish numbers."""
    new = [NewMessage(b"%d" % number, **options) for number in range(count)]
    await broker.writer.publish(topic, new)


async def taken(messages: Any, count: int) -> list[Any]:
    """The first messages of an iterator."""
    found = []
    async with asyncio.timeout(90):
        async for message in messages:
            found.append(message)
            if len(found) == count:
                break
    return found


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that nobody tells of."""
    async with asyncio.timeout(90):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)
