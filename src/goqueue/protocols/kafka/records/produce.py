"""Produce: batches into partitions. The hottest path there is, so it costs no task of its own."""

from __future__ import annotations

from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING

from goqueue.model.errors import GoQueueError, MalformedBatchError
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.kafka.context import RequestContext
from goqueue.protocols.kafka.errors import InvalidRequiredAcksError
from goqueue.protocols.kafka.records.implicit_join import ProduceJoining, name_of
from goqueue.protocols.kafka.records.plain_topics import ACKS, PlainTopics
from goqueue.protocols.kafka.records.produce_quotas import ProduceQuotas, single_told
from goqueue.protocols.kafka.records.produce_results import (
    Wait,
    judge,
    settle,
    settle_single,
    tell,
)
from goqueue.protocols.kafka.records.produce_rights import may_write, permitted
from goqueue.protocols.kafka.registry import Waiting, api
from goqueue.protocols.kafka.rights import ID_WRITE, TOPIC_WRITE, all_of, within
from goqueue.protocols.kafka.tenant_names import produced_outside
from goqueue.protocols.kafka.turns import in_turns
from goqueue.publishing.delivery_headers import asks_to_be_opened
from goqueue.publishing.requests import Acks, Published, PublishRequest
from goqueue.records import plain_header, single_batch
from goqueue.wire.kafka import produce as wire
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import RequestPrefix
from goqueue.wire.kafka.plain_produce import encode_single, encode_stored, with_throttle_time
from goqueue.wire.kafka.produce import (
    PartitionData,
    PartitionResult,
    ProduceRequest,
    TopicData,
    TopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from goqueue.broker.log_broker import LogBroker
    from goqueue.protocols.kafka.brokers import Brokers
    from goqueue.protocols.kafka.context import Peer
    from goqueue.protocols.kafka.records.produce_results import Durable
    from goqueue.publishing.deferred import DeferredPublish
    from goqueue.publishing.straight import StraightWay
    from goqueue.topics.settings import TopicSettings
    from goqueue.wire.kafka.frames import Encoded, Response
    from goqueue.wire.kafka.plain_produce import PlainRequest


class ProduceApi:
    """Publishes for Kafka's producers."""

    def __init__(
        self,
        broker: LogBroker,
        joining: ProduceJoining | None = None,
        brokers: Brokers | None = None,
    ) -> None:
        """Without `joining`, no partition is added to a transaction by writing to it.

        `brokers` tell the addresses of other leaders, where there may be some.
        """
        self._brokers = brokers if broker.facts.is_cluster else None
        self._broker = broker
        self._publisher = broker.publisher
        self._authorizer = broker.authorizer
        self._joining = joining
        self._plain_topics = PlainTopics(broker)
        self._quotas = ProduceQuotas(broker)

    def produce_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> bytes | Waiting | None:
        """`produce` for a request without anything unusual, to topics that store what they get."""
        single = single_batch(frame)
        if single is None:
            return self._produce_several(frame, peer, version, correlation_id)
        alike, batch, info = single
        route = self._plain_topics.named_by(peer).single(alike, frame, version)
        if route is None:
            return None
        request, acks, way, answer = route
        if not self._authorizer.is_open and not may_write(peer, way):
            return None
        outcome: Published | GoQueueError | None
        try:
            outcome = self._publisher.publish_plain(way, batch, info, acks)
        except GoQueueError as error:
            outcome = error
        else:
            if outcome is None:
                return None
            charged = self._quotas.is_on and self._quotas.charge_straight
            throttle_ms = charged(peer, [(way, batch, info.count)]) if charged else 0
            (first_offset, _, _), log_start, _, durable, _, _ = outcome
            if durable is None:
                if acks is Acks.NONE:
                    return b""
                told = encode_single(answer, correlation_id, first_offset, log_start)
                return with_throttle_time(told, version, throttle_ms) if throttle_ms else told
            ctx = RequestContext(RequestPrefix(ApiKey.PRODUCE, version, correlation_id), None, peer)
            ctx.throttle_ms = throttle_ms
            stored = partial(single_told, ctx, answer, first_offset, log_start)
            otherwise = partial(self._judged, ctx, way, outcome)
            return Waiting(ctx, settle_single(durable, request[1] / 1000, stored, otherwise))
        ctx = RequestContext(RequestPrefix(ApiKey.PRODUCE, version, correlation_id), None, peer)
        return Waiting(ctx, self._told(ctx, request, [way], [outcome]))

    def _judged(
        self, ctx: RequestContext, way: StraightWay, outcome: Published, durable: Durable
    ) -> Encoded:
        """The answer to a single batch that is not durable, or not in time."""
        results: list[PartitionResult] = []
        tell(way.partition.id.partition, outcome, ctx.version, results, [])
        judge(results, 0, durable, ctx.version)
        topic = way.place.topic
        return self._encoded(ctx, [TopicResult(topic.name, topic.topic_id, results)])

    def _produce_several(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> bytes | Waiting | None:
        """The same for several batches. Each that is not plain is published as any other is."""
        route = self._plain_topics.named_by(peer).route(frame, version)
        if route is None:
            return None
        request, acks, ways = route
        if any(asks_to_be_opened(frame[start:stop]) for _, start, stop in ways) or (
            not self._authorizer.is_open and not all(may_write(peer, way) for way, _, _ in ways)
        ):
            return None
        publisher = self._publisher
        done: list[Published | DeferredPublish | GoQueueError] = []
        stored = []
        taken: list[tuple[StraightWay, memoryview, int]] = []
        for way, start, stop in ways:
            batch = frame[start:stop]
            info = plain_header(batch)
            published: Published | DeferredPublish | None = None
            try:
                if info is not None:
                    published = publisher.publish_plain(way, batch, info, acks)
                if published is None:
                    published = publisher.publish(PublishRequest(way.partition.id, batch, acks))
            except GoQueueError as error:
                done.append(error)
                continue
            done.append(published)
            taken.append((way, batch, published.stored_count))
            if published.durable is None:
                stored.append((published.placed.first_offset, published.log_start))
        throttle_ms = self._quotas.charge_straight(peer, taken) if self._quotas.is_on else 0
        if len(stored) == len(done):
            if acks is Acks.NONE:
                return b""
            told = encode_stored(version, correlation_id, request[2], stored)
            return with_throttle_time(told, version, throttle_ms) if throttle_ms else told
        ctx = RequestContext(RequestPrefix(ApiKey.PRODUCE, version, correlation_id), None, peer)
        ctx.throttle_ms = throttle_ms
        return Waiting(ctx, self._told(ctx, request, [way for way, _, _ in ways], done))

    def _told(
        self,
        ctx: RequestContext,
        request: PlainRequest,
        ways: list[StraightWay],
        done: Sequence[Published | DeferredPublish | GoQueueError],
    ) -> Awaitable[Response | None]:
        """The answer when not everything went well at once."""
        acks, timeout_ms, asked = request
        waits: list[Wait] = []
        topics = []
        outcomes = zip(ways, done, strict=True)
        for _, partitions in asked:
            results: list[PartitionResult] = []
            for _, (way, outcome) in zip(partitions, outcomes, strict=False):
                tell(way.partition.id.partition, outcome, ctx.version, results, waits)
            topic = way.place.topic
            topics.append(TopicResult(topic.name, topic.topic_id, results))
        sent = ProduceRequest(None, acks, timeout_ms, [])
        if waits and acks != Acks.NONE:
            return self._settled(ctx, sent, topics, waits)
        return self._answer_later(ctx, sent, topics, waits)

    async def _answer_later(
        self,
        ctx: RequestContext,
        request: ProduceRequest,
        results: list[TopicResult],
        waits: list[Wait],
    ) -> Response | None:
        answer = self._answer(ctx, request, results, waits)
        return await answer if isawaitable(answer) else answer

    @api(
        ApiKey.PRODUCE,
        right=all_of(
            within(TOPIC_WRITE, note="each"),
            within(ID_WRITE, note="of a transactional producer"),
        ),
        pipelined=True,
        parse=wire.parse_request,
        straight=produce_plain,
    )
    def produce(
        self, ctx: RequestContext, request: ProduceRequest
    ) -> Response | Awaitable[Response | None] | None:
        """Append everything at once; wait only where a topic wants its records on the disk.

        What is opened, and too large for the event loop, and what is held against schemas is
        appended when that has been done. What is sent behind it waits.
        """
        refusal: GoQueueError | None = None
        if not ctx.may.is_open:
            request, refusal = permitted(ctx, request, partial(name_of, self._broker.topics))
        if self._must_prepare(request):
            ctx.is_large = True
        if refusal is not None:
            return self._append(ctx, request, refusal)
        joining = self._joining
        if (
            request.transactional_id is not None
            and joining is not None
            and ctx.version >= joining.first_version
        ):
            wanted = joining.wanted(request, ctx.version)
            if wanted is not None:
                return joining.run(wanted, partial(self._append, ctx, request))
        return self._append(ctx, request)

    def _append(
        self, ctx: RequestContext, request: ProduceRequest, refusal: GoQueueError | None = None
    ) -> Response | Awaitable[Response | None] | None:
        """Append everything; `refusal` says why the transaction does not take anything."""
        sent = _Sent(request.acks, ctx.version, refusal)
        if self._quotas.is_on and refusal is None:
            self._quotas.charge(ctx, request)
        if ctx.is_large:
            return self._in_turns(ctx, request, sent)
        waits: list[Wait] = []
        results = [self._topic(topic, sent, waits) for topic in request.topics]
        return self._answer(ctx, request, results, waits)

    async def _in_turns(
        self, ctx: RequestContext, request: ProduceRequest, sent: _Sent
    ) -> Response | None:
        """The same for a request of many partitions; nothing behind it has started yet."""
        waits: list[Wait] = []
        results = []
        for topic in request.topics:
            parts: list[PartitionResult] = []
            async for data in in_turns(topic.partitions):
                single = TopicData(topic.name, topic.topic_id, [data])
                prepared = await self._prepared(single, data)
                self._topic(single, sent, waits, parts, prepared)
            results.append(TopicResult(topic.name, topic.topic_id, parts))
        return await self._answer_later(ctx, request, results, waits)

    def _answer(
        self,
        ctx: RequestContext,
        request: ProduceRequest,
        results: list[TopicResult],
        waits: list[Wait],
    ) -> Response | Awaitable[Response | None] | None:
        if ctx.refused is not None:
            results = [*results, *ctx.refused["responses"]]
        if request.acks == Acks.NONE:
            if any(part.error_code for result in results for part in result.partitions):
                # As Kafka does: there is no answer to say it with, and the client must look again.
                ctx.peer.refuse("a publish failed whose producer asked for no answer")
            return None
        if waits:
            return self._settled(ctx, request, results, waits)
        return self._encoded(ctx, results)

    def _settled(
        self,
        ctx: RequestContext,
        request: ProduceRequest,
        results: list[TopicResult],
        waits: list[Wait],
    ) -> Awaitable[Response | None]:
        encode = partial(self._encoded, ctx, results)
        return settle(ctx.version, waits, request.timeout_ms / 1000, encode)

    def _encoded(self, ctx: RequestContext, results: Sequence[TopicResult]) -> Encoded:
        """The answer, with the addresses of the leaders that it names."""
        waits_ms = ctx.throttle_ms
        results = produced_outside(results, ctx.peer.session.namespace)
        if self._brokers is None:
            return wire.encode_response(ctx.version, results, throttle_time_ms=waits_ms)
        leaders = (part.leader for result in results for part in result.partitions)
        endpoints = self._brokers.named(leaders, ctx.listener_name)
        to_node = ctx.peer.session.node is not None
        return wire.encode_response(
            ctx.version, results, throttle_time_ms=waits_ms, endpoints=endpoints, to_node=to_node
        )

    def _topic(
        self,
        topic: TopicData,
        sent: _Sent,
        waits: list[Wait],
        results: list[PartitionResult] | None = None,
        prepared: PublishRequest | None = None,
    ) -> TopicResult:
        results = [] if results is None else results
        result = TopicResult(topic.name, topic.topic_id, results)
        for data in topic.partitions:
            outcome: Published | DeferredPublish | GoQueueError
            try:
                outcome = self._publish(self._name(topic), data, sent, prepared)
            except GoQueueError as error:
                outcome = error
            tell(data.partition, outcome, sent.version, results, waits, data=data)
        return result

    def _name(self, topic: TopicData) -> str:
        return name_of(self._broker.topics, topic)

    # --- Batches that are opened or checked before they are published -----------------------------

    def _must_prepare(self, request: ProduceRequest) -> bool:
        """Whether a batch is to be opened or checked first. Most topics do neither."""
        for topic in request.topics:
            settings = self._settings(topic)
            if settings is None:
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
        settings = self._settings(topic)
        if data.records is None or settings is None:
            return False
        if not settings.may_open and not asks_to_be_opened(data.records):
            return False
        place = TopicPartition(self._name(topic), data.partition)
        return self._broker.large_batches.includes(place, data.records)

    async def _opened(self, topic: TopicData, data: PartitionData) -> PublishRequest | None:
        """A large batch with its records. One at a time is kept open, until it is published."""
        if not self._is_large(topic, data):
            return None
        assert data.records is not None  # a batch that is large is there
        place = TopicPartition(self._name(topic), data.partition)
        return await self._broker.large_batches.opened(PublishRequest(place, data.records))

    def _publish(
        self, topic: str, data: PartitionData, sent: _Sent, prepared: PublishRequest | None
    ) -> Published | DeferredPublish:
        acks = ACKS.get(sent.acks)
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
