"""API keys: what is kept of one, and how one is made, presented and checked."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.access.roles import ADMIN

KEY_PREFIX: Final = "gq_"
ID_PREFIX: Final = "key_"
ROOT_ID: Final = "key_root"
"""The id of the key of the configuration, which is not stored."""
_ID: Final = re.compile(r"key_(?:[0-9a-f]{16}|root)")
_SHOWN_CHARS: Final = 11


class ApiKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key as it is stored, under its id: all but the key itself."""

    sha256: bytes
    """From it a key can be checked and not be found: keys are 32 random bytes."""
    shown: str
    """How the key starts, so that people recognise it."""
    name: str
    created_ms: int
    roles: tuple[str, ...] = ()
    tenant: str | None = None
    expires_ms: int | None = None
    is_revoked: bool = False
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)

    def is_valid(self, now_ms: int) -> bool:
        """Whether a client may log in with it."""
        return not self.is_revoked and (self.expires_ms is None or now_ms < self.expires_ms)

    def __repr__(self) -> str:
        return f"ApiKey({self.shown}…, {self.name!r})"  # neither the key nor its hash


def new_key() -> tuple[str, str]:
    """An id, and the key that is shown once."""
    return ID_PREFIX + secrets.token_hex(8), KEY_PREFIX + secrets.token_hex(32)


def shown_part(key: str) -> str:
    """What is kept of a key in plain sight."""
    return key[:_SHOWN_CHARS]


def hash_of(key: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def is_key_id(name: str) -> bool:
    """Whether a name is that of a key, which no user may have."""
    return _ID.fullmatch(name) is not None


class KeyIndex:
    """Keys by their hashes."""

    def __init__(self, keys: Mapping[str, ApiKey], root_key: str | None = None) -> None:
        self._ids = {key.sha256: key_id for key_id, key in keys.items()}
        self._keys = keys
        self._root = None if root_key is None else hash_of(root_key)

    def find(self, presented: str) -> tuple[str, ApiKey] | None:
        """The id and the record of a key that a client shows, valid or not.

        Its hash is looked up: how long that takes tells nothing about the keys themselves.
        """
        found = hash_of(presented)
        if self._root is not None and hmac.compare_digest(found, self._root):
            return ROOT_ID, ApiKey(found, KEY_PREFIX, "root key", 0, (ADMIN,))
        key_id = self._ids.get(found)
        return None if key_id is None else (key_id, self._keys[key_id])
