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
from goqueue.access.logins import Login, begin_login
from goqueue.model.errors import AuthenticationFailedError
from goqueue.protocols.kafka.context import ANONYMOUS, RequestContext, Session
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.frames import Bare, Response

if TYPE_CHECKING:
    from goqueue.access.users import Users
    from goqueue.protocols.kafka.settings import SaslSettings
    from goqueue.wire.kafka.reading import Struct

FAILED: Final = "Authentication failed: invalid credentials"
"""All that a client is told."""


class _Exchange(msgspec.Struct, frozen=True):
    """What `Session.sasl` holds between a handshake and the end of its login."""

    mechanism: Mechanism
    login: Login


class SaslApi:
    """Lets clients in, on listeners that ask who they are."""

    def __init__(self, users: Users, settings: SaslSettings) -> None:
        self._users = users
        self._settings = settings

    @api(ApiKey.SASL_HANDSHAKE)
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
        session.sasl = _Exchange(mechanism, begin_login(self._users, mechanism))
        session.take_token = self._take_token if ctx.version == 0 else None
        return {"error_code": ErrorCode.none, "mechanisms": enabled}

    def _may_begin(self, session: Session) -> bool:
        """Once a connection; again, where logins expire, by clients that have logged in."""
        if session.sasl is not None:
            return False
        return not session.authenticated or session.expires_at is not None

    @api(ApiKey.SASL_AUTHENTICATE)
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
        lifetime_ms = self._settings.session_lifetime_ms if exchange.login.is_done else 0
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
        session, login = ctx.peer.session, exchange.login
        try:
            answer = await login.step(message)
            if login.is_done:
                self._admit(session, f"User:{login.user}")
        except AuthenticationFailedError as error:
            ctx.peer.refuse(f"{exchange.mechanism}: {error}")
            await asyncio.sleep(self._settings.failure_delay_s)
            raise
        return answer

    def _admit(self, session: Session, principal: str) -> None:
        if session.principal not in {ANONYMOUS, principal}:
            raise AuthenticationFailedError(f"{session.principal} logged in again as {principal}")
        lifetime_ms = self._settings.session_lifetime_ms
        now = asyncio.get_running_loop().time()
        session.authenticate(principal, now + lifetime_ms / 1000 if lifetime_ms else None)


def _refusal(code: ErrorCode, text: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": text, "auth_bytes": b""}
