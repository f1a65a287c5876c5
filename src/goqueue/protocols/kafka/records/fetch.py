"""Fetch: batches out of partitions, byte for byte as they were stored."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.model.errors import TopicError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.protocols.kafka.errors import InvalidFetchError, InvalidIsolationLevelError, code_for
from goqueue.protocols.kafka.records.fetch_sessions import FetchSession, FetchSessions, Place
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.turns import Pace
from goqueue.reading.fetch import Fetched, FetchRequest, PartitionRead
from goqueue.wire.kafka import fetch as wire
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.fetch import FetchedPartition, FetchedTopic

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response

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
    return wire.encode_response(ctx.version, topics)


class FetchApi:
    """Serves Kafka's consumers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions = FetchSessions()

    @api(
        ApiKey.FETCH,
        wire.FIRST_VERSION,
        wire.LAST_VERSION,
        long_poll=True,
        parse=wire.parse_request,
        on_error=_refused,
    )
    async def fetch(self, ctx: RequestContext, request: wire.FetchRequest) -> Response:
        """Read the partitions of the session; wait, woken by appends, when there is too little."""
        isolation = isolation_of(request.isolation_level)
        session = self._sessions.resume(request)
        places, reads, unknown = [], [], {}
        _check_count(session)
        pace = Pace() if len(session.wanted) > _MANY else None
        for place, wanted in list(session.wanted.items()):
            if pace is not None:
                await pace.pause()
            try:
                topic = self._topic_name(place)
                if pace is not None:
                    # Here, in turns, and not below, where all are looked for at once.
                    self._broker.partitions.partition(TopicPartition(topic, place.partition))
            except TopicError as error:
                unknown[place] = FetchedPartition(place.partition, code_for(error))
                continue
            read = wanted.read
            places.append(place)
            reads.append(
                PartitionRead(
                    TopicPartition(topic, place.partition),
                    read.fetch_offset,
                    read.max_bytes,
                    read.current_leader_epoch,
                )
            )
        max_bytes = min(request.max_bytes, MAX_FETCH_BYTES)
        fetched = await self._broker.fetcher.fetch(
            FetchRequest(
                reads,
                0 if unknown else request.max_wait_ms,
                min(request.min_bytes, max_bytes),
                max_bytes,
                isolation,
                ctx.peer.grant_answer_bytes,
                consumer=ctx.client_id or "",
            )
        )
        committed = isolation is Isolation.READ_COMMITTED
        results = dict(unknown)
        for place, item in zip(places, fetched, strict=True):
            results[place] = _partition(place, item, committed=committed)
        return wire.encode_response(
            ctx.version, _topics(session, results), session_id=session.session_id
        )

    def _topic_name(self, place: Place) -> str:
        if place.topic_id is not None:
            return self._broker.topics.catalogue.topic_with_id(place.topic_id).name
        return place.name or ""


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
