"""A member of a group, for programs without asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from goqueue.client.consumer import AsyncConsumer
from goqueue.client.sync.blocking import BlockingBlock, blocking

if TYPE_CHECKING:
    from goqueue.client.types import Message
    from goqueue.model.topic_partition import TopicPartition


class Consumer(BlockingBlock[AsyncConsumer]):
    """Iterate over it, inside of `with`; see `Client.subscribe`."""

    commit = blocking(AsyncConsumer.commit)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        while (message := self._inner.take()) is None:
            if not self._thread.call(self._inner.wait()):
                raise StopIteration
        if self._inner.has_news:
            self._thread.loop.call_soon_threadsafe(self._inner.taken)
        return message

    @property
    def inner(self) -> AsyncConsumer:
        """The one on asyncio that this one is made of."""
        return self._inner

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member reads at the moment."""
        return self._inner.assignment
