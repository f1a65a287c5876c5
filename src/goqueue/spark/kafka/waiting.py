"""Waiting for news, and looking at a few bytes of it: what a stream asks between micro-batches."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from goqueue.client.link.codes import check_code
from goqueue.model.topic_partition import TopicPartition
from goqueue.records.batch import HEADER_BYTES, peek_header
from goqueue.spark import clock
from goqueue.spark.errors import BrokerAwayError, TopicMissingError
from goqueue.spark.kafka.cluster import FETCHING
from goqueue.spark.kafka.fetching import FETCH_VERSION
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from goqueue.client.link.link import Link
    from goqueue.spark.kafka.cluster import Cluster
    from goqueue.wire.kafka.reading import Struct

T = TypeVar("T")

_SAMPLE_BYTES: Final = 16 * 1024
"""Of each partition: the header of a batch says how many records it has and how long it is."""
_SHARED_WAIT_S: Final = 0.1
"""At one of several brokers: the news may be at another."""


def wait_for_news(
    cluster: Cluster,
    ids: Mapping[str, str],
    ends: Mapping[TopicPartition, int],
    isolation: int,
    wait_s: float,
) -> None:
    """Return when something was appended behind the ends, or after a while.

    Where several brokers lead, the first is asked, and not for long. A lost connection ends the
    wait early: the next caller finds out, and waits for it.
    """
    if not ends:
        clock.sleep(wait_s)
        return
    with suppress(BrokerAwayError, TopicMissingError):
        cluster.once(lambda: _wait(cluster.link, ids, ends, isolation, wait_s))


async def _wait(
    link: Link,
    ids: Mapping[str, str],
    ends: Mapping[TopicPartition, int],
    isolation: int,
    wait_s: float,
) -> None:
    leaders = await _by_leader(link, ends)
    node, places = next(iter(leaders.items()))
    wanted = {place: ends[place] for place in places}
    if len(leaders) > 1:
        wait_s = min(wait_s, _SHARED_WAIT_S)
    await _fetch(link, node, ids, wanted, isolation, partition_bytes=1, wait_s=wait_s)


def sample_record_bytes(
    cluster: Cluster, ids: Mapping[str, str], starts: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, float]:
    """How many stored bytes a record takes, at the place where each partition is read next."""
    return cluster.retry(
        "sampling",
        lambda: look_at(
            cluster.link, ids, starts, _record_bytes, isolation=isolation, look_bytes=_SAMPLE_BYTES
        ),
    )


def _record_bytes(records: Any, _offset: int) -> float | None:
    if records is None or len(records) < HEADER_BYTES:
        return None
    info = peek_header(records)
    return info.size_bytes / max(info.last_offset_delta + 1, 1)


async def look_at(
    link: Link,
    ids: Mapping[str, str],
    wanted: Mapping[TopicPartition, int],
    find: Callable[[Any, int], T | None],
    *,
    isolation: int,
    look_bytes: int,
) -> dict[TopicPartition, T]:
    """What `find` makes of the first bytes of each partition from an offset on.

    Args:
        link: The brokers.
        ids: The ids of the topics.
        wanted: The offset to look at in each partition.
        find: Takes the fetched bytes, or None, and the offset; None: nothing was found.
        isolation: The isolation level.
        look_bytes: How many bytes to fetch of each partition.
    """
    names = {topic_id: name for name, topic_id in ids.items()}
    found: dict[TopicPartition, T] = {}
    for node, places in (await _by_leader(link, wanted)).items():
        waiting = places
        while waiting:
            asked = {place: wanted[place] for place in waiting}
            answer = await _fetch(link, node, ids, asked, isolation, partition_bytes=look_bytes)
            for topic in answer.responses:
                for part in topic.partitions:
                    place = TopicPartition(names[str(topic.topic_id)], part.partition_index)
                    result = find(part.records, wanted[place])
                    if result is not None:
                        found[place] = result
            # A batch that is longer than that is returned for the first partition alone.
            waiting = [place for place in waiting[1:] if place not in found]
    return found


async def _by_leader(
    link: Link, places: Iterable[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for place in places:
        found.setdefault(await link.leader(place), []).append(place)
    return found


async def _fetch(
    link: Link,
    node: int,
    ids: Mapping[str, str],
    wanted: Mapping[TopicPartition, int],
    isolation: int,
    *,
    partition_bytes: int,
    wait_s: float = 0.0,
) -> Struct:
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, number), offset in wanted.items():
        topics.setdefault(topic, []).append(
            {"partition": number, "fetch_offset": offset, "partition_max_bytes": partition_bytes}
        )
    answer = await link.ask(
        ApiKey.FETCH,
        FETCH_VERSION,
        node=node,
        lane=FETCHING,
        wait_s=wait_s,
        max_wait_ms=int(wait_s * 1000),
        min_bytes=1,
        max_bytes=partition_bytes * len(wanted),
        isolation_level=isolation,
        topics=[
            {"topic_id": UUID(ids[topic]), "partitions": partitions}
            for topic, partitions in topics.items()
        ],
        forgotten_topics_data=[],
    )
    check_code(answer.error_code, "fetch")
    return answer
