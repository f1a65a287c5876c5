"""A topology held against the topics that there are: what is missing, and which tasks there are.

Pure: it is given a catalogue, and answers which internal topics are to be created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from goqueue.groups.streams.topology import InternalTopic
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.groups.streams.topology import Subtopology, Topology
    from goqueue.groups.topics import TopicCatalogue

_MAX_TASKS: Final = 10_000
"""Of one group, and partitions of all its internal topics; a topology that needs more gets no tasks
and the status INCORRECTLY_PARTITIONED_TOPICS."""
_TOPICS_SHOWN: Final = 3


class StatusCode(IntEnum):
    """Why a group has no tasks, or not all; the numbers are Kafka's."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """What a member is told besides its assignment."""

    code: StatusCode
    detail: str


class ConfiguredTopology(msgspec.Struct, frozen=True):
    """What came of a topology at one moment."""

    task_counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Subtopology id to the number of its tasks; empty where that is not known."""
    partition_counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Every topic of the topology, also those that are to be created."""
    missing: tuple[InternalTopic, ...] = ()
    """Internal topics to be created, with their number of partitions."""
    problem: Status | None = None
    """Why there are no tasks yet."""

    @property
    def is_ready(self) -> bool:
        """Tasks may be assigned."""
        return self.problem is None


class _Misfit(Exception):  # noqa: N818 - never leaves this module
    """Topics do not fit the topology."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configure(topology: Topology, catalogue: TopicCatalogue) -> ConfiguredTopology:
    """Decide the partitions of every internal topic, and which of them must be created."""
    try:
        return _Configuration(topology, catalogue).result()
    except _Misfit as misfit:
        return ConfiguredTopology(problem=misfit.status)


class _Configuration:
    """One run over a topology; each step needs the numbers that the one before has decided."""

    def __init__(self, topology: Topology, catalogue: TopicCatalogue) -> None:
        self._subtopologies = topology.subtopologies
        self._topics = catalogue.topics
        self._repartitions = {
            topic.name: topic for each in self._subtopologies for topic in each.repartition_sources
        }
        self._decided = {
            name: topic.partition_count
            for name, topic in self._repartitions.items()
            if topic.partition_count
        }
        """Partitions of internal topics."""

    def result(self) -> ConfiguredTopology:
        """The steps in order."""
        self._check_sources()
        self._decide_repartitions()
        for each in self._subtopologies:
            for group in each.copartitioned:
                self._copartition(group)
        tasks = {each.subtopology_id: self._width(each) for each in self._subtopologies}
        for each in self._subtopologies:
            for changelog in each.changelogs:
                self._decided[changelog.name] = tasks[each.subtopology_id]
        if max(sum(tasks.values()), sum(self._decided.values())) > _MAX_TASKS:
            raise _wrong(f"the topology needs more than {_MAX_TASKS} tasks or partitions")
        missing = self._missing()
        problem = None
        if missing:
            named = _some(each.name for each in missing)
            detail = f"internal topics are missing and being created: {named}"
            problem = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
        sources = (name for each in self._subtopologies for name in each.source_topics)
        counts = {name: self._topics[name].partition_count for name in sources} | self._decided
        return ConfiguredTopology(tasks, counts, missing, problem)

    def _check_sources(self) -> None:
        named = {name for each in self._subtopologies for name in each.source_topics}
        if missing := sorted(named - self._topics.keys()):
            raise _Misfit(
                StatusCode.MISSING_SOURCE_TOPICS,
                f"source topics do not exist: {_some(missing)}; create them",
            )

    def _count(self, name: str) -> int | None:
        """The partitions of a topic: as decided, else as it is; None while that is open."""
        if name in self._decided:
            return self._decided[name]
        topic = self._topics.get(name)
        return None if topic is None or name in self._repartitions else topic.partition_count

    def _width(self, each: Subtopology) -> int:
        return max(self._count(name) or 0 for name in each.sources)

    def _decide_repartitions(self) -> None:
        """As many partitions as the widest subtopology that writes to a topic, unless given.

        Decided in the order of the data flow: a topic when the width of all its writers is known,
        a subtopology when all that it reads is decided. Every edge is looked at once.
        """
        undecided = self._repartitions.keys() - self._decided.keys()
        reads = {s.subtopology_id: undecided & set(s.sources) for s in self._subtopologies}
        writes = {
            s.subtopology_id: undecided & set(s.repartition_sinks) for s in self._subtopologies
        }
        readers: dict[str, list[Subtopology]] = {name: [] for name in undecided}
        for each in self._subtopologies:
            for name in reads[each.subtopology_id]:
                readers[name].append(each)
        writers_left = Counter(name for names in writes.values() for name in names)
        widest = dict.fromkeys(undecided, 0)
        ready = [each for each in self._subtopologies if not reads[each.subtopology_id]]
        while ready:
            writer = ready.pop()
            width = self._width(writer)
            for name in writes[writer.subtopology_id]:
                widest[name] = max(widest[name], width)
                writers_left[name] -= 1
                if writers_left[name]:
                    continue
                self._decided[name] = widest[name]
                for reader in readers[name]:
                    reads[reader.subtopology_id].discard(name)
                    if not reads[reader.subtopology_id]:
                        ready.append(reader)
        if open_ends := sorted(undecided - self._decided.keys()):
            raise _wrong(
                f"the partitions of repartition topics follow from nothing: {_some(open_ends)}"
            )

    def _copartition(self, group: tuple[str, ...]) -> None:
        """Give every repartition topic of a group the number that the group's topics have."""
        flexible = [
            name
            for name in group
            if name in self._repartitions and not self._repartitions[name].partition_count
        ]
        fixed = {name: self._count(name) or 0 for name in group if name not in flexible}
        if len(set(fixed.values())) > 1:
            shown = ", ".join(f"{name} has {count}" for name, count in sorted(fixed.items()))
            raise _wrong(f"topics that are joined must have equally many partitions: {shown}")
        common = next(iter(fixed.values()), None)
        if common is None:
            common = max((self._decided[name] for name in flexible), default=0)
        self._decided |= dict.fromkeys(flexible, common)

    def _missing(self) -> tuple[InternalTopic, ...]:
        missing: dict[str, InternalTopic] = {}
        for each in self._subtopologies:
            for topic in chain(each.repartition_sources, each.changelogs):
                wanted = self._decided[topic.name]
                found = self._topics.get(topic.name)
                if found is None:
                    missing[topic.name] = replace(topic, partition_count=wanted)
                elif found.partition_count != wanted:
                    raise _wrong(
                        f"internal topic {topic.name} has {found.partition_count} partitions, "
                        f"{wanted} are needed: delete it, or reset the application"
                    )
        return tuple(missing[name] for name in sorted(missing))


def _wrong(detail: str) -> _Misfit:
    return _Misfit(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _some(names: Iterable[str]) -> str:
    """A few of the names, and how many more there are."""
    found = list(names)
    more = len(found) - _TOPICS_SHOWN
    return ", ".join(found[:_TOPICS_SHOWN]) + (f" and {more} more" if more > 0 else "")
