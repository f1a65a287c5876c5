"""Waiting for news, and looking at a few bytes of it: what a stream asks between micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from goqueue.model.topic_partition import TopicPartition
from goqueue.records.batch import HEADER_BYTES, peek_header
from goqueue.spark import clock
from goqueue.spark.errors import BrokerAwayError, TopicMissingError
from goqueue.spark.kafka.cluster import Cluster, TryAgainError
from goqueue.spark.kafka.fetching import FETCH_VERSION
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    try:
        leaders = _by_leader(cluster, ends)
        node_id, places = next(iter(leaders.items()))
        wanted = {place: ends[place] for place in places}
        if len(leaders) > 1:
            wait_s = min(wait_s, _SHARED_WAIT_S)
        _fetch(cluster, node_id, ids, wanted, isolation, partition_bytes=1, wait_s=wait_s)
    except (BrokerAwayError, TopicMissingError):
        cluster.close()


def sample_record_bytes(
    cluster: Cluster, ids: Mapping[str, str], starts: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, float]:
    """How many stored bytes a record takes, at the place where each partition is read next."""
    return cluster.retry(
        "sampling",
        lambda: look_at(
            cluster, ids, starts, _record_bytes, isolation=isolation, look_bytes=_SAMPLE_BYTES
        ),
    )


def _record_bytes(records: Any, _offset: int) -> float | None:
    if records is None or len(records) < HEADER_BYTES:
        return None
    info = peek_header(records)
    return info.size_bytes / max(info.last_offset_delta + 1, 1)


def look_at(
    cluster: Cluster,
    ids: Mapping[str, str],
    wanted: Mapping[TopicPartition, int],
    find: Callable[[Any, int], T | None],
    *,
    isolation: int,
    look_bytes: int,
) -> dict[TopicPartition, T]:
    """What `find` makes of the first bytes of each partition from an offset on.

    Args:
        cluster: The brokers.
        ids: The ids of the topics.
        wanted: The offset to look at in each partition.
        find: Takes the fetched bytes, or None, and the offset; None: nothing was found.
        isolation: The isolation level.
        look_bytes: How many bytes to fetch of each partition.
    """
    names = {topic_id: name for name, topic_id in ids.items()}
    found: dict[TopicPartition, T] = {}
    for node_id, places in _by_leader(cluster, wanted).items():
        waiting = places
        while waiting:
            asked = {place: wanted[place] for place in waiting}
            answer = _fetch(cluster, node_id, ids, asked, isolation, partition_bytes=look_bytes)
            for topic in answer.responses:
                for part in topic.partitions:
                    place = TopicPartition(names[str(topic.topic_id)], part.partition_index)
                    result = find(part.records, wanted[place])
                    if result is not None:
                        found[place] = result
            # A batch that is longer than that is returned for the first partition alone.
            waiting = [place for place in waiting[1:] if place not in found]
    return found


def _by_leader(
    cluster: Cluster, places: Iterable[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for place in places:
        found.setdefault(cluster.leader_of(place), []).append(place)
    return found


def _fetch(
    cluster: Cluster,
    node_id: int,
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
    answer = cluster.to_node(node_id).call(
        ApiKey.FETCH,
        FETCH_VERSION,
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
    if answer.error_code:
        raise TryAgainError(f"fetch: error {answer.error_code}")
    return answer
