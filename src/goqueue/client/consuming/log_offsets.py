"""Where partitions begin and end, and where in them a moment is (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.errors import BrokerUnavailableError
from goqueue.client.link.codes import RetriableBrokerError, check_code
from goqueue.model.errors import OffsetOutOfRangeError
from goqueue.model.topic_partition import TopicPartition, numbers_by_topic
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.client.link.link import Link
    from goqueue.client.types import Start
    from goqueue.wire.kafka.reading import Struct

_LIST_OFFSETS: Final = 8
LATEST: Final = -1
EARLIEST: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
_NO_REPLICA: Final = -1
_NO_EPOCH: Final = -1

ENDS: Final = {"earliest": EARLIEST, "latest": LATEST}
MISLED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)
"""The wrong broker was asked, perhaps: the metadata says more."""


def check_start(start: Start) -> None:
    """Raise `ValueError` for what is no start."""
    is_offset = isinstance(start, int) and not isinstance(start, bool)
    is_end = isinstance(start, str) and start in ENDS
    if not (is_offset or is_end or isinstance(start, datetime)):
        raise ValueError(f"start: {start!r} is not 'earliest', 'latest', an offset or a datetime")


async def offsets_of(
    link: Link, places: Iterable[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """Where reading begins in each partition.

    An offset that is not kept any more means the earliest; a moment after all messages, the end.

    Raises:
        OffsetOutOfRangeError: nothing has been stored at that offset yet.
        GoQueueError: as for `list_offsets`.
    """
    places = tuple(places)
    if isinstance(start, int):
        first, end = await bounds_of(link, places)
        for place in places:
            if not 0 <= start <= end[place]:
                raise OffsetOutOfRangeError(start, first[place], end[place])
        return {place: max(start, first[place]) for place in places}
    if isinstance(start, str):
        return await list_offsets(link, dict.fromkeys(places, ENDS[start]))
    moment_ms = max(round(start.timestamp() * 1000), 0)  # below 0 are names of ends
    found = await list_offsets(link, dict.fromkeys(places, moment_ms))
    late = [place for place, offset in found.items() if offset < 0]
    return found | await list_offsets(link, dict.fromkeys(late, LATEST))


async def bounds_of(
    link: Link, places: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where partitions begin, and where they end for readers of committed messages."""
    places = tuple(places)
    first, end = await asyncio.gather(
        list_offsets(link, dict.fromkeys(places, EARLIEST)),
        list_offsets(link, dict.fromkeys(places, LATEST)),
    )
    return first, end


async def list_offsets(
    link: Link, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The offset of a moment, `EARLIEST` or `LATEST` in each partition; -1 where there is none.

    Raises:
        UnknownTopicError, UnknownPartitionError: there is no such topic or partition.
        GoQueueError: a leader refuses, or no broker answers for so long as a call may take.
    """
    return await link.retry("looking up offsets", lambda: ask_leaders(link, wanted))


async def ask_leaders(
    link: Link, wanted: Mapping[TopicPartition, int], isolation: int = READ_COMMITTED
) -> dict[TopicPartition, int]:
    """The same, asked once."""
    by_leader: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for place, timestamp in wanted.items():
        by_leader[await link.leader(place)][place] = timestamp
    found: dict[TopicPartition, int] = {}
    for leader, asked in by_leader.items():
        try:
            answer = await link.ask(
                ApiKey.LIST_OFFSETS,
                _LIST_OFFSETS,
                node=leader,
                replica_id=_NO_REPLICA,
                isolation_level=isolation,
                topics=_topics(asked),
            )
        except BrokerUnavailableError:
            for place in asked:
                link.misled(place)
            raise
        told = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        for place in asked:
            found[place] = _offset(link, place, told.get(place))
    return found


def _topics(wanted: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": number,
                    "current_leader_epoch": _NO_EPOCH,
                    "timestamp": wanted[TopicPartition(topic, number)],
                }
                for number in numbers
            ],
        }
        for topic, numbers in numbers_by_topic(wanted).items()
    ]


def _offset(link: Link, place: TopicPartition, told: Struct | None) -> int:
    if told is None:
        raise RetriableBrokerError(f"the broker says nothing of {place}")
    if told.error_code in MISLED:
        link.misled(place)
        raise RetriableBrokerError(f"the broker that was asked does not lead {place}")
    check_code(told.error_code, str(place))
    return int(told.offset)
