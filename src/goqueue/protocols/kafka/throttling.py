"""Making Kafka clients wait that have taken more than their quotas, as Kafka does (KIP-219).

The answer is sent at once and says for how long its client has to wait (`throttle_time_ms`); for
that long nothing is read from its connection. What is owed is owed by the client, not by the
connection: a request does not begin before, on whichever connection it comes.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from goqueue.model.errors import QuotaExceededError
from goqueue.protocols.kafka.context import in_ms
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator

    from goqueue.protocols.kafka.context import Peer, Session
    from goqueue.quotas.client_meter import ClientMeter
    from goqueue.quotas.service import Quotas


T = TypeVar("T")

_CONNECTION: Final = "connection of a tenant"
"""What connections that are counted for a tenant have in `Session.on_lost`."""


class Throttling:
    """The quotas of the clients of one registry. Other nodes are not held to any."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas

    @property
    def is_on(self) -> bool:
        """Whether anything is limited: nothing below need be asked otherwise."""
        return self._quotas.is_active

    def meter(self, session: Session) -> ClientMeter | None:
        """What the client of a connection takes from; None where nothing is limited."""
        version = self._quotas.version
        if session.meter_version != version:
            session.meter_version = version
            session.meter = None
            if session.node is None:
                session.meter = self._quotas.meter(session.principal, session.client_id)
        return session.meter

    def connected(self, peer: Peer) -> bool:
        """Count the connection of a tenant's client, once; one too many is closed instead."""
        meter = self.meter(peer.session)
        if meter is None or meter.tenant is None or _CONNECTION in peer.session.on_lost:
            return True
        try:
            meter.tenant.connected()
        except QuotaExceededError as error:
            peer.refuse(str(error))
            return False
        peer.session.on_lost[_CONNECTION] = meter.tenant.disconnected
        return True

    def admits(self, peer: Peer, api_key: int) -> bool:
        """Whether a request may begin; its connection is muted or closed where it may not.

        What the client has taken on other connections, and before this one, counts as well. Logins
        are not held up: clients without one share a name, and would hold up each other.
        """
        session = peer.session
        if not session.authenticated:
            return True
        meter = self.meter(session)
        if meter is None:
            return True
        if not self.connected(peer):
            return False
        wait_s = meter.request_wait_s()
        if api_key == ApiKey.PRODUCE:
            wait_s = max(wait_s, meter.produce_wait_s())
        if wait_s <= 0:
            return True
        peer.throttle(wait_s)
        return False

    def requested(self, peer: Peer) -> float:
        """A request was made; returns for how long its client has to wait, in s."""
        meter = self.meter(peer.session) if peer.session.authenticated else None
        return 0.0 if meter is None else meter.requested()

    def produced(self, peer: Peer, size_bytes: int, wait_s: float) -> int:
        """A request was served straight that stored so much; mutes its connection.

        `wait_s` is what the tenants of its topics ask for. Returns what the answer tells, in ms.
        """
        meter = self.meter(peer.session)
        if meter is not None:
            wait_s = max(wait_s, meter.requested(), meter.produced(size_bytes))
        if wait_s <= 0:
            return 0
        peer.throttle(wait_s)
        return in_ms(wait_s)

    def timed(self, peer: Peer) -> BusyTime | None:
        """Measures the time that requests of a client take, where that is limited."""
        meter = self.meter(peer.session) if peer.session.authenticated else None
        return None if meter is None or meter.busy_s is None else BusyTime(peer, meter)


class BusyTime:
    """Counts the time of the event loop that is spent within it (`request_percentage`)."""

    __slots__ = ("_meter", "_peer", "_started_s")

    def __init__(self, peer: Peer, meter: ClientMeter) -> None:
        self._peer = peer
        self._meter = meter
        self._started_s = 0.0

    def __enter__(self) -> None:
        self._started_s = perf_counter()

    def __exit__(self, *_: object) -> None:
        wait_s = self._meter.was_busy(perf_counter() - self._started_s)
        if wait_s > 0:
            self._peer.throttle(wait_s)

    def of(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """The same coroutine, whose steps are counted."""
        return _Timed(self, work)


class _Timed(Generic[T]):
    def __init__(self, busy: BusyTime, work: Coroutine[Any, Any, T]) -> None:
        self._busy = busy
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        error: BaseException | None = None
        value: Any = None
        while True:
            try:
                with self._busy:
                    work = self._work
                    waited_for = work.send(value) if error is None else work.throw(error)
            except StopIteration as end:
                return cast("T", end.value)
            value = error = None
            try:
                value = yield waited_for
            except BaseException as thrown:  # noqa: BLE001 - whoever waits decides what it means
                error = thrown
