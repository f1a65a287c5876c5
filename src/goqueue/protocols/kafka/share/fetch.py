"""ShareFetch and ShareAcknowledge (KIP-932): messages out of queue groups, and their fate back in.

The batches go out as they are stored, with the ranges of offsets in them that are the consumer's.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.model.errors import (
    GoQueueError,
    InvalidGroupRequestError,
    InvariantError,
    TopicError,
)
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.limits import MAX_FETCH_BYTES
from goqueue.protocols.kafka.registry import Waiting, api
from goqueue.protocols.kafka.share.queue_fetch import QueueFetches, has_settlements
from goqueue.protocols.kafka.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSessions
from goqueue.queues.delivery.decisions import Verdict
from goqueue.queues.delivery.settings import Mode
from goqueue.queues.members import QueueMember
from goqueue.queues.share.acknowledging import AcknowledgedOffsets, ShareAcks
from goqueue.queues.share.members import ShareMembers
from goqueue.queues.whole_batches import acquired, batches
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.share_fetch import (
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    SharedPartition,
    encode_response,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from uuid import UUID

    from goqueue.broker.broker import Broker
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.protocols.kafka.context import Peer, RequestContext, Response, Struct
    from goqueue.protocols.kafka.share.fetch_connections import FetchConnections
    from goqueue.queues.acquired_batch import Portion
    from goqueue.wire.kafka.primitives import Buffer


_RENEW: Final = 4
_VERDICTS: Final = {
    0: Verdict.ACK,  # a gap: there is no message at the offset, and so nothing left to do with it
    1: Verdict.ACK,
    2: Verdict.RELEASE,
    3: Verdict.REJECT,
    _RENEW: Verdict.EXTEND,
}


def acknowledged_offsets(
    batches: Sequence[Struct], *, can_renew: bool
) -> list[AcknowledgedOffsets]:
    """The verdicts on one partition: ranges in order, with one verdict each, or one an offset.

    Raises:
        InvalidGroupRequestError: they contradict themselves.
    """
    found: list[AcknowledgedOffsets] = []
    end = 0
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not end <= first <= last:
            raise InvalidGroupRequestError(
                f"offsets {first} to {last} overlap with those before {end}"
            )
        if len(types) not in {1, last - first + 1}:
            raise InvalidGroupRequestError(
                f"{len(types)} types for the offsets {first} to {last}: expected one, or one each"
            )
        for kind in set(types):
            if kind not in _VERDICTS or (kind == _RENEW and not can_renew):
                raise InvalidGroupRequestError(f"there is no acknowledgement of type {kind}")
        end = last + 1
        found += _runs(first, last, types)
    return found


def _runs(first: int, last: int, types: Sequence[int]) -> Iterator[AcknowledgedOffsets]:
    if len(types) == 1:
        yield AcknowledgedOffsets(first, last, _VERDICTS[types[0]])
        return
    for kind, same in groupby(types):
        end = first + sum(1 for _ in same)
        yield AcknowledgedOffsets(first, end - 1, _VERDICTS[kind])
        first = end


_Outcomes: TypeAlias = "dict[TopicIdPartition, GoQueueError | None]"
_Said: TypeAlias = "dict[TopicIdPartition, list[Struct]]"
"""By partition, what a request says of ranges of offsets."""


class ShareFetchApi:
    """Hands messages to share consumers, and hears what became of them."""

    def __init__(
        self, broker: Broker, sessions: ShareSessions, connections: FetchConnections
    ) -> None:
        self._broker = broker
        self._queues = QueueFetches(broker, connections)
        self._members = ShareMembers(broker)
        self._acks = ShareAcks(broker)
        self._sessions = sessions

    # --- ShareFetch ------------------------------------------------------------------------------

    def fetch_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> list[Buffer] | Waiting | None:
        """`share_fetch` of clients of ours, as they ask as a rule."""
        return self._queues.fetch_plain(frame, peer, version, correlation_id)

    @api(ApiKey.SHARE_FETCH, long_poll=True, straight=fetch_plain)
    async def share_fetch(self, ctx: RequestContext, request: Struct) -> Response:
        """Take in what the consumer says of messages it has, then hand it more."""
        if request.with_receipts:
            return await self._queues.fetch(ctx, request)
        try:
            return await self._fetch(ctx, request)
        except InvariantError:
            raise
        except GoQueueError as error:
            return _refused(error)

    async def _fetch(self, ctx: RequestContext, request: Struct) -> Response:
        key = _key(request)
        said = _acknowledgements(request)
        epoch = request.share_session_epoch
        if epoch == FINAL_EPOCH:
            outcomes = await self._close(key, said, can_renew=request.is_renew_ack)
            return self._answer(key[0], outcomes, {}, ())
        if epoch == INITIAL_EPOCH and said:
            raise InvalidGroupRequestError(
                "the request that opens a share session cannot acknowledge anything"
            )
        if request.share_acquire_mode not in {BATCH_OPTIMIZED, RECORD_LIMIT}:
            raise InvalidGroupRequestError(
                f"share_acquire_mode is {request.share_acquire_mode}: expected {BATCH_OPTIMIZED} "
                f"(whole batches) or {RECORD_LIMIT} (at most max_records)"
            )
        session = self._sessions.resume(key, request)
        self._members.group(key[0])
        outcomes = await self._acknowledge(key, said, can_renew=request.is_renew_ack)
        wanted, missing = self._partitions(session.places)
        portions: list[Portion] = []
        if request.max_records > 0 and request.max_bytes > 0 and not request.is_renew_ack:
            max_wait_ms = 0 if missing or any(outcomes.values()) else request.max_wait_ms
            try:
                portions = await self._acquire(ctx, request, wanted, max_wait_ms)
            except TopicError:  # a topic was deleted meanwhile: say which
                _, missing = self._partitions(session.places)
        told = session.places if epoch == INITIAL_EPOCH else ()
        found = {
            portion.key: self._shared(portion, max(request.batch_size, 1)) for portion in portions
        }
        return self._answer(key[0], outcomes, {**missing, **found}, told)

    async def _acquire(
        self, ctx: RequestContext, request: Struct, wanted: list[TopicPartition], max_wait_ms: int
    ) -> list[Portion]:
        return await self._broker.deliverer.acquire(
            QueueMember(*_key(request), Mode.SHARED),
            wanted,
            limit=request.max_records,
            max_wait_ms=max_wait_ms,
            max_bytes=min(request.max_bytes, MAX_FETCH_BYTES),
            grant=ctx.peer.grant_answer_bytes,
            rounds_up=request.share_acquire_mode == BATCH_OPTIMIZED,
        )

    def _partitions(
        self, places: Iterable[TopicIdPartition]
    ) -> tuple[list[TopicPartition], dict[TopicIdPartition, SharedPartition]]:
        """The partitions of a session, and what there is to say of those that are not there."""
        wanted: list[TopicPartition] = []
        missing: dict[TopicIdPartition, SharedPartition] = {}
        for place in places:
            try:
                wanted.append(self._members.partition(place))
            except TopicError as error:
                missing[place] = SharedPartition(place[1], code_for(error), str(error))
        return wanted, missing

    def _shared(self, portion: Portion, batch_size: int) -> SharedPartition:
        return SharedPartition(
            portion.key[1],
            leader=(self._broker.settings.node_id, portion.partition.leader_epoch),
            records=batches(portion),
            acquired=list(acquired(portion, batch_size)),
        )

    def _answer(
        self,
        group_id: str,
        outcomes: _Outcomes,
        found: dict[TopicIdPartition, SharedPartition],
        told: Iterable[TopicIdPartition],
    ) -> Response:
        """What there is to say: of partitions with messages, errors or acknowledgements."""
        topics: defaultdict[UUID, list[SharedPartition]] = defaultdict(list)
        for place in dict.fromkeys((*found, *outcomes, *told)):
            shared = found.get(place) or SharedPartition(place[1])
            error = outcomes.get(place)
            if error is not None:
                shared = shared._replace(
                    acknowledge_error_code=code_for(error), acknowledge_error_message=str(error)
                )
            topics[place[0]].append(shared)
        return encode_response(self._lock_ms(group_id), topics)

    def _lock_ms(self, group_id: str) -> int:
        group = self._broker.queues.find(group_id)
        return 0 if group is None else group.settings.visibility_ms

    # --- ShareAcknowledge ------------------------------------------------------------------------

    def acknowledge_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> list[Buffer] | Waiting | None:
        """`share_acknowledge` of clients of ours, as they acknowledge as a rule."""
        return self._queues.acknowledge_plain(frame, peer, version, correlation_id)

    @api(ApiKey.SHARE_ACKNOWLEDGE, straight=acknowledge_plain)
    async def share_acknowledge(self, ctx: RequestContext, request: Struct) -> Response:
        """Take in what the consumer says of messages it has."""
        if has_settlements(request):
            return await self._queues.acknowledge(ctx, request)
        try:
            key = _key(request)
            said = _acknowledgements(request)
            if request.share_session_epoch == FINAL_EPOCH:
                outcomes = await self._close(key, said, can_renew=request.is_renew_ack)
            else:
                self._sessions.advance(key, request.share_session_epoch)
                outcomes = await self._acknowledge(key, said, can_renew=request.is_renew_ack)
        except InvariantError:
            raise
        except GoQueueError as error:
            return _refused(error)
        topics: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
        for (topic_id, number), refusal in outcomes.items():
            topics[topic_id].append(
                {
                    "partition_index": number,
                    "error_code": ErrorCode.none if refusal is None else code_for(refusal),
                    "error_message": None if refusal is None else str(refusal),
                    "current_leader": {"leader_id": -1, "leader_epoch": -1},
                }
            )
        return {
            "error_code": ErrorCode.none,
            "acquisition_lock_timeout_ms": self._lock_ms(key[0]),
            "responses": [
                {"topic_id": topic_id, "partitions": partitions}
                for topic_id, partitions in topics.items()
            ],
            "node_endpoints": [],
        }

    async def _acknowledge(
        self, key: tuple[str, str], said: _Said, *, can_renew: bool
    ) -> _Outcomes:
        """Make verdicts true; for each partition, None or why they do not count."""
        outcomes: _Outcomes = {}
        places: dict[TopicPartition, TopicIdPartition] = {}
        acknowledged: dict[TopicPartition, list[AcknowledgedOffsets]] = {}
        for place, batches_said in said.items():
            try:
                partition = self._members.partition(place)
                acknowledged[partition] = acknowledged_offsets(batches_said, can_renew=can_renew)
                places[partition] = place
            except GoQueueError as error:
                outcomes[place] = error
        if acknowledged:
            done = await self._acks.acknowledge(*key, acknowledged)
            outcomes.update({places[partition]: error for partition, error in done.items()})
        return outcomes

    async def _close(self, key: tuple[str, str], said: _Said, *, can_renew: bool) -> _Outcomes:
        """End a session: what the member says still counts, and what it has left goes back."""
        self._sessions.close(key)
        outcomes = await self._acknowledge(key, said, can_renew=can_renew)
        await self._members.release(*key)
        return outcomes


def _key(request: Struct) -> tuple[str, str]:
    if not request.group_id or not request.member_id:
        raise InvalidGroupRequestError("a share session is of a group and a member: name both")
    return request.group_id, request.member_id


def _acknowledgements(request: Struct) -> _Said:
    return {
        (topic.topic_id, each.partition_index): each.acknowledgement_batches
        for topic in request.topics
        for each in topic.partitions
        if each.acknowledgement_batches
    }


def _refused(error: GoQueueError) -> Response:
    return {"error_code": code_for(error), "error_message": str(error)}
