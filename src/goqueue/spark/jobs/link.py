"""The broker as a job sees it: readers of its topics for Spark, and a connection for the driver."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.client.consuming.log_offsets import READ_COMMITTED
from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import TopicMissingError
from goqueue.spark.kafka.cluster import Cluster, TopicView
from goqueue.spark.options.link_options import link_settings
from goqueue.spark.reading.resolving import find_ends
from goqueue.spark.wording import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Offsets of one partition; the end is not in it. Not all of them need to be messages."""

    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """At most so many messages."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class Link:
    """Where the broker is and how to log in: what every job is given."""

    servers: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of a connection as a query takes them, such as `kafka.sasl.username`."""

    def as_options(self) -> dict[str, str]:
        """For a reader or writer of Spark."""
        return {"bootstrap.servers": self.servers, **self.options}

    def cluster(self) -> Cluster:
        """A connection of the driver's own, to be used as a context manager.

        Raises:
            OptionsError: the address or an option is invalid.
        """
        return Cluster(link_settings(self.as_options()))

    def topic_id(self, topic: str) -> str:
        """The id of a topic, which one that is made anew does not have.

        Raises:
            TopicMissingError: there is none of that name.
        """
        with self.cluster() as cluster:
            return find_topic(cluster, topic).topic_id


def find_topic(cluster: Cluster, topic: str) -> TopicView:
    """A topic as it is now.

    Raises:
        TopicMissingError: there is none of that name.
    """
    found = cluster.topics([topic]).get(topic)
    if found is None:
        hint = nearest(topic, cluster.topics(None))
        raise TopicMissingError(f"there is no topic {topic!r}{hint}")
    return found


def ranges_of(
    cluster: Cluster, topic: str, *, start_ms: int | None = None, end_ms: int | None = None
) -> list[TopicRange]:
    """What each partition holds now, or holds of a time range.

    That is from the first message of the starting time or later up to the first of the ending time
    or later: a range of offsets, looked up in the time index.

    Raises:
        TopicMissingError: there is no such topic.
    """
    places = [TopicPartition(topic, number) for number in find_topic(cluster, topic).partitions]
    found = offsets_between(cluster, places, start_ms, end_ms)
    return [TopicRange(number, *found[TopicPartition(topic, number)]) for _, number in places]


def offsets_between(
    cluster: Cluster, places: Sequence[TopicPartition], start_ms: int | None, end_ms: int | None
) -> dict[TopicPartition, tuple[int, int]]:
    """Of each partition, the first offset of a time range and the one behind its last."""
    earliest, latest = find_ends(cluster, places, READ_COMMITTED)

    def at(
        moment_ms: int | None, otherwise: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        if moment_ms is None:
            return otherwise
        found = cluster.offsets_at(dict.fromkeys(places, moment_ms), READ_COMMITTED)
        return {
            place: latest[place] if found[place] < 0 else min(found[place], latest[place])
            for place in places
        }

    starts, ends = at(start_ms, earliest), at(end_ms, latest)
    return {place: (starts[place], max(starts[place], ends[place])) for place in places}


def assigned(ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[str, str]:
    """The options that let a query read these offsets, and no others."""
    numbers: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, number), (first, end) in sorted(ranges.items()):
        numbers.setdefault(topic, []).append(number)
        starts.setdefault(topic, {})[str(number)] = first
        ends.setdefault(topic, {})[str(number)] = end
    return {
        "assign": json.dumps(numbers),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }
