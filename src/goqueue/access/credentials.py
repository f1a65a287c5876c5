"""Users and their keys, as plain values: what one is, how it is stored, how a login is checked."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.api_keys import is_key_id
from goqueue.access.keys import (
    SCRAM_HASHES,
    Mechanism,
    ScramKeys,
    keys_from_password,
    password_matches,
)
from goqueue.model.errors import CorruptCredentialError, UnacceptableCredentialError
from goqueue.model.limits import MAX_USER_NAME_BYTES, MIN_SCRAM_ITERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

SALT_BYTES: Final = 24


class _StoredKeys(msgspec.Struct, frozen=True):
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class User(msgspec.Struct, frozen=True):
    """One user with the keys of each mechanism that the user may log in with."""

    name: str
    keys: Mapping[Mechanism, ScramKeys] = msgspec.field(
        default_factory=lambda: MappingProxyType({})
    )

    def with_keys(self, mechanism: Mechanism, keys: ScramKeys | None) -> User:
        """The same with one mechanism's keys replaced, or removed."""
        others = {name: value for name, value in self.keys.items() if name != mechanism}
        if keys is not None:
            others[mechanism] = keys
        return User(self.name, MappingProxyType(others))


def check_user_name(name: str) -> None:
    """Hold a name to the rule, whichever protocol it came by.

    Raises:
        UnacceptableCredentialError: saying what the rule is.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = -1
    if not 0 < size <= MAX_USER_NAME_BYTES or "\0" in name:
        raise UnacceptableCredentialError(
            f"a user's name has 1 to {MAX_USER_NAME_BYTES} bytes of UTF-8 without zero bytes"
        )
    if is_key_id(name):  # or the user would have what rules and roles say of the key
        raise UnacceptableCredentialError(f"{name} is the form of an API key's id")


def new_user(name: str, password: str, salt: Callable[[], bytes]) -> User:
    """A user who may log in with this password by any mechanism. Takes milliseconds, on purpose."""
    check_user_name(name)
    keys = {each: keys_from_password(each, password, salt()) for each in SCRAM_HASHES}
    return User(name, MappingProxyType(keys))


def encode_user(user: User) -> bytes:
    """The stored form, without the name, which is the key it is stored under."""
    stored = {
        mechanism: _StoredKeys(keys.salt, keys.iterations, keys.stored_key, keys.server_key)
        for mechanism, keys in user.keys.items()
    }
    return msgspec.msgpack.encode(stored)


def decode_user(name: str, data: bytes) -> User:
    """Raises `CorruptCredentialError` when it is none."""
    try:
        stored = msgspec.msgpack.decode(data, type=dict[Mechanism, _StoredKeys])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptCredentialError(f"the stored keys of user {name!r} do not decode") from error
    if not stored.keys() <= SCRAM_HASHES.keys():
        raise CorruptCredentialError(f"user {name!r} has keys of a mechanism that has none")
    keys = {
        mechanism: ScramKeys(each.salt, each.iterations, each.stored_key, each.server_key)
        for mechanism, each in stored.items()
    }
    return User(name, MappingProxyType(keys))


class Decoys:
    """Keys for users who do not exist, so that nobody can tell them from those who do.

    They are made from a secret: the same name always gets the same salt, as a real user would.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def keys(self, name: str, mechanism: Mechanism, like: ScramKeys | None = None) -> ScramKeys:
        """Keys that no password has, and that look `like` those of a user."""
        salt_bytes = SALT_BYTES if like is None else len(like.salt)
        return ScramKeys(
            salt=self._salt(name, mechanism, salt_bytes),
            iterations=MIN_SCRAM_ITERATIONS if like is None else like.iterations,
            stored_key=self._derive(b"stored key", name, mechanism),
            server_key=self._derive(b"server key", name, mechanism),
        )

    def _salt(self, name: str, mechanism: Mechanism, size_bytes: int) -> bytes:
        salt = self._derive(b"salt", name, mechanism)
        while len(salt) < size_bytes:
            salt += self._derive(b"salt %d" % len(salt), name, mechanism)
        return salt[:size_bytes]

    def _derive(self, purpose: bytes, name: str, mechanism: Mechanism) -> bytes:
        said = b"\0".join((purpose, mechanism.encode(), name.encode("utf-8", "surrogatepass")))
        return hmac.digest(self._secret, said, SCRAM_HASHES[mechanism])


def has_password(
    user: User | None, password: str, decoy_of: Callable[[Mechanism], ScramKeys]
) -> bool:
    """Whether the user exists and has this password, for PLAIN.

    A wrong password is tried against every mechanism, with decoys where there are no keys, so that
    all refusals cost the same. The first match ends it: that tells only who knows the password.
    """
    for mechanism in SCRAM_HASHES:
        own = None if user is None else user.keys.get(mechanism)
        if password_matches(mechanism, own or decoy_of(mechanism), password) and own is not None:
            return True
    return False
