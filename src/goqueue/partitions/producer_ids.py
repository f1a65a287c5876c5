"""Producer ids: each given to one producer and never to another, also across restarts."""

from __future__ import annotations

import asyncio
from typing import Final

from goqueue.cluster.metadata import ABSENT, Committed, Condition, MetadataStore, Put
from goqueue.model.errors import InvariantError, MetadataUnavailableError

BLOCK_SIZE: Final = 1000
"""Ids reserved at once; those of a block that a stopped broker did not use are never used."""

NEXT_BLOCK_KEY: Final = "producer-ids/next-block"
_ATTEMPTS: Final = 10
"""As often as other nodes may be first, before a producer is told to try again."""


class ProducerIds:
    """Hands out ids from blocks that the metadata store reserves."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()

    async def allocate(self) -> int:
        """An id that nobody has."""
        return self.take(await self.peek())

    async def peek(self) -> int:
        """The id that would be given next. It is nobody's until it is taken, before an await."""
        async with self._reserving:
            if self._next == self._end:
                await self._reserve()
        return self._next

    def take(self, producer_id: int) -> int:
        """Give out the id that `peek` has just shown."""
        if producer_id != self._next or self._next == self._end:
            raise InvariantError(f"producer id {producer_id} is not the next one, {self._next}")
        self._next += 1
        return producer_id

    def discard(self) -> None:
        """Give out none of the ids that are reserved: a backup that was restored may have them."""
        self._next = self._end = 0

    async def _reserve(self) -> None:
        """Reserve the next block.

        Other nodes reserve theirs at the same time: whoever was later reads and tries again. Of a
        block whose answer was lost nobody knows whose it is, so it is nobody's.
        """
        for _ in range(_ATTEMPTS):
            entry = await self._store.get(NEXT_BLOCK_KEY)
            start = int(entry.value) if entry else 0
            condition = Condition(NEXT_BLOCK_KEY, entry.revision if entry else ABSENT)
            put = Put(NEXT_BLOCK_KEY, str(start + BLOCK_SIZE).encode())
            if isinstance(await self._store.transact([condition], [put]), Committed):
                self._next, self._end = start, start + BLOCK_SIZE
                return
        raise MetadataUnavailableError("no producer ids could be reserved; try again")
