"""Fetch: batches out of partitions, byte for byte as they were stored."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import (
    AuthorizationFailedError,
    GoQueueError,
    TopicAuthorizationFailedError,
    TopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.protocols.kafka.brokers import leader_of
from goqueue.protocols.kafka.context import RequestContext
from goqueue.protocols.kafka.errors import (
    InvalidFetchError,
    InvalidIsolationLevelError,
    ReplicaFetchError,
    code_for,
)
from goqueue.protocols.kafka.limits import MAX_SMALL_ELEMENTS
from goqueue.protocols.kafka.records.fetch_sessions import (
    FetchSession,
    FetchSessions,
    Place,
    Wanted,
)
from goqueue.protocols.kafka.registry import Waiting, api
from goqueue.protocols.kafka.rights import TOPIC_READ, within
from goqueue.protocols.kafka.tenant_names import fetch_inside, fetched_outside
from goqueue.protocols.kafka.throttling import Throttling
from goqueue.protocols.kafka.topic_ids import topic_with_id
from goqueue.protocols.kafka.turns import Pace
from goqueue.protocols.permissions import Permissions
from goqueue.reading.fetch import Fetched, FetchRequest, PartitionRead
from goqueue.wire.kafka import fetch as wire
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.errors import RequestError
from goqueue.wire.kafka.fetch import FetchedPartition, FetchedTopic
from goqueue.wire.kafka.frames import RequestPrefix, frame_of, parse_client_id
from goqueue.wire.kafka.primitives import Cursor

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.brokers import Brokers
    from goqueue.protocols.kafka.context import Peer
    from goqueue.wire.kafka.frames import Encoded, Response
    from goqueue.wire.kafka.primitives import Buffer

MAX_FETCH_BYTES: Final = 55 * 1024 * 1024
"""`fetch.max.bytes` of Kafka's brokers: an answer holds no more, whatever the client asks for,
unless it is a single batch."""

MAX_PARTITIONS_A_FETCH: Final = 16_384
"""Of one Fetch, or of its session; one with more is refused as an invalid request."""
_MANY: Final = 512
"""Partitions from which on they are looked for in turns."""
_FIRST_WITH_ERROR: Final = 7
"""The version from which on an answer as a whole can have an error."""


def _refused(ctx: RequestContext, request: wire.FetchRequest, code: ErrorCode) -> Response:
    """Nothing was read; before version 7 an answer can say why only at each partition."""
    if ctx.version >= _FIRST_WITH_ERROR:
        return wire.encode_response(ctx.version, (), error_code=code)
    topics = [
        FetchedTopic(
            topic.name,
            topic.topic_id,
            [FetchedPartition(each.partition, code) for each in topic.partitions],
        )
        for topic in request.topics
    ]
    told = fetched_outside(topics, ctx.peer.session.namespace)
    return wire.encode_response(ctx.version, told)


class FetchApi:
    """Serves Kafka's consumers."""

    def __init__(self, broker: Broker, brokers: Brokers | None = None) -> None:
        """`brokers` tell the addresses of other leaders, where there may be some."""
        self._broker = broker
        self._brokers = brokers if broker.facts.is_cluster else None
        self._sessions = FetchSessions()
        self._authorizer = broker.authorizer
        self._throttling = Throttling(broker.quotas)

    def fetch_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> list[Buffer] | Waiting | None:
        """`fetch`, and its answer at once where everything that is asked for is at hand."""
        try:
            cursor = Cursor(frame)
            cursor.elements_left = MAX_SMALL_ELEMENTS
            client_id = parse_client_id(cursor, flexible=version >= wire.FLEXIBLE_FROM)
            request = wire.parse_request(cursor, version)
            if peer.session.namespace is not None:
                request = fetch_inside(request, peer.session.namespace)
            _check_reader(request)
            isolation = isolation_of(request.isolation_level)
            session = self._sessions.resume(request)
        except (RequestError, GoQueueError):
            return None  # nothing was changed, and whoever reads it again says why
        ctx = RequestContext(RequestPrefix(ApiKey.FETCH, version, correlation_id), client_id, peer)
        if self._throttling.is_on:
            ctx.throttle(self._throttling.requested(peer))
            if self._has_to_wait(ctx):
                answer = self._nothing_yet(ctx, session)
                return frame_of(correlation_id, answer, ctx.api_key, version)
        if len(session.wanted) > _MANY:
            return Waiting(ctx, self._serve(ctx, request, isolation, session), request)
        plan = _Plan(isolation, may=None if self._authorizer.is_open else ctx.may)
        for place, wanted in session.wanted.items():
            self._add(plan, place, wanted)
        reading = self._reading(ctx, request, plan)
        fetched = self._broker.fetcher.fetch_now(reading)
        if fetched is None:
            return Waiting(ctx, self._read(ctx, session, plan, reading), request)
        answer = self._answer(ctx, session, plan, fetched)
        return frame_of(correlation_id, answer, ctx.api_key, version)

    @api(
        ApiKey.FETCH,
        right=within(TOPIC_READ, note="each"),
        long_poll=True,
        parse=wire.parse_request,
        on_error=_refused,
        straight=fetch_plain,
    )
    async def fetch(self, ctx: RequestContext, request: wire.FetchRequest) -> Response:
        """Read the partitions of the session; wait, woken by appends, when there is too little."""
        _check_reader(request)
        isolation = isolation_of(request.isolation_level)
        session = self._sessions.resume(request)
        if self._throttling.is_on and self._has_to_wait(ctx):
            return self._nothing_yet(ctx, session)
        return await self._serve(ctx, request, isolation, session)

    def _has_to_wait(self, ctx: RequestContext) -> bool:
        """Whether the client has read too much already; it is told and made to wait then."""
        meter = self._throttling.meter(ctx.peer.session)
        wait_s = 0.0 if meter is None else meter.fetch_wait_s()
        ctx.throttle(wait_s)
        return wait_s > 0

    def _nothing_yet(self, ctx: RequestContext, session: FetchSession) -> Encoded:
        """An empty answer, as Kafka gives it to a client that has to wait."""
        return wire.encode_response(
            ctx.version, (), throttle_time_ms=ctx.throttle_ms, session_id=session.session_id
        )

    async def _serve(
        self,
        ctx: RequestContext,
        request: wire.FetchRequest,
        isolation: Isolation,
        session: FetchSession,
    ) -> Response:
        _check_count(session)
        plan = _Plan(isolation, may=None if self._authorizer.is_open else ctx.may)
        pace = Pace() if len(session.wanted) > _MANY else None
        for place, wanted in list(session.wanted.items()):
            if pace is not None:
                await pace.pause()
            # Many are looked for here, in turns, and not below, where all are at once.
            self._add(plan, place, wanted, looks=pace is not None)
        return await self._read(ctx, session, plan, self._reading(ctx, request, plan))

    async def _read(
        self, ctx: RequestContext, session: FetchSession, plan: _Plan, reading: FetchRequest
    ) -> Response:
        fetched = await self._broker.fetcher.fetch(reading)
        may = plan.may
        if may is not None:  # it has waited, and may have lost a right meanwhile
            fetched = [
                each
                if may.permits(TOPIC_READ, each.read.partition.topic)
                else Fetched(each.read, error=TopicAuthorizationFailedError())
                for each in fetched
            ]
        return self._answer(ctx, session, plan, fetched)

    def _reading(
        self, ctx: RequestContext, request: wire.FetchRequest, plan: _Plan
    ) -> FetchRequest:
        max_bytes = min(request.max_bytes, MAX_FETCH_BYTES)
        if self._throttling.is_on:
            meter = self._throttling.meter(ctx.peer.session)
            max_bytes = max_bytes if meter is None else meter.fetch_limit_bytes(max_bytes)
        is_relayed = ctx.peer.session.node is not None
        return FetchRequest(
            plan.reads,
            0 if plan.unknown else request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            plan.isolation,
            ctx.peer.grant_answer_bytes,
            by_message=is_relayed,  # a node counts what it hands out itself
            consumer=ctx.client_id or "",
            is_relayed=is_relayed,
        )

    def _charge(self, ctx: RequestContext, fetched: list[Fetched]) -> None:
        """Count what was read."""
        meter = self._throttling.meter(ctx.peer.session)
        if meter is not None:
            ctx.throttle(meter.fetched(sum(len(each.data) for each in fetched)))

    def _answer(
        self, ctx: RequestContext, session: FetchSession, plan: _Plan, fetched: list[Fetched]
    ) -> Encoded:
        committed = plan.isolation is Isolation.READ_COMMITTED
        results = plan.unknown
        for place, item in zip(plan.places, fetched, strict=True):
            results[place] = _partition(place, item, committed=committed)
        topics = fetched_outside(_topics(session, results), ctx.peer.session.namespace)
        if self._throttling.is_on:
            self._charge(ctx, fetched)
        throttle_ms = ctx.throttle_ms
        if self._brokers is None:
            return wire.encode_response(
                ctx.version, topics, throttle_time_ms=throttle_ms, session_id=session.session_id
            )
        return wire.encode_response(
            ctx.version,
            topics,
            throttle_time_ms=throttle_ms,
            session_id=session.session_id,
            endpoints=self._brokers.named(
                (each.leader for each in results.values()), ctx.listener_name
            ),
        )

    def _add(self, plan: _Plan, place: Place, wanted: Wanted, *, looks: bool = False) -> None:
        """Read a partition, if there is such a topic; with `looks`, if there is the partition."""
        try:
            partition = TopicPartition(self._topic_name(plan, place), place.partition)
            if plan.may is not None:
                plan.may.require(TOPIC_READ, partition.topic)
            if looks:
                self._broker.partitions.partition(partition)
        except (TopicError, AuthorizationFailedError) as error:
            plan.unknown[place] = FetchedPartition(
                place.partition, code_for(error), leader=leader_of(error)
            )
            return
        read = wanted.read
        plan.places.append(place)
        plan.reads.append(
            PartitionRead(partition, read.fetch_offset, read.max_bytes, read.current_leader_epoch)
        )

    def _topic_name(self, plan: _Plan, place: Place) -> str:
        if place.topic_id is None:
            return place.name or ""
        if plan.may is None:
            return self._broker.topics.catalogue.topic_with_id(place.topic_id).name
        return topic_with_id(self._broker.topics, plan.may, place.topic_id).name


