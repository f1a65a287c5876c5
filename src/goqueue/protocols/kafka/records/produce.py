"""Produce: batches into partitions. The hottest path there is, so it costs no task of its own."""

from __future__ import annotations

import asyncio
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.errors import ErrorCode

from goqueue.model.errors import GoQueueError, MalformedBatchError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.errors import InvalidRequiredAcksError
from goqueue.protocols.kafka.records.implicit_join import IMPLICIT_FROM, ProduceJoining, code_of
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.turns import in_turns
from goqueue.publishing.requests import Acks, Published, PublishRequest
from goqueue.wire.kafka import produce as wire
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.produce import (
    PartitionData,
    PartitionResult,
    ProduceRequest,
    TopicData,
    TopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.topics.settings import TopicSettings
    from goqueue.wire.kafka.frames import Encoded, Response

_ACKS: Final = {acks.value: acks for acks in Acks}


class ProduceApi:
    """Publishes for Kafka's producers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._joining = ProduceJoining(broker, self._name)

    @api(
        ApiKey.PRODUCE,
        wire.FIRST_VERSION,
        wire.LAST_VERSION,
        pipelined=True,
        parse=wire.parse_request,
    )
    def produce(
        self, ctx: RequestContext, request: ProduceRequest
    ) -> Response | Awaitable[Response | None] | None:
        """Append everything at once; wait only where a topic wants its records on the disk.

        What is opened, and too large for the event loop, and what is held against schemas is
        appended when that has been done. What is sent behind it waits.
        """
        if self._must_prepare(request):
            ctx.is_large = True
        if request.transactional_id is not None and ctx.version >= IMPLICIT_FROM:
            wanted = self._joining.wanted(request)
            if wanted is not None:
                return self._joining.run(wanted, partial(self._append, ctx, request))
        return self._append(ctx, request)

    def _append(
        self, ctx: RequestContext, request: ProduceRequest, refusal: GoQueueError | None = None
    ) -> Response | Awaitable[Response | None] | None:
        """Append everything; `refusal` says why the transaction does not take anything."""
        sent = _Sent(request.acks, ctx.version, refusal)
        if ctx.is_large:
            return self._in_turns(ctx, request, sent)
        waits: list[_Wait] = []
        results = [self._topic(topic, sent, waits) for topic in request.topics]
        return self._answer(ctx, request, results, waits)

    async def _in_turns(
        self, ctx: RequestContext, request: ProduceRequest, sent: _Sent
    ) -> Response | None:
        """The same for a request of many partitions; nothing behind it has started yet."""
        waits: list[_Wait] = []
        results = []
        for topic in request.topics:
            parts: list[PartitionResult] = []
            async for data in in_turns(topic.partitions):
                single = TopicData(topic.name, topic.topic_id, [data])
                prepared = await self._prepared(single, data)
                self._topic(single, sent, waits, parts, prepared)
            results.append(TopicResult(topic.name, topic.topic_id, parts))
        answer = self._answer(ctx, request, results, waits)
        return await answer if isawaitable(answer) else answer

    def _answer(
        self,
        ctx: RequestContext,
        request: ProduceRequest,
        results: list[TopicResult],
        waits: list[_Wait],
    ) -> Response | Awaitable[Response | None] | None:
        if request.acks == Acks.NONE:
            if any(part.error_code for result in results for part in result.partitions):
                # As Kafka does: there is no answer to say it with, and the client must look again.
                ctx.peer.refuse("a publish failed whose producer asked for no answer")
            return None
        if waits:
            return _settle(ctx.version, results, waits, request.timeout_ms / 1000)
        return wire.encode_response(ctx.version, results)

    def _topic(
        self,
        topic: TopicData,
        sent: _Sent,
        waits: list[_Wait],
        results: list[PartitionResult] | None = None,
        prepared: PublishRequest | None = None,
    ) -> TopicResult:
        results = [] if results is None else results
        result = TopicResult(topic.name, topic.topic_id, results)
        for data in topic.partitions:
            try:
                published = self._publish(self._name(topic), data, sent, prepared)
            except GoQueueError as error:
                results.append(_failure(data.partition, error, sent.version))
                continue
            if published.durable is not None:
                waits.append((results, len(results), published.durable))
            results.append(
                PartitionResult(
                    data.partition,
                    ErrorCode.none,
                    published.placed.first_offset,
                    published.append_time_ms,
                    published.log_start,
                )
            )
        return result

    def _name(self, topic: TopicData) -> str:
        if topic.topic_id is not None:
            return self._broker.topics.catalogue.topic_with_id(topic.topic_id).name
        return topic.name or ""

    # --- Batches that are opened or checked before they are published -----------------------------

    def _must_prepare(self, request: ProduceRequest) -> bool:
        """Whether a batch is to be opened or checked first. Most topics do neither."""
        for topic in request.topics:
            settings = self._settings(topic)
            if settings is None or not (settings.may_open or settings.validates):
                continue
            if settings.validates or any(self._is_large(topic, data) for data in topic.partitions):
                return True
        return False

    def _settings(self, topic: TopicData) -> TopicSettings | None:
        """None for a topic that does not exist, which is said when it is published."""
        catalogue = self._broker.topics.catalogue
        if topic.topic_id is None:
            found = catalogue.by_name.get(topic.name or "")
        else:
            found = catalogue.by_id.get(topic.topic_id)
        return None if found is None else found.settings

    async def _prepared(self, topic: TopicData, data: PartitionData) -> PublishRequest | None:
        """A batch with what has to be known of it first; None where that is nothing."""
        request = await self._opened(topic, data)
        settings = self._settings(topic)
        if data.records is None or settings is None or not settings.validates:
            return request
        place = TopicPartition(self._name(topic), data.partition)
        return await self._broker.publisher.checked(request or PublishRequest(place, data.records))

    def _is_large(self, topic: TopicData, data: PartitionData) -> bool:
        place = TopicPartition(self._name(topic), data.partition)
        return data.records is not None and self._broker.large_batches.includes(place, data.records)

    async def _opened(self, topic: TopicData, data: PartitionData) -> PublishRequest | None:
        """A large batch with its records. One at a time is kept open, until it is published."""
        settings = self._settings(topic)
        if settings is None or not settings.may_open or not self._is_large(topic, data):
            return None
        assert data.records is not None  # a batch that is large is there
        place = TopicPartition(self._name(topic), data.partition)
        return await self._broker.large_batches.opened(PublishRequest(place, data.records))

    def _publish(
        self, topic: str, data: PartitionData, sent: _Sent, prepared: PublishRequest | None
    ) -> Published:
        acks = _ACKS.get(sent.acks)
        if acks is None:
            raise InvalidRequiredAcksError(f"acks is {sent.acks}, expected -1, 0 or 1")
        if data.records is None:
            raise MalformedBatchError("no records")
        partition = TopicPartition(topic, data.partition)
        if sent.refusal is not None:
            self._broker.partitions.resolve(partition)  # that it is missing is said first
            raise sent.refusal
        if prepared is None:
            request = PublishRequest(partition, data.records, acks)
        else:
            request = prepared._replace(acks=acks)
        return self._broker.publisher.publish(request)


class _Sent(NamedTuple):
    """What all partitions of a request have in common."""

    acks: int
    version: int
    refusal: GoQueueError | None


_Wait = tuple[list[PartitionResult], int, "Awaitable[None]"]
"""A result that holds once something has happened: the list it is in, where, and what."""


async def _settle(
    version: int, topics: list[TopicResult], waits: list[_Wait], timeout_s: float
) -> Encoded:
    """Answer when every append is durable; one that failed or took too long says so."""
    tasks = [asyncio.ensure_future(durable) for _, _, durable in waits]
    await asyncio.wait(tasks, timeout=timeout_s)
    for (results, at, _), task in zip(waits, tasks, strict=True):
        number = results[at].partition
        if not task.done():
            task.cancel()
            results[at] = PartitionResult(
                number,
                ErrorCode.request_timed_out,
                error_message="the records are stored, and not on the disk within the timeout",
            )
        elif (error := task.exception()) is not None:
            if not isinstance(error, GoQueueError):
                raise error
            results[at] = _failure(number, error, version)
    return wire.encode_response(version, topics)


def _failure(partition: int, error: GoQueueError, version: int) -> PartitionResult:
    records = tuple(error.refused.items())
    return PartitionResult(
        partition, code_of(error, version), error_message=str(error), record_errors=records
    )
