"""Signing in at an OIDC provider: the authorization code flow with PKCE (RFC 7636).

A browser is sent to the provider with a state, and comes back with that state and a code. The code
is exchanged for an ID token, whose signature, issuer, audience, times and nonce are checked. A
state counts once, for ten minutes, and only in the browser that began.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import urllib.parse
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.oidc.provider import discovered, exchange
from goqueue.access.oidc.tokens import OidcTokens
from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from goqueue.access.principals import Login
    from goqueue.access.settings import OidcSettings
    from goqueue.runtime.clock import Clock

SIGN_IN_S: Final = 600.0
"""How long somebody may take at the provider."""
_MAX_PENDING: Final = 1000
"""Sign-ins under way; at the bound the oldest one has to begin anew."""
_SCOPES: Final = "openid profile email"


class _Pending(NamedTuple):
    browser: str
    verifier: str
    nonce: str
    redirect_url: str
    expires_s: float


class Begun(NamedTuple):
    """A sign-in that has begun."""

    url: str
    """Where the browser goes."""
    state: str
    browser: str
    """What the browser keeps in a cookie, to show that it is the same."""


class OidcSignIn:
    """The sign-ins of one node that are under way."""

    def __init__(self, settings: OidcSettings, executor: Executor, clock: Clock) -> None:
        self._settings = settings
        self._executor = executor
        self._clock = clock
        self._tokens = OidcTokens(settings, executor, clock)
        self._pending: dict[str, _Pending] = {}

    async def begin(self, redirect_url: str) -> Begun:
        """Note a sign-in that comes back to `redirect_url`.

        Raises:
            AuthenticationFailedError: the provider cannot be asked where its sign-in page is.
        """
        loop = asyncio.get_running_loop()
        provider = await loop.run_in_executor(self._executor, discovered, self._settings.issuer)
        verifier, state, nonce, browser = (secrets.token_urlsafe(32) for _ in range(4))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id or "",
            "redirect_uri": redirect_url,
            "scope": _SCOPES,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        now_s = self._clock.monotonic_s()
        self._make_room(now_s)
        self._pending[state] = _Pending(browser, verifier, nonce, redirect_url, now_s + SIGN_IN_S)
        joint = "&" if "?" in provider.authorization_url else "?"
        url = provider.authorization_url + joint + urllib.parse.urlencode(query)
        return Begun(url, state, browser)

    def _make_room(self, now_s: float) -> None:
        for state, each in list(self._pending.items()):
            if each.expires_s > now_s and len(self._pending) < _MAX_PENDING:
                break  # the others began later
            del self._pending[state]

    async def finish(self, state: str, browser: str, code: str, problem: str = "") -> Login:
        """Who has signed in.

        Raises:
            AuthenticationFailedError: the state is not that of this browser, or has expired, or
                the provider does not vouch for anybody.
        """
        pending = self._pending.pop(state, None)
        if problem:
            raise AuthenticationFailedError(f"the OIDC provider says {problem!r}")
        if pending is None or pending.expires_s <= self._clock.monotonic_s():
            raise AuthenticationFailedError("a sign-in that nobody began, or too long ago")
        if not hmac.compare_digest(pending.browser.encode(), browser.encode()):
            raise AuthenticationFailedError("a sign-in that another browser began")
        loop = asyncio.get_running_loop()
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_url,
            "client_id": settings.client_id or "",
            "code_verifier": pending.verifier,
        }
        try:
            token = await loop.run_in_executor(self._executor, exchange, settings, form)
        except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
            raise AuthenticationFailedError(
                f"the OIDC provider gave no ID token: {type(error).__name__}: {error}"
            ) from error
        return await self._tokens.check_id_token(token, pending.nonce)
