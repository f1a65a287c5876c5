"""The server's side of SCRAM (RFC 5802 and 7677), as a state machine without clock or I/O.

    client                          server
    n,,n=user,r=NONCE        ->     r=NONCE+OURS,s=salt,i=iterations
    c=biws,r=NONCE+OURS,p=proof ->  v=signature

The password never travels and is never kept: the proof shows that the client can make the key
whose hash we store, the signature shows the client that we store it. For a user who does not exist
the caller gives keys that nobody can prove to have, so that this code has no second path.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum
from typing import TYPE_CHECKING, Final

from goqueue.access.mechanisms import SCRAM_HASHES, Mechanism
from goqueue.access.scram_messages import (
    ClientFinal,
    ClientFirst,
    parse_final,
    parse_first,
    server_final,
    server_first,
)
from goqueue.model.errors import AuthenticationFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.access.keys import ScramKeys


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
