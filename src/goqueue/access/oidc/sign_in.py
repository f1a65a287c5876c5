"""Signing in at an OIDC provider: the authorization code flow with PKCE (RFC 7636).

A browser is sent to the provider with a state, and comes back with that state and a code, to any
node of the cluster. The code is exchanged for an ID token, whose signature, issuer, audience, times
and nonce are checked. A state counts for ten minutes, and only in the browser that began; its code
counts once. Nothing is kept meanwhile: the state is signed, and the secrets of a sign-in are
derived from it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import urllib.parse
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.oidc.fetched import Fetched
from goqueue.access.oidc.provider import ProviderUrls, discovered, exchange
from goqueue.model.errors import AuthenticationFailedError, ProviderBusyError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.access.oidc.tokens import OidcTokens
    from goqueue.access.principals import Login
    from goqueue.access.settings import OidcSettings
    from goqueue.runtime.clock import Clock

SIGN_IN_S: Final = 600.0
"""How long somebody may take at the provider."""
_SCOPES: Final = "openid profile email"


class Begun(NamedTuple):
    """A sign-in that has begun."""

    url: str
    """Where the browser goes."""
    browser: str
    """What the browser keeps in a cookie, to show that it is the same."""


class OidcSignIn:
    """Sign-ins at all nodes that have the same key."""

    def __init__(
        self, settings: OidcSettings, key: bytes, tokens: OidcTokens, clock: Clock
    ) -> None:
        self._settings = settings
        self._key = key
        self._clock = clock
        self._tokens = tokens
        discover = partial(discovered, settings.issuer)
        self._urls = Fetched("the configuration", discover, tokens.threads, clock)

    async def begin(self, redirect_url: str) -> Begun:
        """Begin a sign-in that comes back to `redirect_url`.

        Raises:
            AuthenticationFailedError: the provider cannot be asked where its sign-in page is.
            ProviderBusyError: too much waits for it already.
        """
        provider = await self._provider()
        browser = secrets.token_urlsafe(32)
        said = f"{self._clock.now_ms() + round(SIGN_IN_S * 1000)}.{secrets.token_urlsafe(16)}"
        state = f"{said}.{self._derived('state', said, browser, redirect_url)}"
        verifier = self._derived("verifier", state)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id or "",
            "redirect_uri": redirect_url,
            "scope": _SCOPES,
            "state": state,
            "nonce": self._derived("nonce", state),
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in provider.authorization_url else "?"
        return Begun(provider.authorization_url + joint + urllib.parse.urlencode(query), browser)

    async def _provider(self) -> ProviderUrls:
        urls = self._urls
        if urls.value is None:
            await urls.wait()
        elif urls.is_old:
            urls.refresh()
        if urls.value is not None:
            return urls.value
        if isinstance(urls.error, ProviderBusyError):
            raise urls.error.with_traceback(None)
        raise AuthenticationFailedError(
            f"the configuration of the OIDC provider {self._settings.issuer} could not be read: "
            f"{urls.error}"
        )

    def _derived(self, *said: str) -> str:
        """What follows from this, for whoever has the key; 43 characters, as PKCE wants them."""
        data = "\0".join(("oidc", *said)).encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, data, hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    async def finish(
        self, state: str, browser: str, code: str, *, redirect_url: str, problem: str = ""
    ) -> Login:
        """Who has signed in.

        Raises:
            AuthenticationFailedError: the state is not that of this browser, or has expired, or
                the provider does not vouch for anybody.
            ProviderBusyError: too much waits for it already.
        """
        if problem:
            raise AuthenticationFailedError(f"the OIDC provider says {problem!r}")
        said, _, proof = state.rpartition(".")
        expected = self._derived("state", said, browser, redirect_url)
        if not hmac.compare_digest(proof.encode("utf-8", "surrogatepass"), expected.encode()):
            raise AuthenticationFailedError("a sign-in that nobody began, or another browser")
        if int(said.partition(".")[0]) <= self._clock.now_ms():
            raise AuthenticationFailedError("a sign-in that began too long ago")
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_url,
            "client_id": settings.client_id or "",
            "code_verifier": self._derived("verifier", state),
        }
        asking = partial(exchange, settings, (await self._provider()).token_url, form)
        try:
            token = await self._tokens.threads.ask(asking)
        except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
            raise AuthenticationFailedError(
                f"the OIDC provider gave no ID token: {type(error).__name__}: {error}"
            ) from error
        return await self._tokens.check_id_token(token, self._derived("nonce", state))
