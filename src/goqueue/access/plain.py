"""The one message of PLAIN (RFC 4616): a name and a password, as they are."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.limits import MAX_SASL_MESSAGE_BYTES


class PlainLogin(NamedTuple):
    """What the client claims."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"PlainLogin(user={self.user!r})"


def parse_plain(message: bytes) -> PlainLogin:
    """The name and the password.

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
