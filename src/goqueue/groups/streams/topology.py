"""The topology of a Streams application, as its members send it when they join.

A topology has subtopologies. A subtopology reads source topics and repartition topics, and keeps
state in changelog topics; it runs as one task for each partition of what it reads. Repartition and
changelog topics are internal to the application, and the broker creates them.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import InvalidTopologyError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_SUBTOPOLOGIES: Final = 1_000
"""Of one topology; a larger one is refused with `InvalidTopologyError`."""
_MAX_TOPICS: Final = 2_000
"""Topics that one topology names, counted as often as it names them; more are refused likewise."""


class InternalTopic(msgspec.Struct, frozen=True, array_like=True):
    """A repartition or changelog topic; `partition_count` 0 leaves the number to the broker."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]

    @property
    def held_bytes(self) -> int:
        """The characters of its name and settings."""
        return len(self.name) + sum(len(name) + len(value) for name, value in self.configs)


class Subtopology(msgspec.Struct, frozen=True, array_like=True):
    """A part of the topology whose tasks exchange nothing with others but through topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    copartitioned: tuple[tuple[str, ...], ...]
    """Groups of sources that must have the same number of partitions."""

    @property
    def held_bytes(self) -> int:
        """The characters of all names and settings."""
        named = chain(self.source_topics, self.repartition_sinks, *self.copartitioned)
        internal = chain(self.repartition_sources, self.changelogs)
        return sum(map(len, named)) + sum(each.held_bytes for each in internal)

    @property
    def is_stateful(self) -> bool:
        """Its tasks have state that can be kept twice."""
        return bool(self.changelogs)

    @property
    def sources(self) -> Iterator[str]:
        """Every topic that the subtopology reads."""
        return chain(self.source_topics, (each.name for each in self.repartition_sources))

    @property
    def topics(self) -> Iterator[str]:
        """Every topic that it reads or keeps state in."""
        return chain(self.sources, (each.name for each in self.changelogs))


class Topology(msgspec.Struct, frozen=True, array_like=True):
    """All subtopologies, by id; the epoch grows when the application changes them."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @property
    def held_bytes(self) -> int:
        """About what it takes to keep: the names of its topics and their settings."""
        return sum(each.held_bytes for each in self.subtopologies)

    @property
    def stateful_ids(self) -> frozenset[str]:
        """The subtopologies whose tasks may have standbys."""
        return frozenset(each.subtopology_id for each in self.subtopologies if each.is_stateful)


def check_topology(topology: Topology) -> None:
    """Refuse a topology that no set of topics could satisfy.

    Raises:
        InvalidTopologyError: it is empty, too large, or contradicts itself.
    """
    ids = [each.subtopology_id for each in topology.subtopologies]
    if not ids:
        raise InvalidTopologyError("the topology has no subtopologies, at least one is expected")
    if len(ids) > _MAX_SUBTOPOLOGIES:
        raise InvalidTopologyError(
            f"the topology has {len(ids)} subtopologies, at most {_MAX_SUBTOPOLOGIES} are allowed"
        )
    if len(set(ids)) < len(ids):
        raise InvalidTopologyError("two subtopologies have the same id")
    count = sum(map(_topic_count, topology.subtopologies))
    if count > _MAX_TOPICS:
        raise InvalidTopologyError(
            f"the topology names {count} topics, at most {_MAX_TOPICS} are allowed"
        )
    for each in topology.subtopologies:
        _check_subtopology(each)


def _topic_count(each: Subtopology) -> int:
    copartitioned = sum(map(len, each.copartitioned))
    sources = len(each.source_topics) + len(each.repartition_sources)
    return sources + len(each.repartition_sinks) + len(each.changelogs) + copartitioned


def _check_subtopology(each: Subtopology) -> None:
    if not each.subtopology_id:
        raise InvalidTopologyError("a subtopology has an empty id")
    if next(each.sources, None) is None:
        raise InvalidTopologyError(
            f"subtopology {each.subtopology_id!r} reads no topic, at least one is expected"
        )
    for topic in chain(each.repartition_sources, each.changelogs):
        if topic.partition_count < 0:
            raise InvalidTopologyError(
                f"internal topic {topic.name!r} has {topic.partition_count} partitions; 0 leaves "
                "the number to the broker"
            )
