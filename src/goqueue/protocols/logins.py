"""Who the client of a request is, for protocols whose every request carries its credentials.

A password or a key that was right is remembered for a moment, as a hash, so that a client's next
requests cost no derivation of keys. Any change of users, keys, roles or rules ends that at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.access.authenticator import Authenticator
    from goqueue.access.principals import Login, Principal
    from goqueue.audit.access_trail import AccessTrail
    from goqueue.protocols.permissions import Decides

FAILED: Final = (
    "authentication failed: the credentials are wrong, expired or revoked; check the user and "
    "password, the API key or the token"
)
"""All that a client is told, whatever was wrong."""
MISSING: Final = (
    "authentication is required: send an API key or a token as Authorization: Bearer or X-API-Key, "
    "or a user and password as Authorization: Basic"
)

_REMEMBERED_S: Final = 5.0
"""For passwords, which do not expire."""
_BEARER_S: Final = 1.0
"""For keys, which may be revoked, and tokens; never longer than they count."""
_MAX_REMEMBERED: Final = 10_000
"""Logins of one node; at the bound all are forgotten, and made anew."""
_MAX_CREDENTIAL_BYTES: Final = 16 * 1024


class Credential(NamedTuple):
    """What a client has sent to say who it is."""

    user: str | None
    """None with a key or a token."""
    secret: str

    def __repr__(self) -> str:
        return f"Credential(user={self.user!r})"


def credential_of(authorization: str | None, api_key: str | None) -> Credential | None:
    """The credential in the two headers that may have one; None: there is none.

    Raises:
        AuthenticationFailedError: it cannot be read, or there are two.
    """
    if authorization is None:
        return None if api_key is None else Credential(None, api_key.strip())
    if api_key is not None:
        raise AuthenticationFailedError("an Authorization and an X-API-Key header in one request")
    if len(authorization) > _MAX_CREDENTIAL_BYTES:
        raise AuthenticationFailedError("an Authorization header over the limit")
    scheme, _, given = authorization.strip().partition(" ")
    if scheme.lower() == "bearer" and given.strip():
        return Credential(None, given.strip())
    if scheme.lower() != "basic":
        raise AuthenticationFailedError("an Authorization header that is not Bearer or Basic")
    try:
        user, colon, password = (
            base64.b64decode(given.strip(), validate=True).decode().partition(":")
        )
    except (binascii.Error, ValueError) as error:
        raise AuthenticationFailedError("a Basic credential that does not decode") from error
    if not colon or not user:
        raise AuthenticationFailedError("a Basic credential without a user")
    return Credential(user, password)


class Logins:
    """The logins of one node, over protocols whose every request carries its credentials."""

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Decides,
        now_s: Callable[[], float],
        trail: AccessTrail | None,
        protocol: str,
    ) -> None:
        """Logins by a protocol, whose name stands for its listener in the audit log."""
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._now_s = now_s
        self._trail = trail
        self._protocol = protocol
        self._salt = secrets.token_bytes(32)
        self._version = -1
        self._remembered: dict[bytes, tuple[Login, float]] = {}
        """By a hash of the credential: whose it is, and until when that need not be asked."""

    @property
    def is_required(self) -> bool:
        """Whether clients must say who they are."""
        return self._authenticator.is_required

    async def login(self, credential: Credential, host: str) -> Login:
        """Whose credential it is, and until when it counts.

        Raises:
            AuthenticationFailedError: nobody's.
        """
        version = self._authorizer.version
        if self._version != version or len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
            self._version = version
        key = self._hash(credential, host)
        known = self._remembered.get(key)
        if known is not None and self._now_s() < known[1]:
            return known[0]
        user, secret = credential
        if user is None:
            found = await self._authenticator.bearer_login(secret, host)
        else:
            found = await self._authenticator.password_login(user, secret, host)
        if version == self._authorizer.version:  # or it may have been revoked meanwhile
            longest_s = _BEARER_S if user is None else _REMEMBERED_S
            left_s = self._authenticator.left_s(found)
            self._remembered[key] = (
                found,
                self._now_s() + (longest_s if left_s is None else min(longest_s, left_s)),
            )
        self.logged_in(found.principal, host, "bearer" if user is None else "basic")
        return found

    def logged_in(self, principal: Principal, host: str, mechanism: str) -> None:
        """Write down that a client has proven who it is."""
        if self._trail is not None:
            self._trail.logged_in(principal.label, host, self._protocol, mechanism)

    def _hash(self, credential: Credential, host: str) -> bytes:
        user, secret = credential
        text = "\0".join(("bearer" if user is None else f"basic {user}", secret, host))
        return hashlib.blake2b(text.encode(), key=self._salt, digest_size=32).digest()
