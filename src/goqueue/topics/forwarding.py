"""Requests of clients that another node has to answer, on their way there and back.

A request goes to the node that coordinates what it is about, over the internal port, and no
further: whoever is asked there answers, or says that it is not the one. What is under way is
bounded in bytes, ends at the deadline of the request, and ends earlier when the node that was asked
does not lead any more what it was asked about.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import goqueue
from goqueue.model.errors import (
    ForwardingBusyError,
    GoQueueError,
    PeerUnavailableError,
    PeerVersionError,
)
from goqueue.model.limits import MAX_FORWARDED_BYTES
from goqueue.runtime.byte_room import ByteRoom

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.cluster.peers import PeerConnection
    from goqueue.topics.routes import Routes
    from goqueue.wire.kafka.api_keys import ApiKey
    from goqueue.wire.kafka.reading import Struct

_HEAD_BYTES: Final = 1024
"""What a request counts for besides its bytes."""
_MAX_STREAMS: Final = 1000
"""Streams that pass to other nodes at a time, each with a connection; one more is refused."""
_MAX_ANSWERS_BYTES: Final = 8 * 1024 * 1024
"""Answers of one other node that are being read or were not taken yet. A further one is not read
until there is room for it; one that is larger than that is read while there is no other."""
_LOOK_S: Final = 0.2
"""How often whoever waits for another node looks whether it is still the one to wait for."""
_MOVED_S: Final = 1.0
"""A node that leads no more still has so long to answer: it may have done what it was asked."""


class Forwards:
    """What this node has asked of others for its clients."""

    def __init__(
        self,
        routes: Routes,
        facts: ClusterFacts,
        max_bytes: int = MAX_FORWARDED_BYTES,
        max_streams: int = _MAX_STREAMS,
        max_answers_bytes: int = _MAX_ANSWERS_BYTES,
    ) -> None:
        self.routes = routes
        self._facts = facts
        self._max_bytes = max_bytes
        self.max_streams = max_streams
        self._stream_count = 0
        self.held_bytes = 0
        """Of all requests under way; never more than the bound."""
        self.answers: defaultdict[int, ByteRoom] = defaultdict(lambda: ByteRoom(max_answers_bytes))
        """What is held of those of each node; as many as there are nodes."""

    @contextmanager
    def holding(self, size_bytes: int) -> Iterator[None]:
        """Count so many bytes as long as they wait for another node.

        Raises:
            ForwardingBusyError: there is no room for them.
        """
        size_bytes += _HEAD_BYTES
        if self.held_bytes + size_bytes > self._max_bytes:
            raise ForwardingBusyError(
                f"{self.held_bytes} bytes of requests wait for other nodes, of {self._max_bytes} "
                "that may: try again soon"
            )
        self.held_bytes += size_bytes
        try:
            yield
        finally:
            self.held_bytes -= size_bytes

    async def ask(
        self,
        node_id: int,
        api: ApiKey,
        *,
        size_bytes: int,
        deadline_s: float,
        stays: Callable[[], bool],
        wait_s: float | None = None,
        **fields: Any,
    ) -> Struct:
        """Ask a node for a client, as long as it `stays` the one to ask.

        Args:
            node_id: The node.
            api: An API of our own, in its only version.
            size_bytes: How much the request holds.
            deadline_s: How long the client waits, from now on.
            stays: Whether the node is still where the request belongs.
            wait_s: How long the node lets the request wait; without it as long as the client.
            fields: The request.

        Raises:
            TimeoutError: there was no answer by the deadline; the request may still be served.
            PeerUnavailableError: there will be no answer; the request may have been served.
            PeerVersionError: the same, of a node that runs another version.
            ForwardingBusyError: too much is under way; the request was not sent.
        """
        wait_s = deadline_s if wait_s is None else wait_s
        # The frame is a copy of what the client has sent, which is held as well.
        with self.holding(2 * size_bytes), self.answers[node_id].part() as room:
            asking = asyncio.ensure_future(
                self.routes.peers.ask(node_id, api, 0, wait_s=wait_s, room=room.take, **fields)
            )
            try:
                async with asyncio.timeout(deadline_s):
                    await self.waited_for((asking,), node_id, stays)
                return asking.result()
            except PeerUnavailableError as error:
                self.check_version(node_id, str(error))
                raise
            finally:
                asking.cancel()

    def check_version(self, node_id: int, symptom: str) -> None:
        """Tell whoever is refused by a node of another version that this may be why.

        Raises:
            PeerVersionError: the node runs another version than this one.
        """
        theirs = next((e.version for e in self._facts.members() if e.node_id == node_id), "")
        if theirs and theirs != goqueue.__version__:
            raise PeerVersionError(
                f"node {node_id} runs goqueue {theirs} and this node {goqueue.__version__}: "
                f"{symptom}. Upgrade all nodes to one version"
            )

    @asynccontextmanager
    async def connection(self, node_id: int) -> AsyncIterator[PeerConnection]:
        """A connection of one client's own, for a stream; closed at the end.

        Raises:
            ForwardingBusyError: there are as many as there may be.
            PeerUnavailableError: the node cannot be reached.
        """
        if self._stream_count >= self.max_streams:
            raise ForwardingBusyError(
                f"{self.max_streams} streams pass to other nodes: connect to the node itself, or "
                "try again"
            )
        self._stream_count += 1
        try:
            connection = await self.routes.peers.dial(node_id)
            try:
                yield connection
            finally:
                connection.close()
        finally:
            self._stream_count -= 1

    async def on(
        self,
        connection: PeerConnection,
        node_id: int,
        api: ApiKey,
        *,
        size_bytes: int,
        wait_s: float,
        **fields: Any,
    ) -> Struct:
        """Ask a node on a connection of one client's own, where requests stay in order.

        Raises like `ask`; the deadline is `wait_s` and some more, and that of the connection.
        """
        with self.holding(2 * size_bytes), self.answers[node_id].part() as room:
            try:
                return await connection.ask(api, 0, wait_s=wait_s, room=room.take, **fields)
            except GoQueueError as error:
                self.check_version(node_id, str(error))
                raise PeerUnavailableError(f"node {node_id} cannot be reached: {error}") from None

    async def waited_for(
        self,
        asked: Collection[asyncio.Future[Any]],
        node_id: int,
        stays: Callable[[], bool],
        look_s: float | None = None,
    ) -> None:
        """Return when one of these is done. Raises `PeerUnavailableError` when the node has moved.

        Whether it has, is looked at every `look_s`.
        """
        moved_s: float | None = None
        loop = asyncio.get_running_loop()
        while not await _first_of(asked, _LOOK_S if look_s is None else look_s):
            if _holds(stays):
                moved_s = None
            elif moved_s is None:
                moved_s = loop.time()
            elif loop.time() - moved_s >= _MOVED_S:
                raise PeerUnavailableError(
                    f"node {node_id} was asked and coordinates this no more: whether it was done "
                    "is not known, try again"
                )


async def _first_of(asked: Collection[asyncio.Future[Any]], timeout_s: float) -> bool:
    """Wait until one is done; whether one is."""
    when = asyncio.FIRST_COMPLETED
    return bool((await asyncio.wait(asked, timeout=timeout_s, return_when=when))[0])


def _holds(stays: Callable[[], bool]) -> bool:
    try:
        return stays()
    except GoQueueError:
        return False  # nobody leads it at the moment
