"""ShareFetch and ShareAcknowledge (KIP-932): messages out of queue groups, and their fate back in.

The batches go out as they are stored, with the ranges of offsets in them that are the consumer's.
In a cluster the leader of the partitions serves both, and the group is asked where it is
coordinated (`turns`, `cluster_turns`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.model.errors import (
    AuthorizationFailedError,
    GoQueueError,
    InvalidGroupRequestError,
    InvariantError,
    TopicError,
)
from goqueue.protocols.kafka.brokers import leader_of
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.limits import MAX_FETCH_BYTES
from goqueue.protocols.kafka.registry import Waiting, api
from goqueue.protocols.kafka.rights import READ, TOPIC_READ, all_of, group, within
from goqueue.protocols.kafka.share.acknowledged import acknowledged_offsets
from goqueue.protocols.kafka.share.queue_fetch import QueueFetches, has_settlements
from goqueue.protocols.kafka.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSessions
from goqueue.queues.share.members import ShareMembers
from goqueue.queues.share.turns import Acquiring, ShareTurn
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.share_fetch import (
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    SharedPartition,
    encode_response,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from goqueue.broker.broker import Broker
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.protocols.kafka.brokers import Brokers
    from goqueue.protocols.kafka.context import Peer, RequestContext, Response, Struct
    from goqueue.protocols.kafka.share.fetch_connections import FetchConnections
    from goqueue.protocols.kafka.share.turns import Taken, Turns
    from goqueue.protocols.permissions import Permissions
    from goqueue.queues.share.acknowledging import AcknowledgedOffsets
    from goqueue.wire.kafka.primitives import Buffer


_Outcomes: TypeAlias = "dict[TopicIdPartition, GoQueueError | None]"
_Said: TypeAlias = "dict[TopicIdPartition, list[Struct]]"
"""By partition, what a request says of ranges of offsets."""


SHARED: Final = all_of(group(READ), within(TOPIC_READ, note="each"))
"""What it takes to get messages out of a queue group, and to acknowledge them."""


class ShareFetchApi:
    """Hands messages to share consumers, and hears what became of them."""

    def __init__(
        self,
        broker: Broker,
        sessions: ShareSessions,
        connections: FetchConnections,
        turns: Turns,
        brokers: Brokers,
    ) -> None:
        self._queues = QueueFetches(broker, connections)
        self._members = ShareMembers(broker)
        self._sessions = sessions
        self._turns = turns
        self._brokers = brokers

    # --- ShareFetch ------------------------------------------------------------------------------

    def fetch_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> list[Buffer] | Waiting | None:
        """`share_fetch` of clients of ours, as they ask as a rule."""
        if peer.session.namespace is not None:
            return None  # the group is named in the request
        return self._queues.fetch_plain(frame, peer, version, correlation_id)

    @api(ApiKey.SHARE_FETCH, right=SHARED, long_poll=True, straight=fetch_plain)
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
            taken, outcomes = await self._close(ctx, key, said, can_renew=request.is_renew_ack)
            return self._answer(ctx, taken, outcomes, {}, ())
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
        wanted, missing = self._partitions(ctx.may, session.places)
        acquiring = None
        if request.max_records > 0 and request.max_bytes > 0 and not request.is_renew_ack:
            acquiring = Acquiring(
                wanted,
                request.max_records,
                0 if missing else request.max_wait_ms,
                min(request.max_bytes, MAX_FETCH_BYTES),
                request.share_acquire_mode == BATCH_OPTIMIZED,
                max(request.batch_size, 1),
            )
        turn = ShareTurn(*key, acquiring=acquiring, must_exist=True)
        taken, outcomes = await self._take(ctx, turn, said, can_renew=request.is_renew_ack)
        if not taken.found:  # a topic may have been deleted meanwhile: say which
            _, missing = self._partitions(ctx.may, session.places)
        found = {**missing, **taken.found}
        for place in taken.found:
            if not self._queues.may_read(ctx.may, place):  # not any more, after it has waited
                found[place] = SharedPartition(place[1], ErrorCode.topic_authorization_failed)
        told = session.places if epoch == INITIAL_EPOCH else ()
        return self._answer(ctx, taken, outcomes, found, told)

    def _partitions(
        self, may: Permissions, places: Iterable[TopicIdPartition]
    ) -> tuple[list[TopicPartition], dict[TopicIdPartition, SharedPartition]]:
        """The partitions of a session, and what there is to say of those that are not here."""
        wanted: list[TopicPartition] = []
        missing: dict[TopicIdPartition, SharedPartition] = {}
        for place in places:
            try:
                partition = self._queues.partition(may, place)
                self._turns.check_led(partition)
                wanted.append(partition)
            except (TopicError, AuthorizationFailedError) as error:
                leader = leader_of(error) or (-1, -1)
                missing[place] = SharedPartition(
                    place[1], code_for(error), str(error), leader=leader
                )
        return wanted, missing

    def _answer(
        self,
        ctx: RequestContext,
        taken: Taken,
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
        elsewhere = [each.leader for each in found.values() if each.error_code]
        endpoints = self._brokers.named(elsewhere, ctx.listener_name) if elsewhere else ()
        return encode_response(taken.lock_ms, topics, endpoints)

    # --- ShareAcknowledge ------------------------------------------------------------------------

    def acknowledge_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> list[Buffer] | Waiting | None:
        """`share_acknowledge` of clients of ours, as they acknowledge as a rule."""
        if peer.session.namespace is not None:
            return None  # as above
        return self._queues.acknowledge_plain(frame, peer, version, correlation_id)

    @api(ApiKey.SHARE_ACKNOWLEDGE, right=SHARED, straight=acknowledge_plain)
    async def share_acknowledge(self, ctx: RequestContext, request: Struct) -> Response:
        """Take in what the consumer says of messages it has."""
        if has_settlements(request):
            return await self._queues.acknowledge(ctx, request)
        try:
            key = _key(request)
            said = _acknowledgements(request)
            if request.share_session_epoch == FINAL_EPOCH:
                taken, outcomes = await self._close(ctx, key, said, can_renew=request.is_renew_ack)
            else:
                self._sessions.advance(key, request.share_session_epoch)
                turn = ShareTurn(*key)
                taken, outcomes = await self._take(ctx, turn, said, can_renew=request.is_renew_ack)
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
            "acquisition_lock_timeout_ms": taken.lock_ms,
            "responses": [
                {"topic_id": topic_id, "partitions": partitions}
                for topic_id, partitions in topics.items()
            ],
            "node_endpoints": [],
        }

    async def _close(
        self, ctx: RequestContext, key: tuple[str, str], said: _Said, *, can_renew: bool
    ) -> tuple[Taken, _Outcomes]:
        """End a session: what the member says still counts, and what it has left goes back."""
        places = self._sessions.close(key)
        turn = ShareTurn(*key, closing=self._turns.closing(places))
        return await self._take(ctx, turn, said, can_renew=can_renew)

    async def _take(
        self, ctx: RequestContext, turn: ShareTurn, said: _Said, *, can_renew: bool
    ) -> tuple[Taken, _Outcomes]:
        """Take a turn; for each partition, None or why acknowledgements in it do not count."""
        outcomes: _Outcomes = {}
        places: dict[TopicPartition, TopicIdPartition] = {}
        acknowledged: dict[TopicPartition, list[AcknowledgedOffsets]] = {}
        for place, batches_said in said.items():
            try:
                partition = self._queues.partition(ctx.may, place)
                acknowledged[partition] = acknowledged_offsets(batches_said, can_renew=can_renew)
                places[partition] = place
            except GoQueueError as error:
                outcomes[place] = error
        acquiring = turn.acquiring
        if outcomes and acquiring is not None:  # the consumer is told at once
            acquiring = acquiring._replace(max_wait_ms=0)
        turn = turn._replace(said=acknowledged, acquiring=acquiring)
        taken = await self._turns.take(turn, ctx.peer.grant_answer_bytes)
        outcomes.update({places[each]: error for each, error in taken.outcomes.items()})
        return taken, outcomes


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
