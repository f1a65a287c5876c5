"""A broker with its gRPC listener, and nothing else, inside the test's own loop.

With GOQUEUE_TEST_CLUSTER=3 it is a cluster, and each call goes to the node that has its turn.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from grpc import aio

from goqueue.protocols.grpc.listener import GrpcListener, GrpcSettings
from goqueue.runtime.clock import SystemClock
from support.brokers import read_all, running_broker
from support.grpc_stubs import Stubs
from support.nodes_in_loop import CLUSTER, Nodes, running_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.records import Record

SCENARIO_S = 180.0
_FLAGS: Final = {"default_partitions": "--topics-partitions"}
IN_TURN: Final = (("grpc.lb_policy_name", "round_robin"),)


@dataclass
class GrpcNode:
    broker: Broker
    listeners: list[GrpcListener]
    channel: aio.Channel
    stubs: Any
    """Untyped on purpose: tests send what the types forbid, too."""
    nodes: Nodes | None = None
    """Of a cluster."""

    @property
    def port(self) -> int:
        """Of the first listener."""
        return self.listeners[0].port

    def coordinator(self, group_id: str) -> Broker:
        """The broker that coordinates a group now."""
        return self.broker if self.nodes is None else self.nodes.coordinator(group_id)

    async def coordinated(self, group_id: str) -> Broker:
        """The same, as soon as there is one."""
        return self.broker if self.nodes is None else await self.nodes.coordinated(group_id)

    async def records(self, topic: str) -> list[Record]:
        """Every record of partition 0 of a topic."""
        if self.nodes is not None:
            return await self.nodes.records(topic)
        return await read_all(self.broker, topic)

    async def stop_listening(self, timeout_s: float) -> None:
        """Stop every listener."""
        await asyncio.gather(*(each.stop(timeout_s) for each in self.listeners))


@asynccontextmanager
async def running_grpc(
    folder: Path, *, reflection: bool = False, **settings: Any
) -> AsyncIterator[GrpcNode]:
    """A listener on a free port, and a channel to it."""
    if CLUSTER:
        async with _running_cluster(folder, reflection, settings) as node:
            yield node
        return
    async with running_broker(folder, clock=SystemClock(), **settings) as broker:
        listener = GrpcListener(broker, GrpcSettings(port=0, reflection=reflection))
        await listener.start()
        try:
            async with aio.insecure_channel(f"127.0.0.1:{listener.port}") as channel:
                yield GrpcNode(broker, [listener], channel, Stubs(channel))
        finally:
            await listener.stop(5.0)


@asynccontextmanager
async def _running_cluster(
    folder: Path, reflection: bool, settings: dict[str, Any]
) -> AsyncIterator[GrpcNode]:
    flags = [part for name, value in settings.items() for part in (_FLAGS[name], str(value))]
    if reflection:
        flags.append("--grpc-reflection")
    async with running_nodes(folder, *flags) as nodes:
        listeners = [each.grpc for each in nodes.all]
        target = "ipv4:" + ",".join(f"127.0.0.1:{each.port}" for each in listeners)
        async with aio.insecure_channel(target, options=IN_TURN) as channel:
            await channel.channel_ready()
            yield GrpcNode(nodes.broker, listeners, channel, Stubs(channel), nodes)


def run(folder: Path, scenario: Callable[[GrpcNode], Awaitable[None]], **options: Any) -> None:
    """Play a scenario against a node of its own."""

    async def main() -> None:
        async with running_grpc(folder, **options) as node:
            await asyncio.wait_for(scenario(node), SCENARIO_S)

    asyncio.run(main())