class _Plan(msgspec.Struct):
    """What is read for one request."""

    isolation: Isolation
    places: list[Place] = []
    reads: list[PartitionRead] = []
    unknown: dict[Place, FetchedPartition] = {}
    """Of topics that do not exist, or that the client may not read."""
    may: Permissions | None = None
    """What the client may read; None: everything."""


def _check_reader(request: wire.FetchRequest) -> None:
    """Refuse a follower: what it fetches moves the high watermark, so nodes prove who they are."""
    if request.replica_id >= 0:
        raise ReplicaFetchError(
            f"a Fetch of replica {request.replica_id} on a listener for clients: nodes replicate "
            "by their internal listener; consumers send replica id -1"
        )


def _check_count(session: FetchSession) -> None:
    if len(session.wanted) > MAX_PARTITIONS_A_FETCH:
        raise InvalidFetchError(
            f"{len(session.wanted)} partitions in one Fetch, at most {MAX_PARTITIONS_A_FETCH} are "
            "read; fetch the others in a second one"
        )


def _partition(place: Place, item: Fetched, *, committed: bool) -> FetchedPartition:
    return FetchedPartition(
        place.partition,
        ErrorCode.none if item.error is None else code_for(item.error),
        item.high_watermark,
        item.last_stable,
        item.log_start,
        (item.data,) if item.data else (),
        item.aborted if committed else None,
        leader=None if item.error is None else leader_of(item.error),
    )


