"""Who a call comes from: by its metadata, its certificate, or as another node says."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.access.authenticator import EXPIRED
from goqueue.access.principals import ANONYMOUS, Login, PrincipalKind
from goqueue.model.errors import AuthenticationFailedError, AuthorizationFailedError
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.grpc.audited import CallTrail
from goqueue.protocols.grpc.limits import MAX_CALLS, MAX_CONNECTIONS
from goqueue.protocols.grpc.peers import (
    Caller,
    Callers,
    TenantCalls,
    Watchers,
    host_of,
    subject_of,
)
from goqueue.protocols.grpc.rights import HEALTH, TOPIC_READ, TOPIC_WRITE
from goqueue.protocols.logins import FAILED, MISSING, Logins, credential_of
from goqueue.protocols.permissions import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpc import aio

    from goqueue.access.principals import Principal
    from goqueue.broker.log_broker import LogBroker
    from goqueue.protocols.grpc.audited import Call
    from goqueue.protocols.grpc.rights import Needs

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.5
"""How often streams are held to rules and quotas that have changed."""


class Gate:
    """Tells what the clients of calls may do, and ends streams that may not go on."""

    def __init__(
        self,
        broker: LogBroker,
        max_calls: int = MAX_CALLS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._authorizer = broker.authorizer
        self._quotas = broker.quotas
        self._authenticator = broker.authenticator
        self._logins = Logins(
            broker.authenticator,
            broker.authorizer,
            broker.clock.monotonic_s,
            broker.access_trail,
            "grpc",
        )
        self._allow_health = broker.settings.access.allow_health
        self.watchers = Watchers()
        self.trail = CallTrail(broker.audit)
        self.callers = Callers(broker.clock.monotonic_s)
        self._tenant_calls = TenantCalls(max_calls, max_connections)
        self.streams = GuardedStreams(lambda: self._authorizer.version)

    async def admit(self, call: Call, right: Needs) -> Permissions:
        """What the client of a call may do.

        Raises:
            AuthenticationFailedError: the credentials are wrong, or missing and needed.
        """
        context = call.context
        host = host_of(context.peer())
        carried: Principal | None = getattr(context, "principal", None)
        if carried is None:
            call.login = await self._who(context, host, right)
            carried = call.login.principal
        return Permissions(self._authorizer, carried, host)

    def hold(self, call: Call) -> asyncio.TimerHandle | None:
        """End the stream of a call when the login of its client no longer counts.

        Returns what ends it when a token expires, to be cancelled with the stream. The node that
        the client has called does that, also for what another node answers.
        """
        login, task = call.login, asyncio.current_task()
        if login is None or task is None or self._authorizer.is_open:
            return None
        self.streams.add(task, partial(self._authenticator.require, login))
        left_s = self._authenticator.left_s(login)
        if left_s is None or login.principal.kind is not PrincipalKind.TOKEN:
            return None
        expired = AuthenticationFailedError.expired(EXPIRED)
        return asyncio.get_running_loop().call_later(left_s, self.streams.end, task, expired)

    async def admit_stranger(self, context: aio.ServicerContext[Any, Any]) -> None:
        """Let a call of gRPC's own services through, which are told as health is.

        Raises:
            AuthenticationFailedError: the credentials are wrong, or missing and needed.
        """
        await self._who(context, host_of(context.peer()), HEALTH)

    def begin_call(self, context: aio.ServicerContext[Any, Any], may: Permissions) -> Caller | None:
        """Note who calls; None for a call that another node has forwarded.

        Raises:
            TenantShareExceededError: the client's tenant has as many calls as it may.
        """
        if getattr(context, "principal", None) is not None:
            return None
        if (tenant := may.principal.tenant) is not None:
            self._tenant_calls.begin(tenant, context.peer())
        agent = dict(context.invocation_metadata() or ()).get("user-agent")
        return self.callers.begin(context.peer(), may, agent)

    def end_call(
        self, context: aio.ServicerContext[Any, Any], may: Permissions, begun: Caller | None
    ) -> None:
        """Note that a call has ended, with what `begin_call` has returned."""
        if begun is None:
            return
        self.callers.end(begun)
        if (tenant := may.principal.tenant) is not None:
            self._tenant_calls.end(tenant, context.peer())

    def charge(
        self, context: aio.ServicerContext[Any, Any], may: Permissions, right: Needs, size: int
    ) -> None:
        """Count a request of so many bytes, unless another node has done that.

        Raises:
            RateLimitedError: there were too many, or too large ones.
        """
        if not self._quotas.is_active or getattr(context, "principal", None) is not None:
            return
        meter = self._quotas.meter(may.principal)
        if meter is not None:
            written = size if TOPIC_WRITE in right.rights else 0
            meter.admit_request(size_bytes=written, is_read=TOPIC_READ in right.rights)

    async def pace(self, may: Permissions, size: int) -> None:
        """Count what a stream sends to its client; returns when it may send it."""
        if not self._quotas.is_active:
            return
        meter = self._quotas.meter(may.principal)
        while meter is not None and (wait_s := meter.fetch_wait_s()) > 0:
            await asyncio.sleep(min(wait_s, _LOOK_S))
            meter = self._quotas.meter(may.principal)
        if meter is not None:
            meter.fetched(size)

    async def _who(self, context: aio.ServicerContext[Any, Any], host: str, right: Needs) -> Login:
        metadata = dict(context.invocation_metadata() or ())
        authorization, key = metadata.get("authorization"), metadata.get("x-api-key")
        if authorization is None and key is None:
            certified = self._certified(context)
            if certified is not None:
                self._logins.logged_in(certified, host, "certificate")
                return Login(certified)
            if self._logins.is_required and not (right is HEALTH and self._allow_health):
                raise AuthenticationFailedError(MISSING)
            return Login(ANONYMOUS)
        try:
            credential = credential_of(_text(authorization), _text(key))
            assert credential is not None  # one of the two is there
            return await self._logins.login(credential, host)
        except AuthenticationFailedError as error:
            _log.warning("gRPC client %s: %s", host, error)
            raise error.told(FAILED) from None

    def _certified(self, context: aio.ServicerContext[Any, Any]) -> Principal | None:
        """Who the client is by its certificate, which TLS has verified."""
        if not self._logins.is_required:
            return None
        subject = subject_of(context)
        return None if subject is None else self._authenticator.certificate(subject)


def _text(value: str | bytes | None) -> str | None:
    return value.decode("latin-1") if isinstance(value, bytes) else value


_Refusal: TypeAlias = AuthenticationFailedError | AuthorizationFailedError


class _Guarded(NamedTuple):
    task: asyncio.Task[Any]
    check: Callable[[], None]


class GuardedStreams:
    """Streams under way, whose clients may lose a right or their login before they end."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version
        self._streams: dict[_Guarded, None] = {}
        """As many as there are streams, which the listener bounds."""
        self._refused: dict[asyncio.Task[Any], _Refusal] = {}
        self._looking: asyncio.Task[None] | None = None

    def add(self, task: asyncio.Task[Any] | None, check: Callable[[], None]) -> None:
        """End the task of a stream when `check` raises, after rules have changed."""
        assert task is not None  # streams are answered by tasks
        guarded = _Guarded(task, check)
        self._streams[guarded] = None
        task.add_done_callback(lambda _: self._streams.pop(guarded, None))
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="rights of streams")

    def end(self, task: asyncio.Task[Any], error: _Refusal) -> None:
        """End the task of a stream, once."""
        if task not in self._refused and not task.done():
            self._refused[task] = error
            task.add_done_callback(lambda _: self._refused.pop(task, None))
            task.cancel()

    def refusal(self) -> _Refusal | None:
        """Why the caller's task was cancelled, if it was for a right or its login."""
        task = asyncio.current_task()
        return None if task is None else self._refused.pop(task, None)

    async def _look(self) -> None:
        seen = self._version()
        while self._streams:
            await asyncio.sleep(_LOOK_S)
            if seen == self._version():
                continue
            seen = self._version()
            for task, check in tuple(self._streams):
                try:
                    check()
                except (AuthenticationFailedError, AuthorizationFailedError) as error:
                    self.end(task, error)
