"""A member of a group, for programs without asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from goqueue.client.consumer import AsyncConsumer
    from goqueue.client.sync_client import LoopThread
    from goqueue.client.types import Message, Place


class Consumer:
    """Iterate over it, inside of `with`; see `Client.subscribe`."""

    def __init__(self, thread: LoopThread, inner: AsyncConsumer) -> None:
        self._thread = thread
        self._inner = inner

    def __enter__(self) -> Self:
        self._thread.call(self._inner.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        self._thread.call(self._inner.__aexit__(kind))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        while (message := self._inner.take()) is None:
            if not self._thread.call(self._inner.wait()):
                raise StopIteration
        if self._inner.has_news:
            self._thread.loop.call_soon_threadsafe(self._inner.taken)
        return message

    def commit(self) -> None:
        """Note that everything taken so far is done, also the message in hand.

        Raises:
            GoQueueError: it is not noted; the messages will be handed out again.
        """
        self._thread.call(self._inner.commit())

    @property
    def inner(self) -> AsyncConsumer:
        """The one on asyncio that this one is made of."""
        return self._inner

    @property
    def assignment(self) -> frozenset[Place]:
        """The partitions that this member reads at the moment."""
        return self._inner.assignment
