"""Logging in: SaslHandshake chooses the mechanism, SaslAuthenticate carries its messages.

After SaslHandshake 0 the messages are whole frames without a header (`Session.take_token`), which
is how clients of before Kafka 1.0 log in.

A login that fails is answered with one text, whatever was wrong, and ends its connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.access.keys import Mechanism
from goqueue.access.logins import LoginAttempt, begin_login
from goqueue.access.principals import ANONYMOUS, PrincipalKind
from goqueue.audit.events import Event, Outcome
from goqueue.model.errors import AuthenticationFailedError
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.protocols.kafka.throttling import Throttling
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.frames import Bare, Response

if TYPE_CHECKING:
    from goqueue.access.principals import Login
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Session
    from goqueue.protocols.kafka.settings import SaslSettings
    from goqueue.wire.kafka.reading import Struct

FAILED: Final = "Authentication failed: invalid credentials"
"""All that a client is told."""


class _Exchange(msgspec.Struct, frozen=True):
    """What `Session.sasl` holds between a handshake and the end of its login."""

    mechanism: Mechanism
    attempt: LoginAttempt


class SaslApi:
    """Lets clients in, on listeners that ask who they are."""

    def __init__(self, broker: Broker, settings: SaslSettings) -> None:
        self._users = broker.users
        self._authenticator = broker.authenticator
        self._audit = broker.audit
        self._clock = broker.clock
        self._settings = settings
        self._throttling = Throttling(broker.quotas)

    @api(ApiKey.SASL_HANDSHAKE, right=ANYONE)
    def handshake(self, ctx: RequestContext, request: Struct) -> Response:
        """Agree on the mechanism; one that is not enabled is answered with those that are."""
        session = ctx.peer.session
        if not self._may_begin(session):
            if not session.authenticated:
                ctx.peer.refuse("a second handshake during a login")
            return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []}
        enabled = [mechanism.value for mechanism in self._settings.mechanisms]
        if request.mechanism not in enabled:
            ctx.peer.refuse(f"mechanism {request.mechanism[:40]!r} is not enabled")
            return {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": enabled}
        mechanism = Mechanism(request.mechanism)
        attempt = begin_login(self._users, self._authenticator, mechanism, ctx.client_host)
        session.sasl = _Exchange(mechanism, attempt)
        session.take_token = self._take_token if ctx.version == 0 else None
        return {"error_code": ErrorCode.none, "mechanisms": enabled}

    def _may_begin(self, session: Session) -> bool:
        """Once a connection; again, where logins expire, by clients that have logged in."""
        if session.sasl is not None:
            return False
        has_logged_in = session.authenticated and not _has_only_certificate(session)
        return not has_logged_in or session.expires_at is not None

    @api(ApiKey.SASL_AUTHENTICATE, right=ANYONE)
    async def authenticate(self, ctx: RequestContext, request: Struct) -> Response:
        """One message of the mechanism in, one out."""
        session = ctx.peer.session
        exchange = session.sasl
        if not isinstance(exchange, _Exchange):
            if not session.authenticated:
                ctx.peer.refuse("SaslAuthenticate without a handshake before it")
            return _refusal(ErrorCode.illegal_sasl_state, "SaslHandshake must come first")
        try:
            answer = await self._step(ctx, exchange, bytes(request.auth_bytes))
        except AuthenticationFailedError:
            return _refusal(ErrorCode.sasl_authentication_failed, FAILED)
        login = exchange.attempt.login
        lifetime_ms = 0 if login is None else self._lifetime_ms(login)
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "auth_bytes": answer,
            "session_lifetime_ms": lifetime_ms,
        }

    async def _take_token(self, ctx: RequestContext, token: bytes) -> Response | None:
        """The same for a bare token. There is no way to say that it failed but to hang up."""
        exchange = ctx.peer.session.sasl
        assert isinstance(exchange, _Exchange)
        try:
            return Bare(await self._step(ctx, exchange, token))
        except AuthenticationFailedError:
            return None

    async def _step(self, ctx: RequestContext, exchange: _Exchange, message: bytes) -> bytes:
        try:
            answer = await exchange.attempt.step(message)
            login = exchange.attempt.login
            if login is not None:
                self._admit(ctx.peer.session, login)
                if self._throttling.is_on:
                    self._throttling.connected(ctx.peer)
                self._record(ctx, exchange, Event.AUTH_SUCCESS)
        except AuthenticationFailedError as error:
            ctx.peer.refuse(f"{exchange.mechanism}: {error}")
            event = Event.AUTH_EXPIRED if error.is_expired else Event.AUTH_FAILURE
            self._record(ctx, exchange, event, reason=str(error))
            await asyncio.sleep(self._settings.failure_delay_s)
            raise
        return answer

    def _record(
        self, ctx: RequestContext, exchange: _Exchange, event: Event, **details: str
    ) -> None:
        user = exchange.attempt.user
        self._audit.record(
            event,
            principal=f"User:{user}" if user else ANONYMOUS.label,
            host=ctx.client_host,
            resource=f"listener:{ctx.listener_name}",
            outcome=Outcome.SUCCESS if event is Event.AUTH_SUCCESS else Outcome.FAILURE,
            request_id=str(ctx.correlation_id),
            mechanism=exchange.mechanism.value,
            client_id=ctx.client_id,
            **details,
        )

    def _admit(self, session: Session, login: Login) -> None:
        principal = login.principal
        is_first = session.principal == ANONYMOUS or _has_only_certificate(session)
        if not is_first and session.principal.label != principal.label:
            raise AuthenticationFailedError(
                f"{session.principal.label} logged in again as {principal.label}"
            )
        lifetime_ms = self._lifetime_ms(login)
        now = asyncio.get_running_loop().time()
        session.authenticate(principal, now + lifetime_ms / 1000 if lifetime_ms else None)

    def _lifetime_ms(self, login: Login) -> int:
        """How long a login counts: as the settings say, and no longer than its credential."""
        lifetime_ms = self._settings.session_lifetime_ms
        if login.expires_ms is None:
            return lifetime_ms
        left_ms = max(1, login.expires_ms - self._clock.now_ms())
        return min(lifetime_ms, left_ms) if lifetime_ms else left_ms


def _has_only_certificate(session: Session) -> bool:
    """Whether the client is known by its certificate; a login counts in its place."""
    return session.principal.kind is PrincipalKind.CERTIFICATE


def _refusal(code: ErrorCode, text: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": text, "auth_bytes": b""}
