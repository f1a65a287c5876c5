"""The server's side of SCRAM (RFC 5802 and 7677), as a state machine without clock or I/O.

    client                          server
    n,,n=user,r=NONCE        ->     r=NONCE+OURS,s=salt,i=iterations
    c=biws,r=NONCE+OURS,p=proof ->  v=signature

The password never travels and is never kept: the proof shows that the client can make the key
whose hash we store, the signature shows the client that we store it. For a user who does not exist
the caller gives keys that nobody can prove to have, so that this code has no second path.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from enum import Enum
from typing import TYPE_CHECKING, Final

from goqueue.access.keys import SCRAM_HASHES, Mechanism, ScramKeys
from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.limits import MAX_SASL_MESSAGE_BYTES
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


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
    """What was encoded; of the texts that mean the same bytes, only the canonical one counts."""
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationFailedError("not Base64") from error
    if base64.b64encode(decoded).decode() != encoded:
        raise AuthenticationFailedError("not canonical Base64")
    return decoded


class ScramState(Enum):
    """How far a login has come."""

    BEGUN = "nothing was said"
    CHALLENGED = "the client must prove itself"
    PROVEN = "the client is who it says"
    FAILED = "it will never succeed"


_MOVES: Final = {
    ScramState.BEGUN: {ScramState.CHALLENGED, ScramState.FAILED},
    ScramState.CHALLENGED: {ScramState.PROVEN, ScramState.FAILED},
    ScramState.PROVEN: {ScramState.FAILED},
    ScramState.FAILED: {ScramState.FAILED},
}


class ScramLogin:
    """One login. Whatever goes wrong ends it for good; the next needs another object."""

    def __init__(
        self, mechanism: Mechanism, server_nonce: str, keys_of: Callable[[str], ScramKeys]
    ) -> None:
        """Take a nonce that was never used before, and a way to find a user's keys."""
        self._hash = SCRAM_HASHES[mechanism]
        self._server_nonce = server_nonce
        self._keys_of = keys_of
        self._keys: ScramKeys
        self._first: ClientFirst
        self._challenge = ""
        self.state = ScramState.BEGUN
        self.user = ""
        """Who the client says it is; true once the state is `PROVEN`."""

    def step(self, message: bytes) -> bytes:
        """Take the client's next message and return ours.

        Raises:
            AuthenticationFailedError: the login has failed. Clients are told no more than that.
        """
        try:
            return self._answer(message)
        except AuthenticationFailedError:
            self._move(ScramState.FAILED)
            raise

    def _answer(self, message: bytes) -> bytes:
        if self.state is ScramState.BEGUN:
            return self._challenge_for(message)
        if self.state is ScramState.CHALLENGED:
            return self._judge(message)
        raise AuthenticationFailedError("a message after the end of a login")

    def _move(self, state: ScramState) -> None:
        if state not in _MOVES[self.state]:
            raise AuthenticationFailedError(f"no way from {self.state.name} to {state.name}")
        self.state = state

    def _challenge_for(self, message: bytes) -> bytes:
        self._first = parse_first(message)
        self.user = self._first.user
        self._keys = self._keys_of(self.user)
        self._challenge = server_first(self._nonce, self._keys)
        self._move(ScramState.CHALLENGED)
        return self._challenge.encode()

    def _judge(self, message: bytes) -> bytes:
        final = parse_final(message)
        said = f"{self._first.bare},{self._challenge},{final.bare}".encode()
        if not self._is_proven(final, said):
            raise AuthenticationFailedError(f"user {self.user!r} did not prove itself")
        self._move(ScramState.PROVEN)
        return server_final(hmac.digest(self._keys.server_key, said, self._hash)).encode()

    def _is_proven(self, final: ClientFinal, said: bytes) -> bool:
        """Whether it answers our challenge, and with the key; compared in constant time."""
        same_header = final.header == self._first.header.encode()
        same_nonce = hmac.compare_digest(final.nonce.encode(), self._nonce.encode())
        mask = hmac.digest(self._keys.stored_key, said, self._hash)
        if len(final.proof) != len(mask):
            return False
        client_key = bytes(a ^ b for a, b in zip(final.proof, mask, strict=True))
        found = hashlib.new(self._hash, client_key).digest()
        same_key = hmac.compare_digest(found, self._keys.stored_key)
        return same_header and same_nonce and same_key

    @property
    def _nonce(self) -> str:
        return self._first.nonce + self._server_nonce
