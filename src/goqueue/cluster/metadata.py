"""The metadata store: a small sorted map that changes by compare-and-set and can be watched.

Everything that nodes must agree on lives behind this interface: topics, their settings, leaders,
epochs. One node keeps it in a file (`sqlite_store`), a cluster in etcd (`etcd_store`), and nothing
above has to know.

Every transaction that changes something gets the next *revision*, one counter for the whole store.
A key remembers the revision that last wrote it, and a condition names that number: "this key has
not changed since I read it". The usual life of a reader is `range` once, then `watch` after the
revision of that reading: between the two nothing is missed and nothing is seen twice.

The calls are coroutines because an answer may be a disk sync or a network away.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NewType, Protocol, TypeAlias

import msgspec

from goqueue.model.errors import InvalidMetadataRequestError
from goqueue.model.limits import (
    MAX_METADATA_KEY_BYTES,
    MAX_METADATA_TRANSACTION_BYTES,
    MAX_METADATA_TRANSACTION_KEYS,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

Revision = NewType("Revision", int)
"""Counts the transactions that changed the store; 0 is the empty store."""

SessionId = NewType("SessionId", int)
"""Names one session."""

ABSENT: Final = Revision(0)
"""As the revision of a condition: the key does not exist."""


class Entry(msgspec.Struct, frozen=True):
    """One key as it is stored."""

    key: str
    value: bytes
    revision: Revision
    """The transaction that last wrote the key."""
    session: SessionId | None = None
    """The session that the key goes away with."""


class Snapshot(msgspec.Struct, frozen=True):
    """Keys, sorted, as they all were at one revision."""

    entries: tuple[Entry, ...]
    revision: Revision


class Condition(msgspec.Struct, frozen=True):
    """Holds while the key's revision is this one; `ABSENT`: while there is no such key."""

    key: str
    revision: Revision


class Put(msgspec.Struct, frozen=True):
    """Write a value; with a session, until that session ends."""

    key: str
    value: bytes
    session: SessionId | None = None


class Delete(msgspec.Struct, frozen=True):
    """Remove a key; that it is gone already is fine."""

    key: str


Operation: TypeAlias = Put | Delete


class Committed(msgspec.Struct, frozen=True):
    """Every operation happened, durably, at this revision; if none changed a thing, at the last."""

    revision: Revision


class Conflict(msgspec.Struct, frozen=True):
    """A condition did not hold, so nothing happened."""

    current: Mapping[str, Entry | None]
    """Every key that the conditions named, as it is now."""


class Unknown(msgspec.Struct, frozen=True):
    """The answer was lost: the transaction happened, may still happen, or never will.

    A member of etcd that was paused with the request in its hands does it when it goes on. So a
    reading that does not find it proves nothing. A writer that must know puts a token of its own
    into the value and writes again under the same conditions: at most one of the two happens, and
    the token in what is stored then tells which.
    """

    reason: str


TransactionResult: TypeAlias = Committed | Conflict | Unknown


class Change(msgspec.Struct, frozen=True):
    """One key's new value; None when it was removed."""

    key: str
    value: bytes | None


class Changes(msgspec.Struct, frozen=True):
    """What one transaction did to the watched keys, sorted by key."""

    revision: Revision
    """Of every key in it that was written: the revision that a condition names."""
    changes: tuple[Change, ...]


class StoreMember(msgspec.Struct, frozen=True):
    """One process of the consensus engine."""

    name: str
    client_urls: tuple[str, ...] = ()
    is_leader: bool = False


class StoreStatus(msgspec.Struct, frozen=True):
    """How the store is, for readiness and for people."""

    revision: Revision
    oldest_watchable: Revision
    """The lowest revision that a watch may start after; etcd tells it only to a watch that asked
    for less, so it is what was heard last."""
    size_bytes: int
    members: tuple[StoreMember, ...] = ()
    """Of the consensus engine; a file has none."""
    leader: str | None = None
    """The name of the member that leads; None when there is none."""
    is_healthy: bool = True
    """Whether it answers readings and commits writes."""
    version: str = ""
    """Of the consensus engine."""
    alarm: str | None = None
    """What it has raised an alarm for, as etcd calls it: NOSPACE, CORRUPT."""


