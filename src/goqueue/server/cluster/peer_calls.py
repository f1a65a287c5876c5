"""Single calls to one other node: who may ask at a time, over which connection, and until when.

A call has a connection of its own while it waits. One that waits for a place counts that against
its time. Of a node that is away, one caller at a time finds out whether it still is, and all that
queue behind it share what it finds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.errors import ConnectionLostError
from goqueue.model.errors import GoQueueError, PeerUnavailableError
from goqueue.runtime.tasks import deadline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.client.link.connection import Connection
    from goqueue.wire.kafka.api_keys import ApiKey
    from goqueue.wire.kafka.reading import Struct

CALL_S: Final = 5.0
"""How long an answer may take beyond what the request lets it wait, with the wait for a place."""
_MAX_CALLS: Final = 64
"""Requests to one node that are under way; one more waits for an answer to another."""
_MAX_POLLS: Final = 1500
"""The same of requests that let their answers wait, as long polls do."""
_FIRST_BACKOFF_S: Final = 0.05
_LAST_BACKOFF_S: Final = 1.0


class NodeCalls:
    """The calls to one node, and their connections."""

    def __init__(self, node_id: int, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._node_id = node_id
        self._connect = connect
        self._idle: list[Connection] = []
        self._asked: set[Connection] = set()
        """Those that wait for an answer."""
        self._short = asyncio.Semaphore(_MAX_CALLS)
        self._long = asyncio.Semaphore(_MAX_POLLS)
        self._opening = asyncio.Lock()
        """Of a node that is away, one caller at a time finds out whether it still is."""
        self._failures = 0
        """Failed dials since the last one that was not."""
        self._retry_at_s = 0.0
        self._lost_count = 0
        """How often the node was found away: callers that were there before are told the same."""
        self._lost: GoQueueError = unavailable(node_id, "it is away")

    async def ask(self, api: ApiKey, version: int, wait_s: float, fields: dict[str, Any]) -> Struct:
        """See `goqueue.cluster.peers.Peers.ask`."""
        loop = asyncio.get_running_loop()
        came_s, lost_count = loop.time(), self._lost_count
        places = self._long if wait_s else self._short
        await self._place(places, wait_s)
        try:
            connection = await self._connection(lost_count)
            left_s = wait_s - (loop.time() - came_s)
            return await self._answer(connection, api, version, left_s, fields)
        finally:
            places.release()

    def lose(self, why: str) -> None:
        """The node is taken for dead: whoever waits for it is told so now."""
        self._note(unavailable(self._node_id, why))
        self.close()

    def close(self) -> None:
        """Hang up; whoever waits for an answer has none."""
        for connection in (*self._idle, *self._asked):
            connection.close()
        self._idle.clear()

    async def _place(self, places: asyncio.Semaphore, wait_s: float) -> None:
        if not places.locked():
            await places.acquire()
            return
        try:
            async with deadline(CALL_S + wait_s):
                await places.acquire()
        except TimeoutError:
            why = "as many requests as may be wait for its answers, and this one was not sent"
            raise unavailable(self._node_id, why) from None

    async def _connection(self, lost_count: int) -> Connection:
        """One that waits for no answer, for a caller who came after so many losses."""
        while True:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_open:
                    return connection
            if self._lost_count != lost_count:
                raise self._lost.with_traceback(None)
            if not self._failures:
                return await self._dial()
            async with self._opening:
                if self._failures and self._lost_count == lost_count:
                    wait_s = self._retry_at_s - asyncio.get_running_loop().time()
                    if wait_s > 0:
                        await asyncio.sleep(wait_s)
                    return await self._dial()

    async def _dial(self) -> Connection:
        failures = self._failures
        try:
            connection = await self._connect()
        except GoQueueError as error:
            if self._failures == failures:  # several that fail at once are one failure
                self._failures += 1
            self._retry_at_s = asyncio.get_running_loop().time() + backoff_s(self._failures)
            self._note(error)
            raise
        self._failures = 0
        return connection

    def _note(self, error: GoQueueError) -> None:
        self._lost_count += 1
        self._lost = error

    async def _answer(
        self,
        connection: Connection,
        api: ApiKey,
        version: int,
        wait_s: float,
        fields: dict[str, Any],
    ) -> Struct:
        lost_count = self._lost_count
        self._asked.add(connection)
        try:
            answer = await connection.ask(api, version, wait_s=wait_s, **fields)
        except BaseException as error:
            connection.close()  # an answer may still come, which nobody waits for
            if not isinstance(error, ConnectionLostError):
                raise
            if self._lost_count != lost_count:
                raise self._lost.with_traceback(None) from None
            raise unavailable(self._node_id, error) from None
        finally:
            self._asked.discard(connection)
        self._idle.append(connection)
        return answer


def backoff_s(failures: int) -> float:
    """How long to wait after so many failures in a row."""
    return min(_FIRST_BACKOFF_S * float(1 << min(max(failures - 1, 0), 16)), _LAST_BACKOFF_S)


def unavailable(node_id: int, why: object) -> PeerUnavailableError:
    """The error of a node that gives no answer."""
    return PeerUnavailableError(f"node {node_id} cannot be reached: {why}")
