"""Logging in: one object for each attempt, whatever the wire it comes by."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.access.mechanisms import Mechanism
from goqueue.access.plain import parse_plain
from goqueue.access.scram import ScramLogin, ScramState
from goqueue.model.errors import AuthenticationFailedError

if TYPE_CHECKING:
    from goqueue.access.users import Users

_NONCE_BYTES: Final = 24


class Login(Protocol):
    """One attempt. After a failure, or once it is done, it is of no more use."""

    @property
    def user(self) -> str:
        """Who the client says it is; true once `is_done`."""

    @property
    def is_done(self) -> bool:
        """Whether the client has proven who it is."""

    async def step(self, message: bytes) -> bytes:
        """Take the client's next message and return ours.

        Raises:
            AuthenticationFailedError: the attempt has failed, and the text says why to us alone.
        """


def begin_login(users: Users, mechanism: Mechanism) -> Login:
    """A new attempt by this mechanism."""
    if mechanism is Mechanism.PLAIN:
        return _PlainAttempt(users)
    return _ScramAttempt(users, mechanism)


class _PlainAttempt:
    def __init__(self, users: Users) -> None:
        self._users = users
        self.user = ""
        self.is_done = False

    async def step(self, message: bytes) -> bytes:
        if self.is_done:
            raise AuthenticationFailedError("a message after the end of a login")
        self.user, password = parse_plain(message)
        if not await self._users.has_password(self.user, password):
            raise AuthenticationFailedError(f"user {self.user!r} has no such password")
        self.is_done = True
        return b""


class _ScramAttempt:
    def __init__(self, users: Users, mechanism: Mechanism) -> None:
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._login = ScramLogin(mechanism, nonce, partial(users.keys_for_login, mechanism))

    @property
    def user(self) -> str:
        return self._login.user

    @property
    def is_done(self) -> bool:
        return self._login.state is ScramState.PROVEN

    async def step(self, message: bytes) -> bytes:
        return self._login.step(message)
