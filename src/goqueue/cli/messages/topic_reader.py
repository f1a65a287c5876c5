"""Messages of a topic, read without being in a group."""

from __future__ import annotations

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
    """Where to begin: the name of a query parameter, and its value."""

    kind: str
    value: int | str


def time_range(
    api: Api, topic: str, partition: int | None, begin_ms: int | str | None, end_ms: int | None
) -> Iterator[MessageOut]:
    """Everything that is there now between two moments, all partitions merged by time."""
    cursor = None
    while True:
        answer = api.get(
            RangeAnswer,
            "/topics/{}/messages",
            topic,
            from_time=begin_ms,
            to_time=end_ms,
            partition=partition,
            limit=PAGE,
            cursor=cursor,
        )
        yield from answer.messages
        cursor = answer.next
        if cursor is None:
            return


def one_partition(
    api: Api, topic: str, partition: int, offset: int, end_ms: int | None
) -> Iterator[MessageOut]:
    """A partition from an offset to its end as it is now, or to the first message of a moment."""
    end: int | None = None
    while True:
        answer = _page(api, topic, partition, Start("offset", offset))
        end = answer.high_watermark if end is None else end
        for message in answer.messages:
            if message.offset >= end:
                return
            if end_ms is None or message.timestamp < end_ms:
                yield message
        if answer.next_offset >= end:
            return
        offset = answer.next_offset


def followed(api: Api, topic: str, partition: int | None, start: Start) -> Iterator[MessageOut]:
    """Messages from a place on, for ever; in order within a partition."""
    places: dict[int, Start] = {}
    looked_s = float("-inf")
    while True:
        if time.monotonic() - looked_s > _LOOK_AGAIN_S:
            _look_for_partitions(api, topic, partition, start, places)
            looked_s = time.monotonic()
        found = False
        wait_ms = _WAIT_MS if len(places) == 1 else 0
        for number, place in places.items():
            answer = _page(api, topic, number, place, wait_ms)
            places[number] = Start("offset", answer.next_offset)
            found = found or bool(answer.messages)
            yield from answer.messages
        if not found and not wait_ms:
            time.sleep(FOLLOW_S)


def _look_for_partitions(
    api: Api, topic: str, partition: int | None, start: Start, places: dict[int, Start]
) -> None:
    """Begin with all partitions at the start; those that come later are read from their first."""
    if partition is not None:
        places.setdefault(partition, start)
        return
    first_look = not places
    for number in range(api.get(TopicInfo, "/topics/{}", topic).num_partitions):
        places.setdefault(number, start if first_look else Start("offset", "earliest"))


def _page(api: Api, topic: str, partition: int, place: Start, wait_ms: int = 0) -> ReadAnswer:
    return api.get(
        ReadAnswer,
        "/topics/{}/partitions/{}/messages",
        topic,
        partition,
        limit=PAGE,
        wait=wait_ms,
        **{place.kind: place.value},
    )
