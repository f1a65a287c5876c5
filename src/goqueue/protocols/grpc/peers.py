"""Who is at the other end of gRPC connections: address, certificate's subject, and their calls."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.connected import ConnectedClient, shown_name
from goqueue.protocols.grpc.errors import TooManyWatchersError
from goqueue.protocols.grpc.limits import MAX_WATCHERS, MAX_WATCHERS_EACH
from goqueue.quotas.tenant_places import TenantPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grpc import aio

    from goqueue.protocols.permissions import Permissions

_SUBJECT: Final = "x509_subject"
"""Where gRPC puts the subject of a certificate that it has verified, as of RFC 2253."""
_MAX_CALLERS: Final = 1000
"""Connections that are remembered; of more, the one whose last call is the oldest is forgotten."""
_IDLE_S: Final = 60.0
"""A connection without a call for so long is no longer shown."""
_BYTES: Final = re.compile(r"(?:\\[0-9A-F]{2})+")
"""Bytes of a text that is not ASCII, which gRPC's TLS library writes as numbers."""


def host_of(peer: str) -> str:
    """The address in what gRPC calls a peer: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    kind, _, rest = peer.partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return "local"
    host = rest.rpartition(":")[0]
    return host.replace("%5B", "").replace("%5D", "").strip("[]")


def subject_of(context: aio.ServicerContext[Any, Any]) -> str | None:
    """The subject of the client's certificate, as the other listeners write it; None: it has none.

    gRPC asks clients for certificates only where they are required (`tls.client_auth`).
    """
    for found in context.auth_context().get(_SUBJECT, ()):
        return readable(found.decode("latin-1"))
    return None


def readable(subject: str) -> str:
    """A subject whose letters beyond ASCII are letters again."""
    return _BYTES.sub(_decoded, subject)


def _decoded(found: re.Match[str]) -> str:
    data = bytes.fromhex(found[0].replace("\\", ""))
    try:
        return data.decode()
    except UnicodeDecodeError:
        return found[0]


class Caller:
    """One connection, by its calls."""

    __slots__ = ("agent", "last_s", "may", "open_calls", "since_s")

    def __init__(self, now_s: float) -> None:
        self.may: Permissions | None = None
        self.agent: str | None = None
        self.since_s = self.last_s = now_s
        self.open_calls = 0


class Callers:
    """The connections with the most recent calls; gRPC tells of calls alone."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._callers: OrderedDict[str, Caller] = OrderedDict()

    def begin(self, peer: str, may: Permissions, agent: str | bytes | None) -> Caller:
        """Note that a call has begun; `end` takes what this returns."""
        caller = self._callers.get(peer)
        if caller is None:
            caller = self._callers[peer] = Caller(self._now_s())
            if len(self._callers) > _MAX_CALLERS:
                self._callers.popitem(last=False)
        self._callers.move_to_end(peer)
        caller.may = may
        caller.agent = shown_name(agent)
        caller.open_calls += 1
        return caller

    def end(self, caller: Caller) -> None:
        """Note that a call has ended."""
        caller.open_calls -= 1
        caller.last_s = self._now_s()

    def clients(self) -> list[ConnectedClient]:
        """Those with a call under way, or one in the last minute."""
        now_s = self._now_s()
        for peer, caller in list(self._callers.items()):
            if not caller.open_calls and now_s - caller.last_s > _IDLE_S:
                del self._callers[peer]
        return [
            ConnectedClient(
                protocol="grpc",
                listener="gRPC",
                address=peer.partition(":")[2],
                principal="" if caller.may is None else caller.may.principal.label,
                client_id=None,
                software=caller.agent,
                age_s=now_s - caller.since_s,
            )
            for peer, caller in self._callers.items()
        ]


class TenantCalls:
    """What each tenant has of the calls of a node, and of the connections that carry them.

    gRPC tells of calls alone: a connection without one is of no tenant, and is not counted.
    """

    def __init__(self, max_calls: int, max_connections: int) -> None:
        self._calls = TenantPlaces(max_calls, "gRPC calls under way")
        self._connections = TenantPlaces(max_connections, "gRPC connections with calls under way")
        self._by_connection: Counter[tuple[str, str]] = Counter()

    def begin(self, tenant: str, peer: str) -> None:
        """Count a call. Raises `TenantShareExceededError` instead where it is one too many."""
        connection = tenant, peer
        is_first = not self._by_connection[connection]
        with ExitStack() as undo:
            if is_first:
                self._connections.take(tenant)
                undo.callback(self._connections.give_back, tenant)
            self._calls.take(tenant)
            undo.pop_all()
        self._by_connection[connection] += 1

    def end(self, tenant: str, peer: str) -> None:
        """A call has ended."""
        connection = tenant, peer
        self._calls.give_back(tenant)
        self._by_connection[connection] -= 1
        if not self._by_connection[connection]:
            del self._by_connection[connection]
            self._connections.give_back(tenant)


class Watchers:
    """Streams that need no login, by address: those who watch health, and reflection.

    They are counted, so that strangers leave room for the calls of clients.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @contextmanager
    def place(self, host: str) -> Iterator[None]:
        """A place for one stream from an address, while the block runs.

        Raises:
            TooManyWatchersError: there are as many as there may be.
        """
        if self._counts.total() >= MAX_WATCHERS or self._counts[host] >= MAX_WATCHERS_EACH:
            raise TooManyWatchersError(
                f"{MAX_WATCHERS_EACH} streams of health or reflection are open from an address, or "
                f"{MAX_WATCHERS} in all, which is the limit: ask with Check, or close others"
            )
        self._counts[host] += 1
        try:
            yield
        finally:
            self._counts[host] -= 1
            if not self._counts[host]:
                del self._counts[host]
