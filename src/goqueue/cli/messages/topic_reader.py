"""Messages of a topic, read without being in a group."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.protocols.http.messages.message_shapes import MessageOut, RangeAnswer, ReadAnswer
from goqueue.protocols.http.topics.topic_shapes import TopicInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.cli.api import Api

PAGE: Final = 500
"""Messages of one request."""
FOLLOW_S: Final = 0.5
"""How often several partitions are looked at when nothing comes."""
_WAIT_MS: Final = 5000
"""How long the server holds a request for a single partition when nothing comes."""
_LOOK_AGAIN_S: Final = 10.0
"""How often a topic that is followed is asked whether it has grown."""


class Start(NamedTuple):
    """Where to begin: the name of a query parameter, and its value.

    `last` counts from the end of each partition; it is made an offset before a server is asked.
    """

    kind: str
    value: int | str


class Source(NamedTuple):
    """What is read: a topic of a server, one partition of it or all, with values decoded or not."""

    api: Api
    topic: str
    partition: int | None
    decode: str


def time_range(
    source: Source, begin_ms: int | str | None, end_ms: int | None
) -> Iterator[MessageOut]:
    """Everything that is there now between two moments, all partitions merged by time."""
    cursor = None
    while True:
        answer = source.api.get(
            RangeAnswer,
            "/topics/{}/messages",
            source.topic,
            from_time=begin_ms,
            to_time=end_ms,
            partition=source.partition,
            limit=PAGE,
            cursor=cursor,
            decode=source.decode,
        )
        yield from answer.messages
        cursor = answer.next
        if cursor is None:
            return


def last_of_each(source: Source, count: int, end_ms: int | None) -> Iterator[MessageOut]:
    """The last offsets of each partition, merged by time."""
    return heapq.merge(
        *(
            one_partition(source, number, offset, end_ms)
            for number, offset in _before_the_end(source, count).items()
        ),
        key=lambda message: message.timestamp,
    )


def _before_the_end(source: Source, count: int) -> dict[int, int]:
    """Of each partition the offset that lies so many before its end."""
    found = source.api.get(TopicInfo, "/topics/{}", source.topic).partitions
    ends = {
        each.partition: max(each.latest_offset - count, each.earliest_offset, 0) for each in found
    }
    # Of a partition that is not there, the server says so when it is read.
    return ends if source.partition is None else {source.partition: ends.get(source.partition, 0)}


def one_partition(
    source: Source, partition: int, offset: int, end_ms: int | None
) -> Iterator[MessageOut]:
    """A partition from an offset to its end as it is now, or to the first message of a moment."""
    end: int | None = None
    while True:
        answer = _page(source, partition, Start("offset", offset))
        end = answer.high_watermark if end is None else end
        for message in answer.messages:
            if message.offset >= end:
                return
            if end_ms is None or message.timestamp < end_ms:
                yield message
        if answer.next_offset >= end:
            return
        offset = answer.next_offset


def followed(source: Source, start: Start) -> Iterator[MessageOut]:
    """Messages from a place on, for ever; in order within a partition."""
    places: dict[int, Start] = {}
    if start.kind == "last":
        ends = _before_the_end(source, int(start.value))
        places |= {number: Start("offset", offset) for number, offset in ends.items()}
    looked_s = float("-inf")
    while True:
        if time.monotonic() - looked_s > _LOOK_AGAIN_S:
            _look_for_partitions(source, start, places)
            looked_s = time.monotonic()
        found = False
        wait_ms = _WAIT_MS if len(places) == 1 else 0
        for number, place in places.items():
            answer = _page(source, number, place, wait_ms)
            places[number] = Start("offset", answer.next_offset)
            found = found or bool(answer.messages)
            yield from answer.messages
        if not found and not wait_ms:
            time.sleep(FOLLOW_S)


def _look_for_partitions(source: Source, start: Start, places: dict[int, Start]) -> None:
    """Begin with all partitions at the start; those that come later are read from their first."""
    if source.partition is not None:
        places.setdefault(source.partition, start)
        return
    first_look = not places
    for number in range(source.api.get(TopicInfo, "/topics/{}", source.topic).num_partitions):
        places.setdefault(number, start if first_look else Start("offset", "earliest"))


def _page(source: Source, partition: int, place: Start, wait_ms: int = 0) -> ReadAnswer:
    return source.api.get(
        ReadAnswer,
        "/topics/{}/partitions/{}/messages",
        source.topic,
        partition,
        limit=PAGE,
        wait=wait_ms,
        decode=source.decode,
        **{place.kind: place.value},
    )
