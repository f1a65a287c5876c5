"""A queue as a program on asyncio takes from it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from goqueue.client.errors import ClientClosedError
from goqueue.client.queues.member import Join
from goqueue.client.queues.messages import AsyncQueueMessage
from goqueue.client.queues.session import QueueSession
from goqueue.client.times import to_ms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from goqueue.client.link.link import Link
    from goqueue.client.queues.messages import Owner
    from goqueue.client.queues.session import M
    from goqueue.client.types import Time
    from goqueue.model.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

PREFETCH: Final = 500
_MAX_PREFETCH: Final = 5000
_MODES: Final = {"shared": 0, "exclusive": 1}
_IN_A_ROW: Final = 128
"""Messages that are handed to a program before others of the loop have their turn."""
_REASON_CHARS: Final = 500


class AsyncQueue:
    """Iterate over it, inside of `async with`; see `AsyncClient.queue`.

    Several tasks may take from it at once, each its own messages.
    """

    def __init__(self, link: Link, join: Join) -> None:
        self._link = link
        self._join = join
        self._session: QueueSession[AsyncQueueMessage] = QueueSession(link, join, AsyncQueueMessage)
        self._in_a_row = 0

    def session(self, owner: Owner, kind: type[M]) -> QueueSession[M]:
        """The member behind the queue, for messages of another class."""
        return QueueSession(self._link, self._join, kind, owner)

    async def __aenter__(self) -> Self:
        """Join the group.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        await self._session.open()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Leave the group. Unacknowledged messages are redelivered, to others."""
        await self._session.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncQueueMessage:
        messages = self._session.messages
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        if not messages:
            self._in_a_row = 0
            if not await self._session.wait():
                raise StopAsyncIteration
        return messages.popleft()

    async def batches(self, size: int = 100) -> AsyncIterator[list[AsyncQueueMessage]]:
        """What is there, up to so many messages at a time, waiting for the first."""
        messages = self._session.messages
        while await self._session.wait():
            yield [messages.popleft() for _ in range(min(size, len(messages)))]
            await asyncio.sleep(0)

    async def process(
        self,
        work: Callable[[AsyncQueueMessage], Awaitable[object]],
        *,
        concurrency: int = 1,
    ) -> None:
        """Do something with each message, several at a time, until the queue is closed.

        When `work` returns, the message is acknowledged; when it raises, it is returned with
        the error as the reason, and is redelivered. What `work` itself has acknowledged stays so.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._process(work))

    async def _process(self, work: Callable[[AsyncQueueMessage], Awaitable[object]]) -> None:
        async for message in self:
            failure: Exception | None = None
            try:
                await work(message)
            except Exception as error:  # noqa: BLE001 - whatever it is, the message has failed
                logger.warning("%r is redelivered: %r", message, error)
                failure = error
            if message.is_settled:
                continue
            with suppress(ClientClosedError):  # then it was returned
                if failure is None:
                    message.ack()
                else:
                    message.nack(reason=repr(failure)[:_REASON_CHARS])

    async def drain(self) -> None:
        """Take no more messages, and return those that were not handed out to the group.

        Iterating ends. What was handed out can still be acknowledged, until the queue is closed.

        Raises:
            GoQueueError: no broker answers, or it refuses.
        """
        await self._session.drain()

    async def flush(self) -> None:
        """Return when every acknowledgement so far is stored.

        Raises:
            GoQueueError: the first that was not, since the last flush.
        """
        await self._session.acknowledger.flush()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member takes from at the moment."""
        return self._session.assignment


def queue_join(
    group: str,
    topics: Sequence[str],
    *,
    assignment: str,
    visibility: Time | None,
    prefetch: int,
    max_deliveries: int | None,
    max_unacked: int | None,
    start: str,
    client_id: str,
) -> Join:
    """What a member says when it joins; see `AsyncClient.queue`.

    Raises:
        ValueError: something that no broker would take.
    """
    if assignment not in _MODES:
        raise ValueError(f"assignment: {assignment!r} is not one of {', '.join(_MODES)}")
    if not 1 <= prefetch <= _MAX_PREFETCH:
        raise ValueError(f"prefetch: {prefetch} is not 1 to {_MAX_PREFETCH}")
    if isinstance(topics, str):
        raise TypeError(f"topics: expected a list of names, not the one name {topics!r}")
    visibility_ms = to_ms(visibility)
    if visibility_ms == 0:
        raise ValueError("visibility: a message is a member's for a millisecond or more")
    return Join(
        group,
        tuple(topics),
        f"{client_id or 'goqueue-python'}-{uuid.uuid4()}",
        _MODES[assignment],
        visibility_ms or 0,
        prefetch,
        max_deliveries or 0,
        max_unacked or 0,
        start == "latest",
    )
