"""What the metadata store holds of users: all but which nodes and topics there are.

Keys are taken by what they are not: whatever a later version keeps in the store, such as rights or
tenants, comes along by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cluster.metadata import ABSENT, Committed, Condition, Put, Unknown
from goqueue.cluster.records import CONTROLLER, FENCES, MEMBERS, NODES, PARTITIONS
from goqueue.model.errors import BackupUnavailableError, DamagedBackupError
from goqueue.partitions.producer_ids import NEXT_BLOCK_KEY
from goqueue.topics.stored_topic import DELETED, TOPICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.cluster.metadata import MetadataStore

LAST_RUN_KEY: Final = "backup/last-run"
_LEFT_OUT: Final = (
    "cluster/",
    CONTROLLER,
    NODES,
    FENCES,
    MEMBERS,
    PARTITIONS,
    TOPICS,
    DELETED,
    "moves/",
    LAST_RUN_KEY,
)
"""Which nodes there are and who leads what is for the restored broker to say; topics are made anew
from what the manifest says of them."""
_ATTEMPTS: Final = 10


async def capture_keys(store: MetadataStore) -> dict[str, bytes]:
    """The keys to keep, as they all were at one moment."""
    snapshot = await store.range("")
    return {
        entry.key: entry.value
        for entry in snapshot.entries
        if entry.session is None and not entry.key.startswith(_LEFT_OUT)
    }


def encode_keys(keys: Mapping[str, bytes]) -> bytes:
    """The file that a backup keeps them in."""
    return msgspec.msgpack.encode(dict(keys))


def decode_keys(data: bytes) -> dict[str, bytes]:
    """The keys in such a file. Raises `DamagedBackupError`."""
    try:
        keys = msgspec.msgpack.decode(data, type=dict[str, bytes])
    except msgspec.MsgspecError as error:
        raise DamagedBackupError(f"the keys of the metadata cannot be read: {error}") from error
    return {key: value for key, value in keys.items() if not key.startswith(_LEFT_OUT)}


async def restore_keys(store: MetadataStore, keys: Mapping[str, bytes]) -> list[str]:
    """Write the keys that are not there; returns those that were, and stay as they are.

    Producer ids go on behind those that the backup has given out.
    """
    skipped: list[str] = []
    for key, value in sorted(keys.items()):
        if key == NEXT_BLOCK_KEY:
            await _raise_block(store, int(value))
        elif not await _put(store, key, value):
            skipped.append(key)
    return skipped


async def _put(store: MetadataStore, key: str, value: bytes) -> bool:
    for _ in range(_ATTEMPTS):
        result = await store.transact([Condition(key, ABSENT)], [Put(key, value)])
        if not isinstance(result, Unknown):
            return isinstance(result, Committed)
        found = await store.get(key)
        if found is not None:
            return found.value == value
    raise _undecided(key)


async def _raise_block(store: MetadataStore, block: int) -> None:
    for _ in range(_ATTEMPTS):
        found = await store.get(NEXT_BLOCK_KEY)
        if found is not None and int(found.value) >= block:
            return
        condition = Condition(NEXT_BLOCK_KEY, ABSENT if found is None else found.revision)
        put = Put(NEXT_BLOCK_KEY, str(block).encode())
        if isinstance(await store.transact([condition], [put]), Committed):
            return
    raise _undecided(NEXT_BLOCK_KEY)


def _undecided(key: str) -> BackupUnavailableError:
    return BackupUnavailableError(f"the metadata store does not take {key}: try again")
