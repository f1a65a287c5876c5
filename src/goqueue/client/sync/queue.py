"""A member of a queue group, for programs without asyncio."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Self

from goqueue.client.errors import ClientClosedError
from goqueue.client.queues.messages import Delivered, QueueMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.client.queues.acknowledgements import Acknowledgement
    from goqueue.client.queues.queue import AsyncQueue
    from goqueue.client.sync.blocking import LoopThread
    from goqueue.model.topic_partition import TopicPartition


class Queue:
    """Iterate over it, inside of `with`; see `Client.queue`.

    Several threads may take from it at once, each its own messages.
    """

    def __init__(self, thread: LoopThread, inner: AsyncQueue) -> None:
        self._thread = thread
        self._acknowledged: list[tuple[Delivered, Acknowledgement]] = []
        """Acknowledgements of other threads that the loop has not taken over."""
        self._is_awake = False
        self._lock = Lock()
        """Of the two; nothing waits under it."""
        self._session = inner.session(self, QueueMessage)

    def __enter__(self) -> Self:
        self._thread.call(self._session.open())
        return self

    def __exit__(self, *_exc: object) -> None:
        self._thread.call(self._close())

    async def _close(self) -> None:
        self._take_over()
        await self._session.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> QueueMessage:
        while True:
            try:
                return self._session.messages.popleft()
            except IndexError:
                if not self._thread.call(self._session.wait()):
                    raise StopIteration from None

    def batches(self, size: int = 100) -> Iterator[list[QueueMessage]]:
        """What is there, up to so many messages at a time, waiting for the first."""
        for message in self:
            batch = [message]
            messages = self._session.messages
            while messages and len(batch) < size:
                try:
                    batch.append(messages.popleft())
                except IndexError:
                    break  # another thread was faster
            yield batch

    def settle(self, message: Delivered, said: Acknowledgement, *, wait: bool) -> None:
        """What the methods of a message do."""
        if self._session.is_closed:
            raise ClientClosedError("the queue was closed, and its messages were returned")
        if wait:
            self._thread.call(self._settle(message, said))
            return
        with self._lock:
            self._acknowledged.append((message, said))
            if self._is_awake:
                return
            self._is_awake = True
        self._thread.loop.call_soon_threadsafe(self._take_over)

    async def _settle(self, message: Delivered, said: Acknowledgement) -> None:
        self._take_over()
        await self._session.settle(message, said)

    def _take_over(self) -> None:
        """Take over what other threads have said, in the order in which they said it."""
        with self._lock:
            said, self._acknowledged, self._is_awake = self._acknowledged, [], False
        with suppress(ClientClosedError):  # whoever closes a queue has handed its messages back
            for message, acknowledgement in said:
                self._session.settle(message, acknowledgement)

    def drain(self) -> None:
        """Take no more messages, and return those that were not handed out to the group.

        Iterating ends, in all threads. What was handed out can still be acknowledged, until the
        queue is closed.

        Raises:
            GoQueueError: no broker answers, or it refuses.
        """
        self._thread.call(self._session.drain())

    def flush(self) -> None:
        """Return when every acknowledgement so far is stored.

        Raises:
            GoQueueError: the first that was not, since the last flush.
        """
        self._thread.call(self._flush())

    async def _flush(self) -> None:
        self._take_over()
        await self._session.acknowledger.flush()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member takes from at the moment."""
        return self._session.assignment
