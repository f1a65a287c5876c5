"""What this node tells others of the partitions that it leads: changes since they asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.partitions.elsewhere.figures import ROW, Figures, figures_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topics

_FRESH_S: Final = 0.5
"""All partitions that are led here are looked through at most this often."""
_AT_ONCE: Final = 500
"""Partitions that are looked at before others have their turn on the event loop."""


class _Noted(NamedTuple):
    topic_id: UUID
    figures: Figures
    version: int


class TellsFigures:
    """Counts the changes of the figures of what is led here."""

    def __init__(
        self, topics: Topics, partitions: Partitions, facts: ClusterFacts, clock: Clock
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._facts = facts
        self._clock = clock
        self.run = clock.now_ms()
        """Another one after a start, so that nobody takes these counts for earlier ones."""
        self.version = 0
        self._noted: dict[TopicPartition, _Noted] = {}
        """Of the partitions that are led here."""
        self._looked_s = -_FRESH_S
        self._looking: asyncio.Future[None] | None = None

    async def since(self, asker: int, run: int, version: int) -> tuple[int, bytes]:
        """What has changed of partitions that a node has no replica of, and the version of it."""
        if self._clock.monotonic_s() - self._looked_s >= _FRESH_S:
            if self._looking is None:
                self._looking = asyncio.ensure_future(self._look())
            await asyncio.shield(self._looking)
        known = version if run == self.run else 0
        rows = bytearray()
        for place, (topic_id, figures, changed) in self._noted.items():
            if changed > known and asker not in self._replicas(topic_id, place.partition):
                rows += ROW.pack(topic_id.bytes, place.partition, *figures)
        return self.version, bytes(rows)

    def of_topics(self, topic_ids: Collection[UUID]) -> bytes:
        """The figures of what is led here of some topics, at this moment."""
        rows = bytearray()
        for topic_id in topic_ids:
            topic = self._topics.catalogue.by_id.get(topic_id)
            for each in () if topic is None else self._partitions.local_of(topic):
                if each.is_leading:
                    rows += ROW.pack(topic_id.bytes, each.id.partition, *figures_of(each))
        return bytes(rows)

    def _replicas(self, topic_id: UUID, number: int) -> Collection[int]:
        return self._facts.partition(topic_id, number).replicas

    async def _look(self) -> None:
        try:
            led: set[TopicPartition] = set()
            version = self.version + 1
            for count, (partition, topic_id) in enumerate(self._led(), 1):
                led.add(partition.id)
                figures = figures_of(partition)
                noted = self._noted.get(partition.id)
                if noted is None or noted[:2] != (topic_id, figures):
                    self.version = version
                    self._noted[partition.id] = _Noted(topic_id, figures, version)
                if count % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            for place in self._noted.keys() - led:
                del self._noted[place]
        finally:
            self._looked_s = self._clock.monotonic_s()
            self._looking = None

    def _led(self) -> Iterator[tuple[Partition, UUID]]:
        by_name = self._topics.catalogue.by_name
        for partition in self._partitions:
            topic = by_name.get(partition.id.topic)
            if partition.is_leading and topic is not None:
                yield partition, topic.topic_id
