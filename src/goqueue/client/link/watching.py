"""Gives up a broker that the cluster has given up: one that is paused or cut off never hangs up.

Where an answer is late, another broker is asked which ones there are. Questions to one that is not
among them fail, and whoever asked looks for the leader or the coordinator that there is instead.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.client.link.addresses import Address
from goqueue.model.errors import GoQueueError
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from goqueue.client.link.metadata import Metadata
    from goqueue.client.link.pool import ConnectionPool
    from goqueue.wire.kafka.reading import Struct

_log = logging.getLogger(__name__)

METADATA: Final = 12
_LANE: Final = "watch"
_LOOK_S: Final = 1.0
_ANSWER_S: Final = 2.0
"""How long each of the others may take to answer; then the next one is asked."""


class BrokerWatch:
    """Checks the connections of one client for answers that are late."""

    def __init__(
        self, pool: ConnectionPool, metadata: Metadata, servers: tuple[Address, ...]
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._servers = servers
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on, if that is not being done."""
        if self._task is None:
            self._task = asyncio.create_task(self._watch(), name="goqueue watches brokers")

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            known = set(self._metadata.nodes.values())
            late = self._pool.late() & known
            if not late or known <= late:
                continue  # all is well, or nobody is left to ask
            answer = await self._ask_others(late)
            if answer is None:
                continue
            there = {Address(each.host, each.port) for each in answer.brokers}
            for address in late - there:
                _log.warning("%s is not in the cluster any more: others are asked", address)
                self._pool.drop(address)
            if late - there:
                self._metadata.take(answer, asyncio.get_running_loop().time())

    async def _ask_others(self, late: set[Address]) -> Struct | None:
        for address in dict.fromkeys((*self._metadata.nodes.values(), *self._servers)):
            if address in late:
                continue
            try:
                async with asyncio.timeout(_ANSWER_S):
                    connection = await self._pool.get(address, _LANE)
                    return await connection.ask(
                        ApiKey.METADATA,
                        METADATA,
                        topics=[],
                        allow_auto_topic_creation=False,
                        include_topic_authorized_operations=False,
                    )
            except (GoQueueError, TimeoutError) as error:
                _log.info("fetching metadata from %s failed: %s", address, error)
        return None
