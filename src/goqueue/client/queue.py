"""A queue as a program on asyncio takes from it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from goqueue.client.acknowledging import (
    Acknowledgement,
    PendingAcknowledgement,
)
from goqueue.client.errors import ClientClosedError
from goqueue.client.outgoing import to_ms
from goqueue.client.queue_messages import AsyncQueueMessage
from goqueue.client.queue_stream import M, QueueStream
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from goqueue.client.channels import Channels
    from goqueue.client.delivered_messages import Run
    from goqueue.client.types import Time
    from goqueue.model.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

PREFETCH: Final = 500
_MAX_PREFETCH: Final = 5000
_MAX_BATCH: Final = 500
_MODES: Final = {"shared": pb.ASSIGNMENT_SHARED, "exclusive": pb.ASSIGNMENT_EXCLUSIVE}
_IN_A_ROW: Final = 128
"""Messages that are handed to a program before others of the loop have their turn."""
_REASON_CHARS: Final = 500


class AsyncQueue:
    """Iterate over it, inside of `async with`; see `AsyncClient.queue`.

    Several tasks may take from it at once, each its own messages.
    """

    def __init__(self, channels: Channels, join: pb.SubscribeJoin) -> None:
        self._channels = channels
        self._join = join
        self._stream = self.stream(partial(AsyncQueueMessage, self))
        self._in_a_row = 0

    def stream(self, make: Callable[[Run, int], M]) -> QueueStream[M]:
        """The stream behind the queue, for messages of one class or another."""
        return QueueStream(self._channels, self._join, make)

    async def __aenter__(self) -> Self:
        """Join the group.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        await self._stream.open()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Leave the group. Unacknowledged messages are redelivered, to others."""
        await self._stream.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncQueueMessage:
        messages = self._stream.messages
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        if not messages:
            self._in_a_row = 0
            if not await self._stream.wait():
                raise StopAsyncIteration
        return messages.popleft()

    async def batches(self, size: int = 100) -> AsyncIterator[list[AsyncQueueMessage]]:
        """What is there, up to so many messages at a time, waiting for the first."""
        messages = self._stream.messages
        while await self._stream.wait():
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

    def settle(
        self,
        message: AsyncQueueMessage,
        verdict: pb.Verdict.ValueType,
        reason: str = "",
        delay_ms: int | None = None,
    ) -> PendingAcknowledgement:
        """What the methods of a message do."""
        return self._stream.settle(message, Acknowledgement(verdict, reason, delay_ms))

    async def flush(self) -> None:
        """Return when every acknowledgement so far is stored.

        Raises:
            GoQueueError: the first that was not, since the last flush.
        """
        await self._stream.acknowledger.flush()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member takes from at the moment."""
        return self._stream.assignment


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
) -> pb.SubscribeJoin:
    """What a member says when it joins; see `AsyncClient.queue`.

    Raises:
        ValueError: something that no broker would take.
    """
    if assignment not in _MODES:
        raise ValueError(f"assignment: {assignment!r} is not one of {', '.join(_MODES)}")
    if not 1 <= prefetch <= _MAX_PREFETCH:
        raise ValueError(f"prefetch: {prefetch} is not 1 to {_MAX_PREFETCH}")
    visibility_ms = to_ms(visibility)
    if visibility_ms == 0:
        raise ValueError("visibility: a message is a member's for a millisecond or more")
    return pb.SubscribeJoin(
        group=group,
        topics=topics,
        client_id=client_id,
        start_at_latest=start == "latest",
        assignment=_MODES[assignment],
        visibility_timeout_ms=visibility_ms or 0,
        max_deliveries=max_deliveries or 0,
        max_unacked=max_unacked or 0,
        window=prefetch,
        max_messages=min(prefetch, _MAX_BATCH),
        columns=True,
    )
