"""PublishService: messages in, one by one or in a stream, and identities for producers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from goqueue.broker.messages import ProducerSequence
from goqueue.model.errors import GoQueueError
from goqueue.protocols.grpc.errors import to_error
from goqueue.protocols.grpc.v1 import goqueue_pb2 as pb
from goqueue.protocols.grpc.v1.goqueue_pb2_grpc import PublishServiceServicer
from goqueue.protocols.grpc.wire import acks_of, new_messages, publish_response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grpc.aio import ServicerContext

    from goqueue.broker.broker import Broker
    from goqueue.broker.messages import Publishing
    from goqueue.protocols.grpc.interceptor import OpenStreams

MAX_IN_FLIGHT: Final = 100
"""Requests of one stream that are stored and not answered; then no more of them are read, and the
client's writes wait."""


class PublishService(PublishServiceServicer):
    """Messages on their way in."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def Publish(
        self, request: pb.PublishRequest, context: ServicerContext[Any, Any]
    ) -> pb.PublishResponse:
        """One request, one answer."""
        return publish_response(request.correlation_id, await self._begin(request).settled())

    async def InitProducer(
        self, request: pb.InitProducerRequest, context: ServicerContext[Any, Any]
    ) -> pb.InitProducerResponse:
        """An id that no producer has had."""
        producer_id = await self._broker.producer_ids.allocate()
        return pb.InitProducerResponse(producer_id=producer_id, epoch=0)

    async def PublishStream(  # type: ignore[override]  # it writes to its context
        self,
        request_iterator: AsyncIterator[pb.PublishRequest],
        context: ServicerContext[pb.PublishRequest, pb.PublishResponse],
    ) -> None:
        """Store requests as they come; answer each when it is durable, in their order."""
        begun: asyncio.Queue[_Begun | None] = asyncio.Queue(MAX_IN_FLIGHT)
        reader = asyncio.create_task(self._take_in(request_iterator, begun))
        try:
            self._streams.add(reader)
            while (one := await begun.get()) is not None:
                await context.write(await one.response())
            if not reader.cancelled():
                await reader
        finally:
            reader.cancel()

    async def _take_in(
        self, requests: AsyncIterator[pb.PublishRequest], begun: asyncio.Queue[_Begun | None]
    ) -> None:
        """Store what comes, until the client or the server has had enough."""
        try:
            async for request in requests:
                await begun.put(self._begun(request))
        finally:
            await begun.put(None)

    def _begun(self, request: pb.PublishRequest) -> _Begun:
        """A request that is refused is answered so, and the stream goes on."""
        try:
            return _Begun(request.correlation_id, self._begin(request))
        except GoQueueError as error:
            return _Begun(request.correlation_id, error)

    def _begin(self, request: pb.PublishRequest) -> Publishing:
        producer = None
        if request.HasField("producer"):
            sent = request.producer
            producer = ProducerSequence(sent.producer_id, sent.epoch, sent.first_sequence)
        return self._broker.writer.begin(
            request.topic,
            new_messages(request, self._broker.clock.now_ms()),
            acks_of(request),
            producer,
        )


class _Begun:
    """A request of a stream: stored and perhaps not durable yet, or refused."""

    __slots__ = ("_correlation_id", "_outcome")

    def __init__(self, correlation_id: int, outcome: Publishing | GoQueueError) -> None:
        self._correlation_id = correlation_id
        self._outcome = outcome

    async def response(self) -> pb.PublishResponse:
        if isinstance(self._outcome, GoQueueError):
            return pb.PublishResponse(
                correlation_id=self._correlation_id, error=to_error(self._outcome)
            )
        return publish_response(self._correlation_id, await self._outcome.settled())
