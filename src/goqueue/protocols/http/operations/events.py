"""What happens, as it happens: server-sent events for pages that show this node.

All streams share one look at the node, taken while anybody listens. What a client has not taken
yet is a set of names, not a queue: however slow it is, it costs one overview and a few words.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from goqueue.access.principals import PrincipalKind
from goqueue.protocols.http.api.errors import FieldError, OverloadedError
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Stream
from goqueue.protocols.http.api.rights import CLUSTER_DESCRIBE, within
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.operations.changes import LISTS, look_at
from goqueue.protocols.permissions import UNRESTRICTED, Permissions
from goqueue.quotas.tenant_places import check_share

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from goqueue.access.principals import Principal
    from goqueue.broker.broker import Broker
    from goqueue.protocols.http.operations.overview import OverviewSource

_log = logging.getLogger(__name__)

_TAG: Final = "overview"
OVERVIEW: Final = "overview"
_TYPE: Final = "text/event-stream; charset=utf-8"
_HEADERS: Final = (("cache-control", "no-store"), ("x-accel-buffering", "no"))
"""Neither a browser nor a proxy shall keep any of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """Intervals and limits of event streams."""

    look_s: float = 2.0
    """Between two overviews, and between two looks for changes."""
    alive_s: float = 15.0
    """Silence after which a comment shows that the connection lives."""
    max_streams: int = 100
    """One more is answered with 503."""
    max_streams_each: int = 10
    """Of one principal; one more is answered with 503, so that it leaves some to others."""
    tenant_looks: int = 5
    """After so many looks clients of tenants are told to look again, whatever has changed."""
    retry_ms: int = 2000
    """How long a browser waits before it connects again."""


class _Listener:
    """One stream, and what its client has not been told yet."""

    def __init__(self, wanted: frozenset[str], untold: Iterable[str], principal: Principal) -> None:
        self.wanted = wanted
        self.principal = principal
        self._untold = dict.fromkeys(each for each in untold if each in wanted)
        self.woken = asyncio.Event()
        if self._untold:
            self.woken.set()

    def notify(self, names: Iterable[str]) -> None:
        """Have these told, each once however often it happened."""
        mine = [each for each in names if each in self.wanted]
        if mine:
            self._untold.update(dict.fromkeys(mine))
            self.woken.set()

    def take(self) -> list[str]:
        """What is to be told now."""
        names = list(self._untold)
        self._untold.clear()
        self.woken.clear()
        return names


