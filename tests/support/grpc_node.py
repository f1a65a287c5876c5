"""A broker with its gRPC listener, and nothing else, inside the test's own loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpc import aio

from goqueue.protocols.grpc.listener import GrpcListener, GrpcSettings
from goqueue.runtime.clock import SystemClock
from support.brokers import running_broker
from support.grpc_stubs import Stubs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker

SCENARIO_S = 180.0


@dataclass
class GrpcNode:
    broker: Broker
    listener: GrpcListener
    channel: aio.Channel
    stubs: Any
    """Untyped on purpose: tests send what the types forbid, too."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.port}"


@asynccontextmanager
async def running_grpc(
    folder: Path, *, reflection: bool = False, **settings: Any
) -> AsyncIterator[GrpcNode]:
    """A listener on a free port, and a channel to it."""
    async with running_broker(folder, clock=SystemClock(), **settings) as broker:
        listener = GrpcListener(broker, GrpcSettings(port=0, reflection=reflection))
        await listener.start()
        try:
            async with aio.insecure_channel(f"127.0.0.1:{listener.port}") as channel:
                yield GrpcNode(broker, listener, channel, Stubs(channel))
        finally:
            await listener.stop(5.0)


def run(folder: Path, scenario: Callable[[GrpcNode], Awaitable[None]], **options: Any) -> None:
    """Play a scenario against a node of its own."""

    async def main() -> None:
        async with running_grpc(folder, **options) as node:
            await asyncio.wait_for(scenario(node), SCENARIO_S)

    asyncio.run(main())