def _topics(session: FetchSession, results: dict[Place, FetchedPartition]) -> list[FetchedTopic]:
    """The answer of a session: everything at first, later only what is news."""
    news = [
        (place, result)
        for place, result in results.items()
        if _is_news(session, place, result) or not session.is_incremental
    ]
    for place, result in news:
        if result.records:
            session.served(place)
    return [
        FetchedTopic(name, topic_id, [result for _, result in group])
        for (name, topic_id), group in groupby(news, key=lambda item: item[0][:2])
    ]


def _is_news(session: FetchSession, place: Place, result: FetchedPartition) -> bool:
    wanted = session.wanted.get(place)
    told = (result.high_watermark, result.last_stable_offset, result.log_start_offset)
    changed = wanted is None or wanted.told != told
    if wanted is not None:
        wanted.told = told
    return changed or bool(result.records) or result.error_code != ErrorCode.none


def isolation_of(level: int) -> Isolation:
    """The isolation that a request asks for.

    Raises:
        InvalidIsolationLevelError: there is none of this number.
    """
    try:
        return Isolation(level)
    except ValueError:
        known = ", ".join(f"{each.value} ({each.name.lower()})" for each in Isolation)
        raise InvalidIsolationLevelError(f"isolation level {level}; there are {known}") from None
