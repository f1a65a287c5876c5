"""Where in a partition to begin: at an end, at an offset, or at a moment.

Of a partition that another node leads, that node is asked: what a replica here knows may be a
moment old, and whoever has just published would find less than that.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import OffsetOutOfRangeError
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.elsewhere.leaders import check_answer
from goqueue.partitions.partition import Isolation, Partition
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.elsewhere.leaders import Leaders


class Anchor(Enum):
    """What a position is counted from."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    TIMESTAMP = auto()


class Position(msgspec.Struct, frozen=True):
    """A place in any partition; the number is an offset, or milliseconds since the epoch."""

    anchor: Anchor
    number: int = 0


EARLIEST: Final = Position(Anchor.EARLIEST)
LATEST: Final = Position(Anchor.LATEST)


_LIST_OFFSETS_VERSION: Final = 7
_LATEST_TIME: Final = -1
_EARLIEST_TIME: Final = -2


class Ends(NamedTuple):
    """Where a partition can be read, exactly, a moment ago."""

    log_start: int
    readable_to: int
    """For a reader of committed messages."""
    high_watermark: int


class Positions:
    """Finds offsets of partitions, wherever they are led."""

    def __init__(self, leaders: Leaders, executor: Executor) -> None:
        self._leaders = leaders
        self._executor = executor

    async def offset_of(self, place: TopicPartition, position: Position) -> int:
        """The offset that a reader of committed messages begins at; see `offset_of`.

        Raises:
            TopicError: there is no such partition.
            OffsetOutOfRangeError: nothing has been stored at that offset yet.
            ClusterError: its leader does not answer.
        """

        async def here(partition: Partition) -> int:
            return await offset_of(partition, position, self._executor)

        async def there(node_id: int) -> int:
            return await self._remote_offset(node_id, place, position)

        return await self._leaders.ask(place, here, there)

    async def ends(self, place: TopicPartition) -> Ends:
        """Where a partition begins and ends. Raises like `offset_of`."""

        async def here(partition: Partition) -> Ends:
            readable_to = partition.readable_to(Isolation.READ_COMMITTED)
            return Ends(partition.log_start, readable_to, partition.high_watermark)

        async def there(node_id: int) -> Ends:
            start = self._listed(node_id, place, _EARLIEST_TIME)
            stable = self._listed(node_id, place, _LATEST_TIME)
            end = self._listed(node_id, place, _LATEST_TIME, Isolation.READ_UNCOMMITTED)
            return Ends(*await asyncio.gather(start, stable, end))

        return await self._leaders.ask(place, here, there)

    async def _remote_offset(self, node_id: int, place: TopicPartition, position: Position) -> int:
        match position.anchor:
            case Anchor.EARLIEST:
                return await self._listed(node_id, place, _EARLIEST_TIME)
            case Anchor.LATEST:
                return await self._listed(node_id, place, _LATEST_TIME)
            case Anchor.OFFSET:
                start = await self._listed(node_id, place, _EARLIEST_TIME)
                end = await self._listed(node_id, place, _LATEST_TIME)
                if not 0 <= position.number <= end:
                    raise OffsetOutOfRangeError(position.number, start, end)
                return max(position.number, start)
            case Anchor.TIMESTAMP:
                # Every time before the epoch is that of the first message.
                found = await self._listed(node_id, place, max(position.number, 0))
                return await self._listed(node_id, place, _LATEST_TIME) if found < 0 else found

    async def _listed(
        self,
        node_id: int,
        place: TopicPartition,
        time_ms: int,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> int:
        """What the leader answers to ListOffsets; -1 is a time after all messages."""
        answer = await self._leaders.routes.peers.ask(
            node_id,
            ApiKey.LIST_OFFSETS,
            _LIST_OFFSETS_VERSION,
            replica_id=-1,
            isolation_level=int(isolation),
            topics=[
                {
                    "name": place.topic,
                    "partitions": [{"partition_index": place.partition, "timestamp": time_ms}],
                }
            ],
        )
        ((told,),) = (topic.partitions for topic in answer.topics)
        check_answer(place, told.error_code)
        offset: int = told.offset
        return offset


async def offset_of(partition: Partition, position: Position, executor: Executor) -> int:
    """The offset that a reader of committed messages begins at.

    An offset that is not kept any more means the earliest; a moment after all messages, the end.

    Raises:
        OffsetOutOfRangeError: nothing has been stored at that offset yet.
    """
    start, end = partition.log_start, partition.readable_to(Isolation.READ_COMMITTED)
    match position.anchor:
        case Anchor.EARLIEST:
            return start
        case Anchor.LATEST:
            return end
        case Anchor.OFFSET:
            if not 0 <= position.number <= end:
                raise OffsetOutOfRangeError(position.number, start, end)
            return max(position.number, start)
        case Anchor.TIMESTAMP:
            loop = asyncio.get_running_loop()
            find = partition.find_time
            hit = await loop.run_in_executor(executor, find, position.number)
            return end if hit is None else min(hit.offset, end)
