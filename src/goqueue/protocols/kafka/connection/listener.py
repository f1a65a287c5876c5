"""The server socket: accepts, counts, sweeps over the deadlines, and stops in an orderly way."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.kafka.connection.acceptor import Acceptor
from goqueue.protocols.kafka.connection.budget import BYTES_A_READ, AnswerBudget, RequestBudget
from goqueue.protocols.kafka.connection.connection import Connection
from goqueue.protocols.kafka.connection.dispatch import Dispatcher
from goqueue.protocols.kafka.connection.fair_reads import FairReads
from goqueue.protocols.kafka.settings import ConnectionLimits, ListenerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.connected import ConnectedClient
    from goqueue.protocols.kafka.connection.deadlines import CloseReason
    from goqueue.protocols.kafka.connection.owner import Owned
    from goqueue.protocols.kafka.registry import Registry

_log = logging.getLogger(__name__)

_CLOSED_A_SWEEP: Final = 200
"""Connections closed at once; the event loop gets its turn before the next, after this long."""
_SHORT_SWEEP_S: Final = 0.02
_REPORTED: Final = 20
"""Closed connections of which the log tells singly in `_REPORT_S`; the others are counted."""
_REPORT_S: Final = 1.0


class Listener:
    """One address that Kafka clients connect to."""

    def __init__(self, registry: Registry, settings: ListenerSettings) -> None:
        self.settings = settings
        self.budget = RequestBudget(settings, self._sweep_soon)
        self.answers = AnswerBudget(
            settings.max_unsent_listener_bytes, settings.min_fetch_answer_bytes
        )
        self.dispatcher = Dispatcher(registry)
        self.buffer = memoryview(bytearray(BYTES_A_READ))
        """What sockets are read into, one at a time: a connection leaves nothing in it."""
        self.fair_reads = FairReads(_call_soon)
        """Whose turn it is, of clients that send a lot."""
        self.closed: Counter[CloseReason] = Counter()
        """How many connections have ended, and why."""
        self._connections: set[Owned] = set()
        self._by_host: Counter[str] = Counter()
        """Connections of each address; as many entries as there are connections at most."""
        self.connection_limits: Callable[[], ConnectionLimits] = partial(
            ConnectionLimits, settings.max_connections, settings.max_connections_per_ip
        )
        """How many connections there may be now."""
        self._logging_in: set[Owned] = set()
        """Those on which SASL has not succeeded yet, and some on which it has."""
        self._detached: set[asyncio.Future[Any]] = set()
        """Handlers that run on although their clients are gone; bounded by the budget."""
        self._all_gone = asyncio.Event()
        self._acceptor: Acceptor | None = None
        self._port = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._refused_since_sweep = 0
        self._has_more_to_close = False
        self._reported_since = 0.0
        self._reported = self._unreported = 0
        self._is_sweep_early = False

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    def clients(self) -> list[ConnectedClient]:
        """Who is connected."""
        return [each.client() for each in self._connections]

    @property
    def unsent_bytes(self) -> int:
        """Answers that clients have not taken, of all connections."""
        return self.answers.unsent_bytes

    def use(self, registry: Registry) -> None:
        """Serve with these handlers from now on."""
        self.dispatcher.use(registry)

    async def start(self) -> None:
        """Listen. The port is taken when this returns."""
        loop = asyncio.get_running_loop()
        self._acceptor = Acceptor(lambda: Connection(self, loop), self.settings.tls)
        await self._acceptor.listen(self.settings.host, self.settings.port)
        self._port = self._acceptor.port
        self._schedule_sweep()
        _log.info("%s listens on %s:%d", self.settings.name, self.settings.host, self.port)

    async def stop(self, deadline_s: float = 10.0) -> None:
        """Accept no more, answer what is under way, close. What takes longer is cut off."""
        if self._acceptor is None:
            return
        self._acceptor.close()
        self._acceptor = None
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(deadline_s):
                await self._wait_until_idle()
        except TimeoutError:
            _log.warning(
                "%d connections were cut off: not done after %.0f s",
                len(self._connections),
                deadline_s,
            )
            await self._cut_off()
        self.dispatcher.close()

    async def _wait_until_idle(self) -> None:
        if self._connections:
            self._all_gone.clear()
            await self._all_gone.wait()
        if self._detached:
            await asyncio.wait(self._detached)

    async def _cut_off(self) -> None:
        for connection in list(self._connections):
            connection.abort()
        # The transports tell their connections in the next turn; only then are all handlers here.
        if self._connections:
            self._all_gone.clear()
            await self._all_gone.wait()
        for future in self._detached:
            future.cancel()
        if self._detached:
            await asyncio.wait(self._detached)

    # --- What connections tell (see `owner.Owner`) -------------------------------------------

    def admit(self, connection: Owned) -> bool:
        """Take in a new connection, if there is room."""
        limits = self.connection_limits()
        if (
            len(self._connections) >= limits.total
            or self._by_host[connection.host] >= limits.per_ip
            or not self._has_room(connection)
        ):
            self._refused_since_sweep += 1
            return False
        self._connections.add(connection)
        self._by_host[connection.host] += 1
        return True

    def _has_room(self, connection: Owned) -> bool:
        """Whether one more may log in. Those that have done so no longer count."""
        if not connection.session.is_new:
            return True
        if len(self._logging_in) >= self.settings.max_unauthenticated_connections:
            self._logging_in = {c for c in self._logging_in if c.session.is_new}
            if len(self._logging_in) >= self.settings.max_unauthenticated_connections:
                return False
        self._logging_in.add(connection)
        return True

    def forget(self, connection: Owned, reason: CloseReason) -> None:
        """A connection is gone."""
        self.closed[reason] += 1
        if self._acceptor is not None:  # otherwise it is the server that goes
            for on_lost in tuple(connection.session.on_lost.values()):
                on_lost()
        if connection in self._connections:
            self._connections.discard(connection)
            self._by_host[connection.host] -= 1
            if not self._by_host[connection.host]:
                del self._by_host[connection.host]
        self._logging_in.discard(connection)
        if not self._connections:
            self._all_gone.set()

    def report(self, now: float, host: str, why: str) -> None:
        """Say why a connection is closed, unless so many are that the log would be full of it."""
        if now - self._reported_since >= _REPORT_S:
            if self._unreported:
                _log.info("closed %d more connections for such reasons", self._unreported)
            self._reported_since, self._reported, self._unreported = now, 0, 0
        if self._reported < _REPORTED:
            self._reported += 1
            _log.info("closing the connection of %s: %s", host, why)
        else:
            self._unreported += 1

    def keep(self, future: asyncio.Future[Any]) -> None:
        """Hold a handler that outlives its connection, so that `stop` can wait for it."""
        self._detached.add(future)
        future.add_done_callback(self._detached.discard)

    # --- Deadlines --------------------------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Look at the deadlines of every connection, and close those that have passed one."""
        patience_s = self._patience_s()
        closed = 0
        for connection in list(self._connections):
            closed += connection.sweep(now, patience_s=patience_s)
            if closed >= _CLOSED_A_SWEEP:
                break
        self._has_more_to_close = closed >= _CLOSED_A_SWEEP
        self.budget.let_in()
        if self._refused_since_sweep:
            _log.warning(
                "refused %d connections: %d are open, %d of them before their login, and no more "
                "are allowed",
                self._refused_since_sweep,
                len(self._connections),
                len(self._logging_in),
            )
            self._refused_since_sweep = 0

    def _patience_s(self) -> float:
        """How long a half-received frame may stand still: others wait for its bytes."""
        if self.budget.is_exhausted:
            return self.settings.exhausted_frame_s
        return self.settings.pressed_frame_s if self.budget.is_full else math.inf

    def _sweep_soon(self) -> None:
        """Small requests wait: look whose bytes can be had, as soon as it can help."""
        if self._sweep is not None and not self._is_sweep_early:
            self._sweep.cancel()
            self._is_sweep_early = True
            self._sweep = asyncio.get_running_loop().call_later(_SHORT_SWEEP_S, self._swept)

    def _schedule_sweep(self) -> None:
        loop = asyncio.get_running_loop()
        delay_s = self.settings.sweep_s
        if self._has_more_to_close:
            delay_s = _SHORT_SWEEP_S
        elif self.budget.is_exhausted:
            delay_s = min(delay_s, self.settings.exhausted_frame_s)
        self._sweep = loop.call_later(delay_s, self._swept)

    def _swept(self) -> None:
        self._is_sweep_early = False
        self.sweep(asyncio.get_running_loop().time())
        self._schedule_sweep()


def _call_soon(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)
