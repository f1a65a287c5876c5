"""Transactions on topics and the records of their partitions, in as many parts as they need."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cluster.metadata import (
    ABSENT,
    Committed,
    Condition,
    Conflict,
    Delete,
    Entry,
    MetadataStore,
    Put,
    Revision,
    TransactionResult,
)
from goqueue.cluster.records import (
    DeletedTopic,
    PartitionKey,
    PartitionRecord,
    decode,
    encode,
)
from goqueue.model.errors import MetadataUnavailableError
from goqueue.topics.stored_topic import DELETED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


logger = logging.getLogger(__name__)

RECORDS_A_TRANSACTION: Final = 60
"""Each takes a condition and an operation of the 128 that a transaction may have."""
_READINGS: Final = 5
_READING_S: Final = 0.2
"""How often, and how far apart, the store is asked what became of a change whose answer was
lost."""


class TopicWriter:
    """Writes what one transaction cannot hold, and finds out about answers that were lost."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def write_early(
        self, name: str, records: Mapping[PartitionKey, PartitionRecord]
    ) -> Condition:
        """Write records before their topic; returns that the first of them is still there.

        The controller, which removes such records when no topic follows, begins with the first.
        """
        keys = list(records)
        revisions = []
        for start in range(0, len(keys), RECORDS_A_TRANSACTION):
            chunk = keys[start : start + RECORDS_A_TRANSACTION]
            result = await self._store.transact(
                [Condition(str(key), ABSENT) for key in chunk],
                [Put(str(key), encode(records[key])) for key in chunk],
            )
            revision = await self.settled(result, str(chunk[0]), records[chunk[0]].token)
            if revision is None:
                raise changing(name)
            revisions.append(revision)
        return Condition(str(keys[0]), revisions[0])

    async def mark_files_removed(self, topic_id: UUID, node_id: int) -> None:
        """A node has no files of a deleted topic any more; the last one removes the mark."""
        key = DELETED + topic_id.hex
        for _ in range(_READINGS):
            entry = await self._store.get(key)
            if entry is None:
                return
            mark = decode(entry.value, DeletedTopic, key)
            left = tuple(each for each in mark.nodes if each != node_id)
            operation = Put(key, encode(DeletedTopic(mark.name, left))) if left else Delete(key)
            if left == mark.nodes or isinstance(
                await self._store.transact([Condition(key, entry.revision)], [operation]), Committed
            ):
                return
        raise MetadataUnavailableError(f"deleted topic {topic_id} could not be marked; try again")

    async def settled(self, result: TransactionResult, key: str, token: str) -> Revision | None:
        """At which revision a transaction happened, None if it did not.

        Raises:
            MetadataUnavailableError: its answer was lost, and the store does not have it yet.
        """
        if isinstance(result, Committed):
            return result.revision
        if isinstance(result, Conflict):
            return None
        for attempt in range(_READINGS):
            if attempt:
                await asyncio.sleep(_READING_S)
            entry = await self.read_again(key)
            if entry is not None and _token_of(entry) == token:
                return entry.revision
        raise MetadataUnavailableError(
            f"whether {key!r} was written is not known ({result.reason}): look at it, and try again"
        )

    async def read_again(self, key: str) -> Entry | None:
        """A key as it is now; None also when the store cannot be asked."""
        try:
            return await self._store.get(key)
        except MetadataUnavailableError as error:
            logger.info("%r could not be read: %s", key, error)
            return None


class _Token(msgspec.Struct):
    token: str = ""


def _token_of(entry: Entry) -> str:
    return decode(entry.value, _Token, entry.key).token


def changing(name: str) -> MetadataUnavailableError:
    """Somebody else was first."""
    return MetadataUnavailableError(
        f"topic {name!r} could not be changed because it was changing already; try again"
    )
