"""PublishService: messages in, one by one or in a stream, and identities for producers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

from goqueue.model.errors import GoQueueError
from goqueue.protocols.grpc.conversions import acks_of, publish_response, publish_row
from goqueue.protocols.grpc.errors import InvalidRequestError, to_error
from goqueue.protocols.grpc.limits import MAX_IN_FLIGHT
from goqueue.protocols.grpc.publish_requests import TURN_MESSAGES, Incoming
from goqueue.protocols.grpc.rights import TOPIC_WRITE, caller
from goqueue.publishing.messages import ProducerSequence
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import PublishServiceServicer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grpc.aio import ServicerContext

    from goqueue.broker.broker import Broker
    from goqueue.protocols.grpc.interceptor import OpenStreams
    from goqueue.publishing.messages import Misfits, Publishing
    from goqueue.publishing.new_messages import MessageResult, NewMessage
    from goqueue.runtime.tasks import Turns


class PublishService(PublishServiceServicer):
    """Messages on their way in."""

    def __init__(self, broker: Broker, streams: OpenStreams, turns: Turns) -> None:
        self._broker = broker
        self._streams = streams
        self._turns = turns
        self._incoming = Incoming(broker.clock, turns)

    async def Publish(
        self, request: pb.PublishRequest, context: ServicerContext[Any, Any]
    ) -> pb.PublishResponse:
        """One request, one answer."""
        publishing = await self._begin(request)
        results = await publishing.settled()
        if len(results) <= TURN_MESSAGES:
            return _answer(request)(request.correlation_id, results)
        async with self._turns.turn():
            return _answer(request)(request.correlation_id, results)

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
                await begun.put(await self._begun(request))
        finally:
            await begun.put(None)

    async def _begun(self, request: pb.PublishRequest) -> _Begun:
        """A request that is refused is answered so, and the stream goes on."""
        try:
            publishing = await self._begin(request)
            return _Begun(request.correlation_id, publishing, _answer(request))
        except GoQueueError as error:
            return _Begun(request.correlation_id, error)

    async def _begin(self, request: pb.PublishRequest) -> Publishing:
        """Store the messages of a request.

        A small one is stored before anything is awaited, unless its topic holds messages against
        schemas.
        """
        caller().require(TOPIC_WRITE, request.topic)
        if not request.HasField("columns"):
            messages = await self._incoming.rows(request.messages)
        elif request.messages:
            raise InvalidRequestError("a request has messages or columns, not both")
        else:
            messages = self._incoming.columns(request.columns)
        checked = await self._broker.writer.checked(request.topic, messages)
        if len(messages) <= TURN_MESSAGES and not checked:
            return self._store(request, messages, checked)
        async with self._turns.turn():
            return self._store(request, messages, checked)

    def _store(
        self, request: pb.PublishRequest, messages: list[NewMessage], checked: Misfits | None
    ) -> Publishing:
        producer = None
        if request.HasField("producer"):
            sent = request.producer
            producer = ProducerSequence(sent.producer_id, sent.epoch, sent.first_sequence)
        return self._broker.writer.begin(
            request.topic, messages, acks_of(request), producer, checked=checked
        )


_Answer: TypeAlias = "Callable[[int, list[MessageResult]], pb.PublishResponse]"


def _answer(request: pb.PublishRequest) -> _Answer:
    """How a request is answered: message by message, or as it came."""
    return publish_row if request.HasField("columns") else publish_response


class _Begun:
    """A request of a stream: stored and perhaps not durable yet, or refused."""

    __slots__ = ("_answer", "_correlation_id", "_outcome")

    def __init__(
        self,
        correlation_id: int,
        outcome: Publishing | GoQueueError,
        answer: _Answer = publish_response,
    ) -> None:
        self._correlation_id = correlation_id
        self._outcome = outcome
        self._answer = answer

    async def response(self) -> pb.PublishResponse:
        if isinstance(self._outcome, GoQueueError):
            return pb.PublishResponse(
                correlation_id=self._correlation_id, error=to_error(self._outcome)
            )
        return self._answer(self._correlation_id, await self._outcome.settled())
