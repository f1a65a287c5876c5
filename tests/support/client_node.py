"""A whole node inside the test's own loop, for tests of the client that look into the broker.

With GOQUEUE_TEST_CLUSTER=3 it is a cluster, and a client starts at whichever node has its turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.nodes_in_loop import running_nodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.nodes_in_loop import Nodes

SCENARIO_S = 180.0
FLAGS = (
    *("--groups-offsets-partitions", "1"),
    *("--groups-initial-rebalance-delay", "0ms"),
)


def run(folder: Path, scenario: Callable[[Nodes], Awaitable[None]], *flags: str) -> None:
    """Play a scenario against a node of its own."""

    async def main() -> None:
        async with running_nodes(folder, *FLAGS, *flags) as node:
            await asyncio.wait_for(scenario(node), SCENARIO_S)

    asyncio.run(main())
