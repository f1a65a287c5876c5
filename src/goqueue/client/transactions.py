"""Transactions: messages, and the offsets of what was read for them, that count all or not at all.

A transaction is used in `async with`: it commits at the end of the block, and aborts when an
exception leaves it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from goqueue.client.consumer import AsyncConsumer
from goqueue.client.errors import ClientClosedError, raise_first
from goqueue.client.outgoing import Item, to_ms
from goqueue.client.reading import to_offsets
from goqueue.model.errors import GoQueueError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.client.transaction_producers import TransactionalProducer, TransactionalProducers
    from goqueue.client.types import Content, Headers, Time
    from goqueue.model.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_MAX_BUFFERED: Final = 1000
"""Messages that wait in a transaction before they are sent; then the publisher waits for that."""
_MAX_BUFFERED_BYTES: Final = 1024 * 1024


class AsyncTransaction:
    """Use it in `async with`; see `AsyncClient.transaction`."""

    def __init__(
        self,
        producers: TransactionalProducers,
        transactional_id: str | None,
        timeout: Time | None,
    ) -> None:
        self._producers = producers
        self._wanted_id = transactional_id
        self._timeout_ms = to_ms(timeout) or 0
        self._producer: TransactionalProducer | None = None
        self._waiting: dict[str, pb.TransactionalPublishRequest] = {}
        self._waiting_count = self._waiting_bytes = 0
        self._sending = asyncio.Lock()
        self._heartbeats: asyncio.Task[None] | None = None
        self._failure: GoQueueError | None = None

    # --- From the beginning to the end -----------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin.

        Raises:
            GoQueueError: the broker refuses, or none answers.
        """
        producer = self._producers.take(self._wanted_id, self._timeout_ms)
        try:
            await producer.begin()
        except BaseException:
            self._producers.give_back(producer, self._timeout_ms)
            raise
        self._producer = producer
        self._heartbeats = asyncio.create_task(self._send_heartbeats(producer))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        """Commit, or abort when an exception leaves the block.

        Raises:
            GoQueueError: it could not be committed; nothing of it counts, unless the error says
                that this is not known.
        """
        if self._producer is None:
            return  # it was ended before
        if kind is not None:
            with suppress(GoQueueError):  # the one that brought us here is the one to be told
                await self.abort()
            return
        await self.commit()

    async def commit(self) -> None:
        """Send what waits, and let all of it count. The transaction is over then.

        Raises:
            GoQueueError: as `__aexit__` says.
        """
        try:
            await self.flush()
        except BaseException:
            with suppress(GoQueueError):
                await self.abort()
            raise
        producer = self._end()
        try:
            await producer.commit()
        finally:
            self._producers.give_back(producer, self._timeout_ms)

    async def abort(self) -> None:
        """Let nothing of it count. The transaction is over then."""
        producer = self._end()
        try:
            await producer.abort()
        finally:
            self._producers.give_back(producer, self._timeout_ms)

    def _end(self) -> TransactionalProducer:
        producer = self._open()
        self._producer = None
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        return producer

    def _open(self) -> TransactionalProducer:
        if self._producer is None:
            raise ClientClosedError("the transaction is over, or was not begun: use `with`")
        return self._producer

    async def _send_heartbeats(self, producer: TransactionalProducer) -> None:
        while True:
            await asyncio.sleep(producer.heartbeat_s)
            try:
                await producer.heartbeat()
            except GoQueueError as error:
                logger.info("the heartbeat of %s failed: %s", producer.transactional_id, error)

    # --- What belongs to it ----------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        value: Content,
        *,
        key: Content = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Hand a message over; it is sent with others, at the commit at the latest.

        Raises:
            GoQueueError: messages before it were refused; the transaction must be aborted.
            BatchTooLargeError: it exceeds the size limit.
        """
        if self.add(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        ):
            await self.flush()

    def add(
        self,
        topic: str,
        value: Content,
        *,
        key: Content = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> bool:
        """`publish` without sending; says whether it is time to `flush`."""
        producer = self._open()
        item = Item.of(_NOBODY_WAITS, value, key, headers, timestamp_ms)
        self._waiting_bytes += item.size_bytes()
        self._waiting_count += 1
        request = self._waiting.get(topic)
        if request is None:
            request = self._waiting[topic] = pb.TransactionalPublishRequest(
                producer=producer.identity, topic=topic
            )
        message = request.messages.add(
            value=item.value, key=item.key, partition=partition, timestamp_ms=timestamp_ms
        )
        for name, content in item.headers:
            message.headers.add(name=name, value=content)
        return self._waiting_count >= _MAX_BUFFERED or self._waiting_bytes >= _MAX_BUFFERED_BYTES

    async def flush(self) -> None:
        """Send what waits. It counts with the commit.

        Raises:
            GoQueueError: a message was refused, or it is not known what became of it.
        """
        producer = self._open()
        async with self._sending:
            requests = list(self._waiting.values())
            self._waiting.clear()
            self._waiting_count = self._waiting_bytes = 0
            for request in requests:
                await self._send(producer, request)
        if self._failure is not None:
            raise self._failure

    async def _send(
        self, producer: TransactionalProducer, request: pb.TransactionalPublishRequest
    ) -> None:
        if self._failure is not None:
            return
        try:
            answer = await producer.ask(
                lambda s: s.transactions.Publish, request, pb.TransactionalPublishResponse
            )
            raise_first(answer.results)
        except GoQueueError as error:
            self._failure = error

    async def send_offsets(
        self, source: AsyncConsumer | str, offsets: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Let it count with the commit how far messages were read.

        Args:
            source: The consumer that has read them, made with `auto_commit_ms=None`: everything
                taken from it so far, also the message in hand. Or the name of a group without
                members.
            offsets: Where that group goes on reading.

        Raises:
            GoQueueError: the group refuses, as when somebody else reads the partition meanwhile.
        """
        producer = self._open()
        member_id = ""
        if isinstance(source, AsyncConsumer):
            if source.auto_commits:
                raise ValueError(
                    "the consumer commits by itself: subscribe with auto_commit_ms=None"
                )
            offsets = source.inbox.positions(finished_only=False) if offsets is None else offsets
            member_id = source.member_id
        if not offsets:
            return
        request = pb.SendOffsetsRequest(
            producer=producer.identity,
            group=source if isinstance(source, str) else source.group,
            member_id=member_id,
            offsets=to_offsets(offsets),
        )
        answer = await producer.ask(
            lambda s: s.transactions.SendOffsets, request, pb.SendOffsetsResponse
        )
        raise_first(answer.outcomes)


class _Nobody:
    """Nobody waits for a single message of a transaction: the commit tells of all."""

    def done(self) -> bool:
        return True

    def set_result(self, result: object, /) -> None:
        """It is stored."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It failed."""

    def exception(self) -> BaseException | None:
        return None


_NOBODY_WAITS: Final = _Nobody()
