"""A member of a group, for programs without asyncio.

Messages are taken in the caller's thread, from chunks that the loop's thread hands over whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.client.consuming.consumer import AsyncConsumer
from goqueue.client.sync.blocking import BlockingBlock, blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.client.types import Message
    from goqueue.model.topic_partition import TopicPartition


class Consumer(BlockingBlock[AsyncConsumer]):
    """Iterate over it, inside of `with`; see `Client.subscribe`."""

    commit = blocking(AsyncConsumer.commit)

    def __iter__(self) -> Iterator[Message]:
        while self._more():
            yield from self._inner.inbox.rows

    def __next__(self) -> Message:
        while True:
            for message in self._inner.inbox.rows:
                return message
            if not self._more():
                raise StopIteration

    def batches(self, size: int = 500) -> Iterator[list[Message]]:
        """Up to so many messages at once; see `AsyncConsumer.batches`."""
        if size < 1:
            raise ValueError(f"size: {size} is not 1 or more")
        while True:
            batch = self._inner.inbox.take_batch(size)
            if batch:
                yield batch
            elif not self._more():
                return

    def _more(self) -> bool:
        """Wait until something can be taken; False when nothing will come any more."""
        inner = self._inner
        while not inner.inbox.advance():
            if not self._thread.call(inner.wait()):
                return False
        self._thread.loop.call_soon_threadsafe(inner.taken)
        return True

    @property
    def inner(self) -> AsyncConsumer:
        """The one on asyncio that this one is made of."""
        return self._inner

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member reads at the moment."""
        return self._inner.assignment
