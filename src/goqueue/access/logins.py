"""Logging in: one object for each attempt, whatever the wire it comes by."""

from __future__ import annotations

import re
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.access.keys import Mechanism
from goqueue.access.principals import Login
from goqueue.access.scram import ScramLogin, ScramState
from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.limits import MAX_SASL_MESSAGE_BYTES, MAX_TOKEN_CHARS
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.access.authenticator import Authenticator
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


_BEARER: Final = re.compile(r"n,(?:a=[^,\x01]*)?,\x01(?:[^\x01]*\x01)*\x01")
_TOKEN: Final = re.compile(r"\x01auth=Bearer +([^\x01 ]+)\x01", re.IGNORECASE)
_REFUSED: Final = b'{"status":"invalid_token"}'


def parse_bearer(message: bytes) -> str:
    """The token in the first message of OAUTHBEARER (RFC 7628).

    Raises:
        AuthenticationFailedError: it is no such message.
    """
    if len(message) > MAX_TOKEN_CHARS:
        raise AuthenticationFailedError("an OAUTHBEARER message over the limit")
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationFailedError("an OAUTHBEARER message that is not UTF-8") from error
    found = _TOKEN.search(text)
    if found is None or not _BEARER.fullmatch(text):
        raise AuthenticationFailedError("not an OAUTHBEARER message with a bearer token")
    return found[1]


_NONCE_BYTES: Final = 24


class LoginAttempt(Protocol):
    """One attempt. After a failure, or once it is done, it is of no more use."""

    @property
    def login(self) -> Login | None:
        """Who the client has proven to be; None until it has."""

    @property
    def user(self) -> str:
        """Who the client says it is, as far as it has; true once there is a `login`."""

    async def step(self, message: bytes) -> bytes:
        """Take the client's next message and return ours.

        Raises:
            AuthenticationFailedError: the attempt has failed, and the text says why to us alone.
        """


def begin_login(
    users: Users, authenticator: Authenticator, mechanism: Mechanism, host: str
) -> LoginAttempt:
    """A new attempt by this mechanism, from this address."""
    if mechanism is Mechanism.PLAIN:
        return _PlainAttempt(authenticator, host)
    if mechanism is Mechanism.OAUTHBEARER:
        return _BearerAttempt(authenticator, host)
    return _ScramAttempt(users, authenticator, mechanism, host)


class _PlainAttempt:
    def __init__(self, authenticator: Authenticator, host: str) -> None:
        self._authenticator = authenticator
        self._host = host
        self.user = ""
        self.login: Login | None = None

    async def step(self, message: bytes) -> bytes:
        if self.login is not None:
            raise AuthenticationFailedError("a message after the end of a login")
        self.user, password = parse_plain(message)
        self.login = await self._authenticator.password_login(self.user, password, self._host)
        return b""


class _BearerAttempt:
    """A refused token is answered first, and the attempt fails when the client agrees."""

    def __init__(self, authenticator: Authenticator, host: str) -> None:
        self._authenticator = authenticator
        self._host = host
        self._refused: AuthenticationFailedError | None = None
        self.login: Login | None = None

    @property
    def user(self) -> str:
        return "" if self.login is None else self.login.principal.name

    async def step(self, message: bytes) -> bytes:
        if self.login is not None:
            raise AuthenticationFailedError("a message after the end of a login")
        if self._refused is not None:
            raise self._refused
        try:
            token = parse_bearer(message)
            self.login = await self._authenticator.bearer_login(token, self._host)
        except AuthenticationFailedError as error:
            self._refused = error
            return _REFUSED
        return b""


class _ScramAttempt:
    def __init__(
        self, users: Users, authenticator: Authenticator, mechanism: Mechanism, host: str
    ) -> None:
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._scram = ScramLogin(mechanism, nonce, partial(users.keys_for_login, mechanism))
        self._authenticator = authenticator
        self._host = host

    @property
    def user(self) -> str:
        return self._scram.user

    @property
    def login(self) -> Login | None:
        is_proven = self._scram.state is ScramState.PROVEN
        return Login(self._authenticator.user(self._scram.user)) if is_proven else None

    async def step(self, message: bytes) -> bytes:
        try:
            answer = self._scram.step(message)
        except AuthenticationFailedError:
            self._authenticator.failed(self._host, self._scram.user)
            raise
        if self._scram.state is ScramState.CHALLENGED:
            await self._authenticator.slow_down(self._host, self._scram.user)
        return answer
