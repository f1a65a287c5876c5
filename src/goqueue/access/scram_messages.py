"""The messages of SCRAM (RFC 5802, section 7), read strictly and written exactly."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.limits import MAX_SASL_MESSAGE_BYTES

if TYPE_CHECKING:
    from goqueue.access.keys import ScramKeys

_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]=[^\0,]+)*"
"""Attributes that we do not know and may ignore; `m=` in front would forbid it and does not match.
"""
_FIRST: Final = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<acting_as>[^\0,]+))?,)"
    rf"(?P<bare>n=(?P<user>[^\0,]+),r=(?P<nonce>{_NONCE})(?:,[A-Za-z]+=[^\0,]*)*)"
)
"""`p=` at the start would bind the login to the channel, which we do not offer. Names of
extensions may be long: Kafka's own clients send `tokenauth`."""
_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>[^\0,]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[^\0,]+)"
)


class ClientFirst(NamedTuple):
    """How a login begins."""

    header: str
    bare: str
    user: str
    nonce: str


class ClientFinal(NamedTuple):
    """How a login ends."""

    bare: str
    header: bytes
    nonce: str
    proof: bytes


def parse_first(message: bytes) -> ClientFirst:
    """Raises `AuthenticationFailedError` for anything that is not a client's first message."""
    match = _FIRST.fullmatch(_text(message))
    if match is None:
        raise AuthenticationFailedError("not the first message of SCRAM")
    user, acting_as = _name(match["user"]), match["acting_as"]
    if acting_as is not None and _name(acting_as) != user:
        raise AuthenticationFailedError(
            "a SCRAM login with an authorization id, which is not supported"
        )
    return ClientFirst(match["gs2"], match["bare"], user, match["nonce"])


def parse_final(message: bytes) -> ClientFinal:
    """Raises `AuthenticationFailedError` for anything that is not a client's final message."""
    match = _FINAL.fullmatch(_text(message))
    if match is None:
        raise AuthenticationFailedError("not the final message of SCRAM")
    header, proof = _bytes(match["binding"]), _bytes(match["proof"])
    return ClientFinal(match["bare"], header, match["nonce"], proof)


def server_first(nonce: str, keys: ScramKeys) -> str:
    """What the client needs to make its proof."""
    return f"r={nonce},s={base64.b64encode(keys.salt).decode()},i={keys.iterations}"


def server_final(signature: bytes) -> str:
    """The server's own proof."""
    return f"v={base64.b64encode(signature).decode()}"


def _text(message: bytes) -> str:
    if len(message) > MAX_SASL_MESSAGE_BYTES:
        raise AuthenticationFailedError("a SCRAM message over the limit")
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationFailedError("a SCRAM message that is not UTF-8") from error


def _name(escaped: str) -> str:
    if re.search(r"=(?!2C|3D)", escaped):
        raise AuthenticationFailedError("a name with a bare equals sign")
    return escaped.replace("=2C", ",").replace("=3D", "=")


def _bytes(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationFailedError("not Base64") from error
