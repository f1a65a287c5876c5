"""Handing messages over to a partition that another node leads. See `goqueue.publishing.handover`.

Its leader does what `LocalTarget` does; here is only the asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.cluster.peer_errors import check_told
from goqueue.model.errors import HandoverUnknownError, PeerUnavailableError
from goqueue.partitions.partition import Placed
from goqueue.publishing.delayed import Rest
from goqueue.publishing.handover import Handover, Position
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from goqueue.cluster.peers import Peers
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.publishing.delayed import SplitBatch
    from goqueue.runtime.byte_room import ByteRoom
    from goqueue.wire.kafka.reading import Struct

_COPIES: Final = 2
"""Of a batch on its way: as it was handed in, and in the frame of the request."""
NOWHERE: Final = -1
"""In place of an offset: only the position is asked for."""


class RemoteTarget:
    """A partition by way of the node that leads it."""

    def __init__(
        self,
        partition_id: TopicPartition,
        topic_id: UUID,
        leader: int,
        peers: Peers,
        room: ByteRoom,
    ) -> None:
        """Batches are sent as there is `room`, which all partitions of the leader share."""
        self.id = partition_id
        self._topic_id = topic_id
        self._leader = leader
        self._peers = peers
        self._room = room

    @property
    def has_room(self) -> bool:
        """Whether a batch would be sent now."""
        return not self._room.is_full

    async def position(self, handover: Handover) -> Position:
        """Where the next batch of a producer goes. See `Target.position`."""
        answer = await self._find(handover.producer_id, handover.epoch, NOWHERE)
        return Position(answer.next_sequence, answer.end_offset)

    async def append(self, batch: bytearray) -> Placed:
        """Let the leader store a batch, and all in-sync replicas. See `Target.append`."""
        return await self._hand_over(batch, is_published=False, delivery=False, traced=False)

    async def publish(self, batch: bytearray, *, delivery: bool, traced: bool) -> Placed:
        """The same with a batch like that of any publisher. See `Target.publish`."""
        return await self._hand_over(batch, is_published=True, delivery=delivery, traced=traced)

    async def _hand_over(self, batch: bytearray, **how: bool) -> Placed:
        try:
            async with self._room.holding(_COPIES * len(batch)):
                answer = await self._ask(ApiKey.HAND_OVER, batch=bytes(batch), **how)
        except PeerUnavailableError as error:
            raise HandoverUnknownError(
                f"{self.id}: whether messages that were moved there are stored is not known: "
                f"{error}; it is looked up before they are moved again"
            ) from error
        check_told(answer)
        return Placed(answer.first_offset, answer.end_offset)

    async def found(self, producer_id: int, epoch: int, from_offset: int) -> set[int]:
        """What the leader has committed. See `Target.found`."""
        answer = await self._find(producer_id, epoch, max(from_offset, 0))
        return {each.base_sequence for each in answer.batches}

    async def rests(self, batches: Sequence[SplitBatch]) -> list[Rest]:
        """What became of the rests of batches of which a part waits. See `LocalTarget.rests`."""
        asked = [
            {
                "producer_id": each.producer_id,
                "producer_epoch": each.producer_epoch,
                "base_sequence": each.base_sequence,
                "leader_epoch": each.origin.leader_epoch,
                "end_offset": each.origin.marked_end,
                "first_id": each.first_id,
            }
            for each in batches
        ]
        answer = await self._ask(ApiKey.FIND_RESTS, batches=asked)
        check_told(answer)
        return [Rest(each.rest) for each in answer.batches]

    async def _find(self, producer_id: int, epoch: int, from_offset: int) -> Struct:
        answer = await self._ask(
            ApiKey.FIND_BATCHES,
            producer_id=producer_id,
            producer_epoch=epoch,
            from_offset=from_offset,
        )
        check_told(answer)
        return answer

    async def _ask(self, api: ApiKey, **fields: Any) -> Struct:
        return await self._peers.ask(
            self._leader,
            api,
            0,
            topic_id=self._topic_id,
            partition_index=self.id.partition,
            **fields,
        )
