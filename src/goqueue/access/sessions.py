"""Who is signed in to the console: sessions of one node, in memory, behind random tokens.

A session ends with its time, with a sign-out, and as soon as what it was opened with no longer
counts: the user was deleted or has another password, the key was revoked or has expired. Only the
hash of a token is kept.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.api_keys import ROOT_ID
from goqueue.access.credentials import User
from goqueue.access.principals import Login, Principal, PrincipalKind

if TYPE_CHECKING:
    from goqueue.access.directory import AccessDirectory
    from goqueue.runtime.clock import Clock

_MAX_SESSIONS: Final = 10_000
"""Of one node; at the bound the one that ends first makes room."""
_MAX_OF_ONE: Final = 20
"""Of one principal; its oldest makes room, so that nobody signs others out."""
_TOKEN_BYTES: Final = 32


class Session(msgspec.Struct, frozen=True):
    """One sign-in."""

    principal: Principal
    csrf_token: str
    """What a page of ours sends with each change, and a page of another site cannot know."""
    expires_ms: int
    user: User | None
    """The user as it was, to notice another password; None of keys and tokens."""

    def __repr__(self) -> str:
        return f"Session({self.principal.label})"  # no token


class Sessions:
    """The sessions of one node."""

    def __init__(self, directory: AccessDirectory, clock: Clock, lifetime_s: float) -> None:
        self._directory = directory
        self._clock = clock
        self._lifetime_ms = round(lifetime_s * 1000)
        self._sessions: dict[bytes, Session] = {}
        """By the hash of the token, in the order in which they were opened."""

    def open(self, login: Login) -> tuple[str, Session]:
        """A session for whoever has just logged in, and its token, which is told once."""
        now_ms = self._clock.now_ms()
        expires_ms = now_ms + self._lifetime_ms
        if login.expires_ms is not None:
            expires_ms = min(expires_ms, login.expires_ms)
        principal = login.principal
        is_user = principal.kind is PrincipalKind.USER
        session = Session(
            principal,
            secrets.token_urlsafe(_TOKEN_BYTES),
            expires_ms,
            self._directory.users.find(principal.name) if is_user else None,
        )
        self._make_room(principal, now_ms)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._sessions[_hash(token)] = session
        return token, session

    def _make_room(self, principal: Principal, now_ms: int) -> None:
        for key, each in list(self._sessions.items()):
            if each.expires_ms <= now_ms:
                del self._sessions[key]
        own = [key for key, each in self._sessions.items() if each.principal.name == principal.name]
        for key in own[: len(own) - _MAX_OF_ONE + 1]:
            del self._sessions[key]
        if len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda key: self._sessions[key].expires_ms)]

    def find(self, token: str) -> Session | None:
        """The session of a token; None: there is none, or it has ended."""
        key = _hash(token)
        session = self._sessions.get(key)
        if session is None or self._counts(session):
            return session
        del self._sessions[key]
        return None

    def _counts(self, session: Session) -> bool:
        now_ms, principal = self._clock.now_ms(), session.principal
        if session.expires_ms <= now_ms or self._directory.roles_of(principal) is None:
            return False
        if principal.kind is PrincipalKind.USER:
            return session.user == self._directory.users.find(principal.name)
        if principal.kind is PrincipalKind.API_KEY and principal.name != ROOT_ID:
            key = self._directory.keys.all.get(principal.name)
            return key is not None and key.is_valid(now_ms)
        return True

    def close(self, token: str) -> None:
        """Sign out."""
        self._sessions.pop(_hash(token), None)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
