"""One request of a share consumer, as its group takes it: acknowledge, release, acquire.

Decided where the group is coordinated. The leader of the partitions may be another node: it asks
for a turn, and sends the messages that the turn gives to the consumer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GroupNotFoundError,
    NotLeaderError,
    TopicError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.queues.delivery.settings import Mode
from goqueue.queues.members import QueueMember
from goqueue.queues.share.acknowledging import ShareAcks, ShareAckServices
from goqueue.queues.share.members import ShareMembers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goqueue.model.errors import GoQueueError
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.queues.acquired_batch import Portion
    from goqueue.queues.delivering import Deliverer
    from goqueue.queues.share.acknowledging import AcknowledgedOffsets

    Grant: TypeAlias = Callable[[int], int]
    """Says how many of so many bytes may be read into memory now; asked once there is something."""


class ShareTurnServices(ShareAckServices, Protocol):
    """What share groups need to take turns."""

    deliverer: Deliverer


class Acquiring(NamedTuple):
    """How much a share consumer wants, and of which partitions."""

    partitions: Sequence[TopicPartition]
    limit: int
    max_wait_ms: int
    max_bytes: int
    rounds_up: bool
    """Whoever gets some messages of a batch gets the others as well, past `limit`."""
    batch_size: int
    """A range of messages that is handed out is at least so long, where the next batch follows."""


class Closing(NamedTuple):
    """A share session ends: its member says nothing more of what it has."""

    keys: tuple[TopicIdPartition, ...] | None = None
    """What it has of these partitions goes to others; None: everything that it has."""


class ShareTurn(NamedTuple):
    """What one request of a share consumer asks of its group, in this order."""

    group_id: str
    member_id: str
    said: Mapping[TopicPartition, Sequence[AcknowledgedOffsets]] = MappingProxyType({})
    in_doubt: bool = False
    """It was asked for before, and the answer was lost."""
    closing: Closing | None = None
    must_exist: bool = False
    """Without such a group there is nothing to say; otherwise only acknowledgements need one."""
    acquiring: Acquiring | None = None
    asked_s: float | None = None
    """When it was asked for, by the clock of the event loop; None: now. Repeats keep the place."""


class Turned(NamedTuple):
    """What came of a turn."""

    lock_ms: int
    """How long a message is the consumer's."""
    outcomes: Mapping[TopicPartition, GoQueueError | None]
    """Why the acknowledgements in a partition do not count, where they do not."""
    portions: Sequence[Portion] = ()


class ShareTurns:
    """Takes turns for the groups that are coordinated here."""

    def __init__(self, services: ShareTurnServices) -> None:
        self._queues = services.queues
        self._deliverer = services.deliverer
        self._acks = ShareAcks(services)
        self._members = ShareMembers(services)

    async def take(self, turn: ShareTurn, grant: Grant) -> Turned:
        """Make acknowledgements true, end the session, then hand out more.

        Raises:
            GroupError: there is no such group, or it is coordinated elsewhere.
            CoordinatorUnavailableError: it could not be stored; all of it may be said again.
        """
        group_id, member_id = turn.group_id, turn.member_id
        if turn.asked_s is None:  # before what it says is stored, which takes a while
            turn = turn._replace(asked_s=asyncio.get_running_loop().time())
        if turn.must_exist:
            await self._require(group_id)
        outcomes: Mapping[TopicPartition, GoQueueError | None] = {}
        if turn.said:
            outcomes = await self._acks.acknowledge(
                group_id, member_id, turn.said, in_doubt=turn.in_doubt
            )
        if turn.closing is not None:
            await self._members.release(group_id, member_id, turn.closing.keys)
        portions: Sequence[Portion] = ()
        if turn.acquiring is not None:
            may_wait = not any(outcomes.values())
            portions = await self._acquire(turn, turn.acquiring, grant, may_wait=may_wait)
        return Turned(self._lock_ms(group_id), outcomes, portions)

    async def _require(self, group_id: str) -> None:
        """Raise `GroupNotFoundError`, once this node is certain that there is no such group."""
        term = self._queues.term(group_id)
        try:
            self._members.group(group_id)
        except GroupNotFoundError:
            await self._queues.be_certain(term)
            raise

    async def _acquire(
        self,
        turn: ShareTurn,
        wanted: Acquiring,
        grant: Grant,
        *,
        may_wait: bool,
    ) -> Sequence[Portion]:
        try:
            return await self._deliverer.acquire(
                QueueMember(turn.group_id, turn.member_id, Mode.SHARED),
                wanted.partitions,
                limit=wanted.limit,
                max_wait_ms=wanted.max_wait_ms if may_wait else 0,
                max_bytes=wanted.max_bytes,
                grant=grant,
                rounds_up=wanted.rounds_up,
                asked_s=turn.asked_s,
            )
        except (CoordinatorUnavailableError, NotLeaderError):
            if not turn.said:
                raise
            return ()  # what was acknowledged is stored, and has to be told
        except TopicError:  # one of the topics was just deleted; the caller looks which
            return ()

    def _lock_ms(self, group_id: str) -> int:
        group = None
        with suppress(CoordinatorUnavailableError):  # it has just moved; what was done is done
            group = self._queues.find(group_id)
        return 0 if group is None else group.settings.visibility_ms
