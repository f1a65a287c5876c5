"""A whole node inside the test's own loop, for tests of the client that look into the broker."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

# What a node imports in a thread is imported here: pytest rewrites modules as they are imported,
# and the parser of Python 3.11 cannot be used by two threads at once.
import goqueue.protocols.grpc.listener
import goqueue.protocols.http.node_api
import goqueue.protocols.http.server.listener  # noqa: F401
from goqueue.server.config_load import load_config
from goqueue.server.node import Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.connection.listener import Listener

SCENARIO_S = 180.0
FLAGS = (
    *("--kafka-port", "0", "--http-port", "0", "--grpc-port", "0"),
    *("--groups-offsets-partitions", "1", "--groups-initial-rebalance-delay", "0ms"),
)


class ClientNode:
    """What a test needs of it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def broker(self) -> Broker:
        return self._node.broker

    @property
    def listener(self) -> Listener:
        return self._node.kafka

    @property
    def address(self) -> str:
        """Of its Kafka listener."""
        return f"127.0.0.1:{self._node.kafka.port}"


@asynccontextmanager
async def running_node(folder: Path, *flags: str) -> AsyncIterator[ClientNode]:
    """A node on free ports."""
    node = Node(load_config(["--data-dir", str(folder), *FLAGS, *flags], environment={}))
    await node.start()
    try:
        yield ClientNode(node)
    finally:
        await node.stop()


def run(folder: Path, scenario: Callable[[ClientNode], Awaitable[None]], *flags: str) -> None:
    """Play a scenario against a node of its own."""

    async def main() -> None:
        async with running_node(folder, *flags) as node:
            await asyncio.wait_for(scenario(node), SCENARIO_S)

    asyncio.run(main())