class EventHub:
    """Every stream of one node, and the one look that they share."""

    def __init__(
        self, broker: Broker, overview: OverviewSource, settings: EventSettings | None = None
    ) -> None:
        self._broker = broker
        self._overview = overview
        self.settings = settings or EventSettings()
        self._listeners: set[_Listener] = set()
        self._seen: dict[str, object] = {}
        self._own: dict[str, object] = {}
        """What was seen on this node."""
        self._looking: asyncio.Task[None] | None = None
        self._number = 0
        self._looks = 0

    def check_room(self, may: Permissions = UNRESTRICTED) -> None:
        """Refuse one stream too many, of all, of the client or of its tenant.

        Raises:
            OverloadedError: there are as many as there may be.
            TenantShareExceededError: its tenant has half of all.
        """
        limit = self.settings.max_streams
        if len(self._listeners) >= limit:
            raise OverloadedError(
                f"{limit} event streams are open, which is the limit: retry later"
            )
        principal, each = may.principal, self.settings.max_streams_each
        if principal.kind is PrincipalKind.ANONYMOUS:
            return
        if sum(listener.principal == principal for listener in self._listeners) >= each:
            raise OverloadedError(
                f"{each} event streams of {principal.label} are open, which is the limit: close one"
            )
        if (tenant := principal.tenant) is not None:
            taken = sum(listener.principal.tenant == tenant for listener in self._listeners)
            check_share(tenant, taken, limit, "event streams")

    async def parts(
        self, wanted: frozenset[str], *, again: bool, may: Permissions = UNRESTRICTED
    ) -> AsyncGenerator[bytes]:
        """The events of one stream; a client that reconnects may have missed any change.

        The overview is left out from the moment on at which the client may not see it any more. The
        stream ends when the login of its client no longer counts.
        """
        listener = _Listener(wanted, wanted if again else [OVERVIEW], may.principal)
        self._open(listener)
        try:
            yield b"retry: %d\n\n" % self.settings.retry_ms
            while True:
                try:
                    async with asyncio.timeout(self.settings.alive_s):
                        await listener.woken.wait()
                except TimeoutError:
                    if may.is_over:
                        return
                    yield b": nothing new\n\n"
                    continue
                if may.is_over:
                    return
                told = [
                    name
                    for name in listener.take()
                    if name != OVERVIEW or may.allows(CLUSTER_DESCRIBE)
                ]
                if told:
                    yield b"".join([await self._event(name) for name in told])
        finally:
            self._close(listener)

    async def _event(self, name: str) -> bytes:
        self._number += 1
        if name == OVERVIEW:
            data = await self._overview.read()
        else:
            data = b'{"kind":"%b"}' % LISTS[name][0].encode()
        event = b"overview" if name == OVERVIEW else b"changed"
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (self._number, event, data)

    def _open(self, listener: _Listener) -> None:
        self._listeners.add(listener)
        if self._looking is None:
            self._seen = self._look()
            self._looking = asyncio.create_task(self._keep_looking(), name="events")

    def _close(self, listener: _Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self.settings.look_s)
            try:
                await self._overview.look_elsewhere()
                self._notify_changes()
            except Exception:  # noqa: BLE001 - streams go on, whatever one look has met
                _log.exception("the overview could not be refreshed, retrying")

    def _notify_changes(self) -> None:
        seen = self._look()
        changed = [name for name in LISTS if seen[name] != self._seen[name]]
        self._seen = seen
        self._looks += 1
        for listener in self._listeners:
            if listener.principal.tenant is None:
                listener.notify([*changed, OVERVIEW])
            elif self._looks % self.settings.tenant_looks == 0:
                # Whether something has changed would tell of what other tenants do.
                listener.notify(LISTS)

    def _look(self) -> dict[str, object]:
        """What every list looks like here, and what other nodes say of theirs."""
        self._own = look_at(self._broker, self._own)
        elsewhere = self._overview.elsewhere
        return {name: (own, elsewhere.get(name)) for name, own in self._own.items()}


class EventQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which events to send."""

    topics: Annotated[
        str | None,
        doc(
            f"Some of {OVERVIEW}, {', '.join(LISTS)}, with commas between them; all if left out.",
            "overview,groups",
        ),
    ] = None


class EventRoutes:
    """Events."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub

    @route(
        "GET",
        "/events",
        right=within(
            CLUSTER_DESCRIBE, note="for the overview; that a list has changed is told to all"
        ),
        tag=_TAG,
        polls=True,
        answers={200: "text/event-stream"},
        place=LOCAL,
    )
    async def events(self, query: EventQuery, request: Request, may: Permissions) -> Stream:
        """Stream server-sent events until the client disconnects.

        `overview` has the response of `GET /overview`, every two seconds; `changed` has a `kind`,
        such as `topic` or `group`, when a list of these has changed. Clients of a tenant get it
        every ten seconds, whether or not something has changed. The stream ends with the session,
        the token, the key or the password that it was opened with.
        """
        wanted = _wanted(query.topics)
        if not may.allows(CLUSTER_DESCRIBE):
            wanted -= {OVERVIEW}
        self._hub.check_room(may)
        again = b"last-event-id" in request.headers
        return Stream(self._hub.parts(wanted, again=again, may=may), _TYPE, _HEADERS)


def _wanted(topics: str | None) -> frozenset[str]:
    every = {OVERVIEW, *LISTS}
    if topics is None:
        return frozenset(every)
    wanted = frozenset(each.strip() for each in topics.split(",") if each.strip())
    if not wanted or not wanted <= every:
        raise FieldError(
            "topics names an unknown kind of event",
            field="topics",
            location="query",
            expected=f"some of {', '.join(sorted(every))}",
        )
    return wanted