class MetadataStore(Protocol):
    """What every backend promises. Every call may raise `MetadataUnavailableError`."""

    async def get(self, key: str) -> Entry | None:
        """The newest committed state of one key."""

    async def range(self, prefix: str) -> Snapshot:
        """Every key that starts with `prefix`; the empty prefix is every key.

        However many there are, they are as they all were at the one revision that is told.
        """

    async def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> TransactionResult:
        """When every condition holds, do every operation, all at one revision; else nothing.

        It is tried once and never again inside: what `Unknown` leaves open, the caller resolves.
        An error means that nothing happened.

        Raises:
            InvalidMetadataRequestError: over a limit, or two operations on one key.
            SessionLapsedError: a `Put` names a session that has ended.
        """

    def watch(self, prefix: str, after: Revision) -> AsyncIterator[Changes]:
        """Every later change of the keys under `prefix`, in order and without gaps, for ever.

        Raises:
            MetadataCompactedError: changes after that revision have been forgotten, at the start
                or because the watcher was too slow.
        """

    async def open_session(self, ttl_ms: int) -> SessionId:
        """Start a session that ends by itself `ttl_ms` after its last heartbeat."""

    async def keep_alive(self, session: SessionId) -> None:
        """Move the session's deadline to a full `ttl_ms` from now.

        Raises:
            SessionLapsedError: it ended before this call.
        """

    async def end_session(self, session: SessionId) -> None:
        """End it now: its keys go away in one transaction. One that has ended is fine."""

    async def status(self) -> StoreStatus:
        """How the store is."""

    async def close(self) -> None:
        """Finish what was begun and let go of the file or the connection; watchers are told."""


def encode_key(key: str) -> bytes:
    """The stored form of a key, whose byte order is the order of the strings."""
    try:
        encoded = key.encode()
    except UnicodeEncodeError as error:
        raise InvalidMetadataRequestError(f"the key {key!r} is not valid text") from error
    if not 0 < len(encoded) <= MAX_METADATA_KEY_BYTES:
        raise InvalidMetadataRequestError(
            f"a key of {len(encoded)} bytes, expected 1 to {MAX_METADATA_KEY_BYTES}"
        )
    return encoded


def check_transaction(conditions: Sequence[Condition], operations: Sequence[Operation]) -> None:
    """Hold a transaction to the bounds that every backend keeps, so that none is a surprise."""
    count = len(conditions) + len(operations)
    if count > MAX_METADATA_TRANSACTION_KEYS:
        raise InvalidMetadataRequestError(
            f"{count} conditions and operations in one transaction, "
            f"expected at most {MAX_METADATA_TRANSACTION_KEYS}"
        )
    size = sum(len(encode_key(item.key)) for item in (*conditions, *operations))
    size += sum(len(item.value) for item in operations if isinstance(item, Put))
    if size > MAX_METADATA_TRANSACTION_BYTES:
        raise InvalidMetadataRequestError(
            f"{size} bytes in one transaction, expected at most {MAX_METADATA_TRANSACTION_BYTES}"
        )
    if len({operation.key for operation in operations}) != len(operations):
        raise InvalidMetadataRequestError("two operations of one transaction name the same key")


CLUSTER_ID_KEY: Final = "cluster/id"


async def cluster_id(store: MetadataStore) -> str:
    """The id in the store; made now when there is none.

    The candidate is its own token: after an answer that was lost, the next reading tells whether it
    is the one that was kept.
    """
    while (entry := await store.get(CLUSTER_ID_KEY)) is None:
        candidate = new_uuid_text()
        await store.transact(
            [Condition(CLUSTER_ID_KEY, ABSENT)], [Put(CLUSTER_ID_KEY, candidate.encode())]
        )
    return entry.value.decode()


def new_uuid_text() -> str:
    """A random id as Kafka writes them: 22 characters of URL-safe base64, not starting with `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
