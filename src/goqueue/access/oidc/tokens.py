"""Tokens of an OIDC provider: signature, issuer, audience and times checked, claims to a principal.

Signatures are checked by joserfc, which is loaded with the first token. Only asymmetric algorithms
count: a token that is signed with a shared secret, or not at all, is refused. A token that was
accepted is remembered, so that a client's next requests cost a lookup: until it expires, the
provider has other keys, or it was not checked for ten minutes.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.access.api_keys import is_key_id
from goqueue.access.name_rules import map_name
from goqueue.access.oidc.fetched import FRESH_S
from goqueue.access.oidc.provider_keys import ProviderKeys
from goqueue.access.oidc.threads import OidcThreads
from goqueue.access.principals import Login, Principal, PrincipalKind
from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.limits import MAX_TOKEN_CHARS, MAX_USER_NAME_BYTES
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.access.settings import OidcSettings
    from goqueue.runtime.clock import Clock

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "Ed25519",
)  # fmt: skip
_MAX_REMEMBERED: Final = 10_000
"""Accepted tokens that are remembered; at the bound all are forgotten and checked anew."""


class Accepted(NamedTuple):
    """Whose token it is, and until when it counts."""

    principal: Principal
    expires_ms: int


class _Remembered(NamedTuple):
    """A token that was accepted."""

    accepted: Accepted
    seen_ms: int
    """When this node saw it first."""
    checked_s: float
    keys: frozenset[bytes]
    """Those of the provider when it was checked."""


class OidcTokens:
    """Checks the tokens of one provider."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.threads = OidcThreads()
        self._keys = ProviderKeys(settings, self.threads, clock)
        self._remembered: dict[bytes, _Remembered] = {}

    def close(self) -> None:
        """Let go of the threads."""
        self.threads.close()

    async def check(self, token: str) -> Accepted:
        """Who a token belongs to.

        Raises:
            AuthenticationFailedError: it is no valid token of the provider, or has no principal.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise AuthenticationFailedError("a token over the limit")
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._remembered.get(digest)
        if known is None or not self._is_fresh(known):
            seen_ms = self._clock.now_ms() if known is None else known.seen_ms
            known = await self._checked(token, seen_ms)
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered = {}
            self._remembered[digest] = known
        if known.accepted.expires_ms <= self._clock.now_ms():
            label = known.accepted.principal.label
            raise AuthenticationFailedError.expired(f"the token of {label} has expired")
        return known.accepted

    def _is_fresh(self, known: _Remembered) -> bool:
        """Whether it need not be checked again: its key may have been withdrawn."""
        age_s = self._clock.monotonic_s() - known.checked_s
        return age_s <= FRESH_S and known.keys == self._keys.content

    async def _checked(self, token: str, seen_ms: int) -> _Remembered:
        claims, keys = await self._claims(token, self._settings.audiences)
        accepted = self._principal(claims, seen_ms)
        return _Remembered(accepted, seen_ms, self._clock.monotonic_s(), keys)

    async def check_id_token(self, token: str, nonce: str) -> Login:
        """Whom an ID token is about that this server has asked for; it may be used once.

        Raises:
            AuthenticationFailedError: it is none, or for another client or sign-in.
        """
        audience = frozenset({self._settings.client_id or ""})
        claims, _ = await self._claims(token, audience)
        said = claims.get("nonce")
        if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
            raise AuthenticationFailedError("an ID token of another sign-in")
        return Login(self._principal(claims, self._clock.now_ms()).principal)

    async def _claims(
        self, token: str, audiences: frozenset[str]
    ) -> tuple[Mapping[str, Any], frozenset[bytes]]:
        """The claims of a token whose signature and times are right, and the keys of then."""
        keys = await self._keys.for_token(token)
        claims = await self.threads.check(partial(self._decoded, token, keys.keys))
        self._check_claims(claims, audiences)
        return claims, keys.content

    def _decoded(self, token: str, keys: Any) -> Mapping[str, Any]:
        """What is signed; in a thread."""
        from joserfc import jwt  # noqa: PLC0415 - a default start does not need it
        from joserfc.errors import JoseError  # noqa: PLC0415 - as above

        try:
            claims: Mapping[str, Any] = jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims
        except (JoseError, ValueError, TypeError) as error:
            raise AuthenticationFailedError(
                f"a token that was refused: {type(error).__name__}"
            ) from error
        return claims

    def _check_claims(self, claims: Mapping[str, Any], wanted: frozenset[str]) -> None:
        settings, now_s = self._settings, self._clock.now_ms() / 1000
        skew_s = settings.clock_skew_s
        if claims.get("iss") != settings.issuer:
            raise AuthenticationFailedError("a token of another issuer")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if not wanted.intersection(each for each in audiences if isinstance(each, str)):
            raise AuthenticationFailedError("a token for another audience")
        expires = claims.get("exp")
        if not isinstance(expires, int | float) or isinstance(expires, bool):
            raise AuthenticationFailedError("a token without an expiry")
        if not expires > now_s - skew_s:  # also what is no number
            raise AuthenticationFailedError.expired("a token that has expired")
        for name in ("nbf", "iat"):
            begins = claims.get(name)
            if begins is not None and not (
                isinstance(begins, int | float) and begins <= now_s + skew_s
            ):
                raise AuthenticationFailedError(f"a token whose {name} lies in the future")

    def _principal(self, claims: Mapping[str, Any], seen_ms: int) -> Accepted:
        settings = self._settings
        subject = _at(claims, settings.principal_claim)
        if not isinstance(subject, str):
            raise AuthenticationFailedError(f"a token without {settings.principal_claim!r}")
        name = map_name(settings.principal_rules, subject)
        if not name or len(name.encode()) > MAX_USER_NAME_BYTES or "\0" in name:
            raise AuthenticationFailedError("a token whose subject no rule maps to a name")
        if is_key_id(name):
            raise AuthenticationFailedError("a token whose subject has the form of a key's id")
        tenant = _at(claims, settings.tenant_claim) if settings.tenant_claim else None
        if tenant is not None and not isinstance(tenant, str):
            raise AuthenticationFailedError("a token whose tenant is not a name")
        roles = self._roles(claims)
        began_s = max(0, claims.get("iat", seen_ms / 1000))
        expires_s = min(claims["exp"], began_s + settings.max_token_lifetime_s)
        expires_ms = int((expires_s + settings.clock_skew_s) * 1000)
        return Accepted(Principal(name, PrincipalKind.TOKEN, roles, tenant), expires_ms)

    def _roles(self, claims: Mapping[str, Any]) -> frozenset[str]:
        if not self._settings.roles_claim:
            return frozenset()
        found = _at(claims, self._settings.roles_claim)
        values = found.split() if isinstance(found, str) else found
        if not isinstance(values, list):
            return frozenset()
        names = {each for each in values if isinstance(each, str)}
        mapped = self._settings.roles
        return frozenset(mapped[each] for each in names if each in mapped)


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or inside another by a path with dots."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found
