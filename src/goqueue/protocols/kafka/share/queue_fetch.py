"""ShareFetch and ShareAcknowledge of our own clients: queue groups with receipts (`own_fields`).

There is no share session. Messages come from whatever is assigned to the member, each with its lane
and the nonce of its delivery. Acknowledgements show the nonces; those that do not count are told
one by one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.model.delivery import Priority
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GoQueueError,
    InvalidGroupRequestError,
    InvariantError,
    NotLeaderError,
    OffsetNotAvailableError,
    ReceiptError,
    TopicError,
    UnknownMemberError,
)
from goqueue.model.limits import MAX_VISIBILITY_MS
from goqueue.protocols.kafka.context import RequestContext
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.limits import MAX_FETCH_BYTES
from goqueue.protocols.kafka.registry import ApiKey, Waiting
from goqueue.protocols.kafka.rights import GROUP_READ, TOPIC_READ
from goqueue.protocols.kafka.share.queue_settlements import plain_said, said_in
from goqueue.protocols.kafka.topic_ids import topic_with_id
from goqueue.queues.share.acknowledging import ShareAcks
from goqueue.queues.share.members import ShareMembers
from goqueue.queues.whole_batches import delivered, parts
from goqueue.runtime.tasks import Begun
from goqueue.wire.kafka.frames import RequestPrefix, frame_of
from goqueue.wire.kafka.plain_share import (
    QueueFetch,
    encode_acknowledged,
    parse_acknowledge,
    parse_fetch,
)
from goqueue.wire.kafka.share_fetch import RECORD_LIMIT, SharedPartition, encode_response

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from uuid import UUID

    from goqueue.broker.broker import Broker
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.protocols.kafka.context import Peer, Response, Struct
    from goqueue.protocols.kafka.share.fetch_connections import FetchConnections
    from goqueue.protocols.kafka.share.queue_settlements import Said
    from goqueue.protocols.permissions import Permissions
    from goqueue.queues.acquired_batch import Portion
    from goqueue.queues.share.settlements import Unsettled
    from goqueue.wire.kafka.primitives import Buffer

    _Refused: TypeAlias = dict[TopicIdPartition, GoQueueError]
    _Outcomes: TypeAlias = dict[TopicIdPartition, list[Unsettled] | GoQueueError]

_UNREADABLE_S: Final = 0.05
"""While nothing of a partition can be read on this node."""
_PAUSE_S: Final = 0.005
"""After a topic was deleted under a fetch, so that its client does not spin."""


def has_settlements(request: Struct) -> bool:
    """Whether a request acknowledges by receipts."""
    return any(each.settlements for topic in request.topics for each in topic.partitions)


class QueueFetches:
    """Hands messages to members of queue groups, and hears what became of them.

    The usual requests of clients go straight (`plain_share`): they are served in one go by what
    serves all others, and wait only where those would.
    """

    def __init__(self, broker: Broker, connections: FetchConnections) -> None:
        self._broker = broker
        self._acks = ShareAcks(broker)
        self._members = ShareMembers(broker)
        self._connections = connections
        self._authorizer = broker.authorizer

    # --- Rights ----------------------------------------------------------------------------------

    def _may_say(self, peer: Peer, group_id: str, said: Said) -> bool:
        """Whether a plain request may be served as it is; what refuses it serves it otherwise."""
        if self._authorizer.is_open:
            return True
        may = peer.session.permissions
        topics = self._broker.topics.catalogue.by_id
        return may.allows(GROUP_READ, group_id) and all(
            may.allows(TOPIC_READ, topics[key[0]].name) for key in said
        )

    def partition(self, may: Permissions, place: TopicIdPartition) -> TopicPartition:
        """A partition that the client may read, which it names by the id of its topic.

        Raises:
            TopicError: it is not there, or the client may not see it.
            AuthorizationFailedError: it may see it and not read it.
        """
        topic_with_id(self._broker.topics, may, place[0])
        partition = self._members.partition(place)
        may.require(TOPIC_READ, partition.topic)
        return partition

    def may_read(self, may: Permissions, place: TopicIdPartition) -> bool:
        """Whether the client may read a partition, if it is there."""
        topic = self._broker.topics.catalogue.by_id.get(place[0])
        return topic is None or may.permits(TOPIC_READ, topic.name)

    # --- ShareFetch ------------------------------------------------------------------------------

    def fetch_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> list[Buffer] | Waiting | None:
        """`fetch` of what a client asks for as a rule; None when this is something else."""
        request = parse_fetch(frame, version)
        said = None if request is None else plain_said(self._members, request[1])
        if request is None or said is None or not self._may_say(peer, request[0].group_id, said):
            return None
        prefix = RequestPrefix(ApiKey.SHARE_FETCH, version, correlation_id)
        return _begun(prefix, peer, self._fetch(peer, request[0], said, {}))

    async def fetch(self, ctx: RequestContext, request: Struct) -> Response:
        """Take in what the member says of messages it has, then hand it more."""
        wanted = QueueFetch(
            request.group_id,
            request.member_id,
            request.max_wait_ms,
            request.max_bytes,
            request.max_records,
            request.share_acquire_mode,
            request.visibility_ms,
        )
        try:
            said, refused = said_in(partial(self.partition, ctx.may), request)
        except GoQueueError as error:
            return named_error(error)
        return await self._fetch(ctx.peer, wanted, said, refused)

    async def _fetch(
        self, peer: Peer, wanted: QueueFetch, said: Said, refused: _Refused
    ) -> Response:
        try:
            outcomes: _Outcomes = {**refused, **await self._settle(wanted.group_id, said)}
            portions = await self._acquire(peer, wanted, may_wait=not any(outcomes.values()))
        except InvariantError:
            raise
        except GoQueueError as error:
            return named_error(error)
        found: dict[TopicIdPartition, SharedPartition] = {
            portion.key: self._shared(portion) for portion in portions
        }
        topics: defaultdict[UUID, list[SharedPartition]] = defaultdict(list)
        for place in dict.fromkeys((*found, *outcomes)):
            shared = found.get(place) or SharedPartition(place[1])
            topics[place[0]].append(_with_outcome(shared, outcomes.get(place)))
        return encode_response(self._visibility_ms(wanted.group_id), topics)

    async def _acquire(self, peer: Peer, wanted: QueueFetch, *, may_wait: bool) -> list[Portion]:
        if wanted.max_records <= 0 or wanted.max_bytes <= 0:
            return []
        group_id, member_id = wanted.group_id, wanted.member_id
        member = self._broker.queue_members.find(group_id, member_id)
        if member is None:
            raise UnknownMemberError(f"there is no queue group {group_id!r}: join it first")
        self._check(peer, self._broker.queue_members.topics_of(member))
        self._connections.used_by(peer.session, (group_id, member_id))
        try:
            found = await self._broker.deliverer.acquire(
                member,
                limit=wanted.max_records,
                max_wait_ms=wanted.max_wait_ms if may_wait else 0,
                max_bytes=min(wanted.max_bytes, MAX_FETCH_BYTES),
                grant=peer.grant_answer_bytes,
                rounds_up=wanted.acquire_mode != RECORD_LIMIT,
                visibility_ms=checked_visibility_ms(wanted.visibility_ms) or None,
            )
        except (OffsetNotAvailableError, NotLeaderError):  # the replica here is catching up
            await asyncio.sleep(_UNREADABLE_S)
            return []
        except TopicError:  # one of them was just deleted; there may be others
            await asyncio.sleep(_PAUSE_S)
            return []
        self._check(peer, (each.partition.id.topic for each in found))
        return found

    def _check(self, peer: Peer, topics: Iterable[str]) -> None:
        """Refuse what the client may not read, or may not any more after it has waited."""
        if not self._authorizer.is_open:
            for name in topics:
                peer.session.permissions.require(TOPIC_READ, name)

    def _visibility_ms(self, group_id: str) -> int:
        group = None
        with suppress(CoordinatorUnavailableError):  # it has just moved; what was done is done
            group = self._broker.queues.find(group_id)
        return 0 if group is None else group.settings.visibility_ms

    def _shared(self, portion: Portion) -> SharedPartition:
        ranges = delivered(portion)
        own = {
            "nonces": b"".join([each.nonces for each in ranges]),
            "visible_until_ms": portion.deadline_ms,
        }
        lanes = bytes([each.lane for each in ranges])
        if lanes.count(Priority.NORMAL) != len(lanes):
            own["lanes"] = lanes
        return SharedPartition(
            portion.key[1],
            leader=(self._broker.settings.node_id, portion.partition.leader_epoch),
            records=parts(portion),
            acquired=[(each.first, each.end - 1, each.delivery_count) for each in ranges],
            own=own,
        )

    # --- ShareAcknowledge ------------------------------------------------------------------------

    def acknowledge_plain(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> list[Buffer] | Waiting | None:
        """`acknowledge` of what a client says as a rule; None when this is something else."""
        request = parse_acknowledge(frame, version)
        said = None if request is None else plain_said(self._members, request[1])
        if request is None or said is None or not self._may_say(peer, request[0], said):
            return None
        prefix = RequestPrefix(ApiKey.SHARE_ACKNOWLEDGE, version, correlation_id)
        return _begun(prefix, peer, self._acknowledge(version, request[0], said, {}))

    async def acknowledge(self, ctx: RequestContext, request: Struct) -> Response:
        """Take in what a client says of messages it has."""
        try:
            said, refused = said_in(partial(self.partition, ctx.may), request)
        except GoQueueError as error:
            return named_error(error)
        return await self._acknowledge(ctx.version, request.group_id, said, refused)

    async def _acknowledge(
        self, version: int, group_id: str, said: Said, refused: _Refused
    ) -> Response:
        try:
            outcomes: _Outcomes = {**refused, **await self._settle(group_id, said)}
        except InvariantError:
            raise
        except GoQueueError as error:
            return named_error(error)
        lock_timeout_ms = self._visibility_ms(group_id)
        if not any(outcomes.values()):
            return encode_acknowledged(version, lock_timeout_ms, outcomes)
        topics: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
        for (topic_id, number), outcome in outcomes.items():
            answer: dict[str, Any] = {
                "partition_index": number,
                "error_code": ErrorCode.none,
                "current_leader": {"leader_id": -1, "leader_epoch": -1},
            }
            if isinstance(outcome, GoQueueError):
                answer |= named_error(outcome)
            elif outcome:
                answer["failures"] = _failures(outcome)
            topics[topic_id].append(answer)
        return {
            "acquisition_lock_timeout_ms": lock_timeout_ms,
            "responses": [
                {"topic_id": topic_id, "partitions": partitions}
                for topic_id, partitions in topics.items()
            ],
            "node_endpoints": [],
        }

    async def _settle(self, group_id: str, said: Said) -> _Outcomes:
        """Make acknowledgements true; for each partition, what does not count."""
        return await self._acks.settle(group_id, said) if any(said.values()) else {}


def _begun(
    prefix: RequestPrefix, peer: Peer, answering: Coroutine[Any, None, Response]
) -> list[Buffer] | Waiting:
    """The answer to a plain request, at once or when there is one."""
    begun = Begun(answering)
    if not begun.is_done:
        return Waiting(RequestContext(prefix, None, peer), begun)
    return frame_of(prefix.correlation_id, begun.result, prefix.api_key, prefix.version)


def checked_visibility_ms(visibility_ms: int) -> int:
    """For how long a member wants its messages; 0 is as long as its group says.

    Raises:
        InvalidGroupRequestError: it is out of bounds.
    """
    if not 0 <= visibility_ms <= MAX_VISIBILITY_MS:
        raise InvalidGroupRequestError(
            f"visibility_ms is {visibility_ms}: expected 1 to {MAX_VISIBILITY_MS}, or 0 for the "
            "group's"
        )
    return visibility_ms


def _with_outcome(
    shared: SharedPartition, outcome: list[Unsettled] | GoQueueError | None
) -> SharedPartition:
    if not outcome:
        return shared
    if isinstance(outcome, GoQueueError):
        return shared._replace(
            acknowledge_error_code=code_for(outcome),
            acknowledge_error_message=str(outcome),
            own={**shared.own, "error_name": type(outcome).__name__},
        )
    return shared._replace(own={**shared.own, "failures": _failures(outcome)})


def _failures(unsettled: list[Unsettled]) -> list[dict[str, Any]]:
    return [
        {
            "offset": offset,
            "nonce": nonce,
            "error_name": type(error).__name__,
            "message": str(error),
            "is_done": _is_done(error),
        }
        for offset, nonce, error in unsettled
    ]


def _is_done(error: ReceiptError) -> int:
    return getattr(error, "is_done", 0)


def named_error(error: GoQueueError) -> dict[str, Any]:
    """What a client of ours is told of an error: its class as well, which says more than a code."""
    return {
        "error_code": code_for(error),
        "error_message": str(error),
        "error_name": type(error).__name__,
    }
