"""Who is signed in to the console: sessions in signed tokens, which every node can check.

A session ends with its time, with a sign-out, and as soon as what it was opened with no longer
counts: the user was deleted or has another password, the key was revoked or has expired. Nothing
is stored of a session but its sign-out, until the time at which it would have ended.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.api_keys import ROOT_ID
from goqueue.access.credentials import encode_user
from goqueue.access.principals import Login, Principal, PrincipalKind
from goqueue.access.stored import StoredRecords
from goqueue.model.errors import AuthenticationFailedError, MetadataUnavailableError

if TYPE_CHECKING:
    from goqueue.access.directory import AccessDirectory
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.runtime.clock import Clock

_MAX_NAMES: Final = 10_000
"""Principals that have signed out lately; a sign-out of one more is refused."""
_MAX_SIGN_OUTS: Final = 20
"""Of one principal; at the bound its sessions that are as old as the first of these end, too."""
_MAX_REMOVED: Final = 100
"""Principals that are forgotten with one sign-out of another."""
_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.2
"""Between attempts of a sign-out; together they are longer than an election of the store."""
_MAX_TOKEN_CHARS: Final = 3500
"""What fits into a cookie with its name and rules; a sign-in with a longer token is refused."""
_MAC_BYTES: Final = 32
_ID_BYTES: Final = 16


class Session(msgspec.Struct, frozen=True):
    """One sign-in."""

    principal: Principal
    csrf_token: str
    """What a page of ours sends with each change, and a page of another site cannot know."""
    expires_ms: int

    def __repr__(self) -> str:
        return f"Session({self.principal.label})"  # no token


class _Content(msgspec.Struct, frozen=True, array_like=True):
    """What a token says, and nobody else can write."""

    principal: Principal
    opened_ms: int
    expires_ms: int
    id: bytes
    credential_mark: bytes
    """Of the user or the root key as it was, to notice another; empty of other keys and tokens."""


class _Ended(msgspec.Struct, frozen=True):
    """A session that was signed out."""

    id: bytes
    opened_ms: int
    expires_ms: int


class _SignOuts(msgspec.Struct, frozen=True):
    """The sessions of one principal that have ended before their time."""

    ended: tuple[_Ended, ...] = ()
    """In the order of the sign-outs."""
    opened_until_ms: int = 0
    """All that were opened until then have ended."""


class Sessions:
    """The sessions of all nodes that have the same key."""

    def __init__(
        self,
        directory: AccessDirectory,
        store: MetadataStore,
        clock: Clock,
        *,
        key: bytes,
        lifetime_s: float,
        keeper: ViewKeeper | None = None,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._key = key
        self._lifetime_ms = round(lifetime_s * 1000)
        self._sign_outs = StoredRecords(
            store, "sign-outs/", _SignOuts, limit=_MAX_NAMES, keeper=keeper
        )

    async def load(self) -> None:
        """Read from the metadata store who has signed out."""
        await self._sign_outs.load()

    def open(self, login: Login) -> tuple[str, Session]:
        """A session for whoever has just logged in, and its token, which is told once.

        Raises:
            AuthenticationFailedError: no cookie holds the token.
        """
        now_ms = self._clock.now_ms()
        expires_ms = now_ms + self._lifetime_ms
        if login.expires_ms is not None:
            expires_ms = min(expires_ms, login.expires_ms)
        principal = login.principal
        session_id = secrets.token_bytes(_ID_BYTES)
        content = _Content(
            principal, now_ms, expires_ms, session_id, self._credential_mark(principal)
        )
        data = msgspec.msgpack.encode(content)
        token = base64.urlsafe_b64encode(data + self._mac(b"token", data)).decode()
        if len(token) > _MAX_TOKEN_CHARS:
            raise AuthenticationFailedError("a name with so many roles that no cookie holds them")
        return token, self._session(content)

    def find(self, token: str) -> Session | None:
        """The session of a token; None: it is none of ours, or has ended."""
        content = self._content(token)
        return self._session(content) if content and self._counts(content) else None

    def _session(self, content: _Content) -> Session:
        csrf_token = base64.urlsafe_b64encode(self._mac(b"csrf", content.id)).decode()
        return Session(content.principal, csrf_token, content.expires_ms)

    def _content(self, token: str) -> _Content | None:
        try:
            signed = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        data, mac = signed[:-_MAC_BYTES], signed[-_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(b"token", data)):
            return None
        try:
            return msgspec.msgpack.decode(data, type=_Content)
        except msgspec.MsgspecError:
            return None  # of another version

    def _counts(self, content: _Content) -> bool:
        now_ms, principal = self._clock.now_ms(), content.principal
        if content.expires_ms <= now_ms or self._directory.roles_of(principal) is None:
            return False
        sign_outs = self._sign_outs.all.get(_name(principal), _SignOuts())
        if content.opened_ms <= sign_outs.opened_until_ms:
            return False
        if any(each.id == content.id for each in sign_outs.ended):
            return False
        if principal.kind is PrincipalKind.API_KEY and principal.name != ROOT_ID:
            key = self._directory.keys.all.get(principal.name)
            return key is not None and key.is_valid(now_ms)
        return hmac.compare_digest(content.credential_mark, self._credential_mark(principal))

    def _credential_mark(self, principal: Principal) -> bytes:
        if principal.kind is PrincipalKind.USER:
            user = self._directory.users.find(principal.name)
            return b"" if user is None else self._mac(b"user", encode_user(user))
        if principal.kind is PrincipalKind.API_KEY and principal.name == ROOT_ID:
            return self._mac(b"root key", (self._directory.root_key or "").encode())
        return b""

    def _mac(self, purpose: bytes, data: bytes) -> bytes:
        return hmac.digest(self._key, purpose + b"\0" + data, hashlib.sha256)

    async def close(self, token: str) -> None:
        """Sign out; returns when that is stored. Tries again for a few seconds.

        Raises:
            MetadataUnavailableError: it could not be stored, and the session goes on.
            TooManyCredentialsError: too many others have signed out lately.
        """
        content = self._content(token)
        for left in reversed(range(_ATTEMPTS)):
            if content is None or not self._counts(content):
                return  # also when an attempt without an answer was stored
            try:
                await self._store_sign_out(content)
            except MetadataUnavailableError:
                if not left:
                    raise
                await asyncio.sleep(_PAUSE_S)

    async def _store_sign_out(self, content: _Content) -> None:
        now_ms = self._clock.now_ms()
        old = (name for name, each in self._sign_outs.all.items() if self._is_over(each, now_ms))
        changes: dict[str, _SignOuts | None] = dict.fromkeys(islice(old, _MAX_REMOVED))
        name = _name(content.principal)
        known = self._sign_outs.all.get(name, _SignOuts())
        ended = [each for each in known.ended if each.expires_ms > now_ms]
        ended.append(_Ended(content.id, content.opened_ms, content.expires_ms))
        dropped = ended[:-_MAX_SIGN_OUTS]
        until_ms = max([known.opened_until_ms, *(each.opened_ms for each in dropped)])
        changes[name] = _SignOuts(tuple(ended[-_MAX_SIGN_OUTS:]), until_ms)
        await self._sign_outs.change(changes)

    def _is_over(self, sign_outs: _SignOuts, now_ms: int) -> bool:
        """Whether every session of which these tell has ended by its time, too."""
        until_ms = sign_outs.opened_until_ms + self._lifetime_ms
        return until_ms <= now_ms and all(each.expires_ms <= now_ms for each in sign_outs.ended)


def _name(principal: Principal) -> str:
    """Under which the sign-outs of a principal are stored."""
    return hashlib.sha256(f"{principal.kind}:{principal.name}".encode()).hexdigest()
