"""What is kept instead of a password: the salted keys of RFC 5802.

From them a password can be checked and not be read. Passwords are taken as the UTF-8 bytes that
they are, without SASLprep: no Kafka client or broker normalises them, and what one side alone
normalises no longer matches.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from typing import Final

import msgspec

from goqueue.model.errors import UnacceptableCredentialError
from goqueue.model.limits import MIN_SCRAM_ITERATIONS


class Mechanism(StrEnum):
    """How a client says who it is."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    """A token of an OIDC provider, or an API key."""


SCRAM_HASHES: Final = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
"""The SCRAM mechanisms, each with its hash: those that a user has stored keys for."""


_MAX_ITERATIONS: Final = 16384
"""More are refused, as in Kafka: the client pays for them at every connection."""
_MAX_SALT_BYTES: Final = 1024
"""A longer salt is refused; every login sends it."""


class ScramKeys(msgspec.Struct, frozen=True):
    """One user's keys for one mechanism. They never show in a log."""

    salt: bytes
    iterations: int
    stored_key: bytes
    """The hash of the client's key: a proof is checked against it."""
    server_key: bytes
    """What the server proves itself with."""

    def __repr__(self) -> str:
        return f"ScramKeys(salt={self.salt!r}, iterations={self.iterations})"


def keys_from_password(
    mechanism: Mechanism, password: str, salt: bytes, iterations: int = MIN_SCRAM_ITERATIONS
) -> ScramKeys:
    """The keys of a password; takes as long as `iterations` say."""
    salted = _salted(mechanism, password, salt, iterations)
    return keys_from_salted(mechanism, salted, salt, iterations)


def keys_from_salted(
    mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramKeys:
    """The keys of a password that was salted elsewhere.

    Raises:
        UnacceptableCredentialError: a number or a length is outside its bounds.
    """
    name = SCRAM_HASHES[mechanism]
    _check_shape(len(salted_password), hashlib.new(name).digest_size, len(salt), iterations)
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return ScramKeys(salt, iterations, hashlib.new(name, client_key).digest(), server_key)


def password_matches(mechanism: Mechanism, keys: ScramKeys, password: str) -> bool:
    """Whether the keys were made from this password; takes as long as making them."""
    made = keys_from_password(mechanism, password, keys.salt, keys.iterations)
    return hmac.compare_digest(made.stored_key, keys.stored_key)


def _salted(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    raw = password.encode("utf-8", "surrogatepass")
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], raw, salt, iterations)


def _check_shape(size: int, expected_size: int, salt_size: int, iterations: int) -> None:
    if not MIN_SCRAM_ITERATIONS <= iterations <= _MAX_ITERATIONS:
        raise UnacceptableCredentialError(
            f"{iterations} iterations, expected {MIN_SCRAM_ITERATIONS} to {_MAX_ITERATIONS}"
        )
    if not 0 < salt_size <= _MAX_SALT_BYTES:
        raise UnacceptableCredentialError(
            f"a salt of {salt_size} bytes, expected 1 to {_MAX_SALT_BYTES}"
        )
    if size != expected_size:
        raise UnacceptableCredentialError(
            f"a salted password of {size} bytes, expected the {expected_size} of its hash"
        )
