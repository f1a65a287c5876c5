"""Waiting for news, and looking at a few bytes of it: what a stream asks between micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from goqueue.model.topic_partition import TopicPartition
from goqueue.records.batch import HEADER_BYTES, peek_header
from goqueue.spark import clock
from goqueue.spark.errors import BrokerAwayError, TopicMissingError
from goqueue.spark.kafka.cluster import TryAgainError
from goqueue.spark.kafka.fetching import FETCH_VERSION
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.spark.kafka.cluster import Cluster
    from goqueue.wire.kafka.reading import Struct

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
    wait early: whoever asks next finds out, and has the patience for it.
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
        _fetch(cluster, node_id, ids, wanted, isolation, wait_s=wait_s, max_bytes=1)
    except (BrokerAwayError, TopicMissingError):
        cluster.close()


def sample_record_bytes(
    cluster: Cluster, ids: Mapping[str, str], starts: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, float]:
    """How many stored bytes a record takes, at the place where each partition is read next."""
    return cluster.retry("sampling", lambda: _sample(cluster, ids, starts, isolation))


def _sample(
    cluster: Cluster, ids: Mapping[str, str], starts: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, float]:
    found: dict[TopicPartition, float] = {}
    for node_id, places in _by_leader(cluster, starts).items():
        # A batch that is longer than the sample comes only to whoever is first in line.
        waiting = list(places)
        while waiting:
            wanted = {place: starts[place] for place in waiting}
            answer = _fetch(
                cluster, node_id, ids, wanted, isolation, max_bytes=_SAMPLE_BYTES * len(waiting)
            )
            sizes = _sizes(answer, {topic_id: name for name, topic_id in ids.items()})
            found.update(sizes)
            waiting = [place for place in waiting[1:] if place not in sizes]
    return found


def _sizes(answer: Struct, names: Mapping[str, str]) -> dict[TopicPartition, float]:
    found: dict[TopicPartition, float] = {}
    for topic in answer.responses:
        for part in topic.partitions:
            if part.records is not None and len(part.records) >= HEADER_BYTES:
                info = peek_header(part.records)
                place = TopicPartition(names[str(topic.topic_id)], part.partition_index)
                found[place] = info.size_bytes / max(info.last_offset_delta + 1, 1)
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
    wait_s: float = 0.0,
    max_bytes: int,
) -> Struct:
    answer = cluster.to_node(node_id).call(
        ApiKey.FETCH,
        FETCH_VERSION,
        wait_s=wait_s,
        max_wait_ms=int(wait_s * 1000),
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        topics=asked_topics(ids, wanted, _SAMPLE_BYTES),
        forgotten_topics_data=[],
    )
    if answer.error_code:
        raise TryAgainError(f"fetch: error {answer.error_code}")
    return answer


def asked_topics(
    ids: Mapping[str, str], wanted: Mapping[TopicPartition, int], max_bytes: int
) -> list[dict[str, Any]]:
    """The part of a fetch request that says where to read, and how much of each partition."""
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, number), offset in wanted.items():
        topics.setdefault(topic, []).append(
            {"partition": number, "fetch_offset": offset, "partition_max_bytes": max_bytes}
        )
    return [
        {"topic_id": UUID(ids[topic]), "partitions": partitions}
        for topic, partitions in topics.items()
    ]
