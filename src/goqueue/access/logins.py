"""Logging in: one object for each attempt, whatever the wire it comes by."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.access.keys import Mechanism
from goqueue.access.scram import ScramLogin, ScramState
from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.limits import MAX_SASL_MESSAGE_BYTES
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.access.users import Users


class PlainLogin(NamedTuple):
    """What the client claims."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"PlainLogin(user={self.user!r})"


def parse_plain(message: bytes) -> PlainLogin:
    """The name and the password in the one message of PLAIN (RFC 4616).

    Raises:
        AuthenticationFailedError: it is no such message, or asks to act as somebody else.
    """
    if len(message) > MAX_SASL_MESSAGE_BYTES:
        raise AuthenticationFailedError("a PLAIN message over the limit")
    try:
        acting_as, user, password = message.decode().split("\0")
    except ValueError as error:  # not three parts, or not UTF-8
        raise AuthenticationFailedError("not a PLAIN message") from error
    if not user or not password:
        raise AuthenticationFailedError("a PLAIN message without a name or a password")
    if acting_as not in {"", user}:
        raise AuthenticationFailedError(
            "a PLAIN message with an authorization id, which is not supported"
        )
    return PlainLogin(user, password)


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
