"""Every partition that this broker holds, opened, found and closed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from goqueue.broker.partition import Partition, PartitionId
from goqueue.model.errors import UnknownPartitionError, UnknownTopicError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor
    from pathlib import Path
    from uuid import UUID

    from goqueue.broker.damage import DamageReports
    from goqueue.broker.due_marks import MaintenanceMarks
    from goqueue.broker.measures import Measures
    from goqueue.broker.topics import Topic, Topics
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk

logger = logging.getLogger(__name__)


class Partitions:
    """The partitions of all topics in one folder, each in `<topic>/<topic id>/<number>`.

    The topic's id is in the path, so that a topic made again never finds the old one's records.
    """

    def __init__(
        self,
        folder: Path,
        topics: Topics,
        disk: Disk,
        clock: Clock,
        *,
        executor: Executor,
        measures: Measures,
        marks: MaintenanceMarks,
        damage: DamageReports,
    ) -> None:
        self._folder = folder
        self._topics = topics
        self._disk = disk
        self._clock = clock
        self._executor = executor
        self._measures = measures
        self._marks = marks
        self._damage = damage
        self._open: dict[PartitionId, Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def resolve(self, partition_id: PartitionId) -> tuple[Topic, Partition]:
        """A partition and its topic.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none.
        """
        topic = self._topics.catalogue.topic(partition_id.topic)
        partition = self._open.get(partition_id)
        if partition is None:
            raise UnknownPartitionError(
                f"topic {topic.name!r} has partitions 0 to {topic.partition_count - 1}, "
                f"not {partition_id.number}"
            )
        return topic, partition

    def partition(self, partition_id: PartitionId) -> Partition:
        """A partition. Raises like `resolve`."""
        return self.resolve(partition_id)[1]

    def find(self, partition_id: PartitionId) -> Partition | None:
        """A partition, if it is open."""
        return self._open.get(partition_id)

    def open_topic(self, topic: Topic) -> None:
        """Open every partition of a topic that is not open yet; new ones start empty."""
        for number in range(topic.partition_count):
            partition_id = PartitionId(topic.name, number)
            if partition_id not in self._open:
                self._open[partition_id] = Partition(
                    partition_id,
                    self._topic_folder(topic) / str(number),
                    topic.settings.log_config(),
                    disk=self._disk,
                    clock=self._clock,
                    executor=self._executor,
                    measures=self._measures,
                    marks=self._marks,
                    damage=self._damage,
                )

    def configure_topic(self, topic: Topic) -> None:
        """Let the logs of a topic follow its changed settings."""
        config = topic.settings.log_config()
        for partition in self.of_topic(topic):
            partition.configure(config)

    def of_topic(self, topic: Topic) -> list[Partition]:
        """The partitions of one topic, in order.

        Raises:
            UnknownTopicError: it was deleted meanwhile.
        """
        ids = (PartitionId(topic.name, number) for number in range(topic.partition_count))
        try:
            return [self._open[each] for each in ids]
        except KeyError:
            raise UnknownTopicError(f"topic {topic.name!r} was just deleted") from None

    async def delete_topic(self, topic: Topic) -> None:
        """Remove a topic's partitions and their files."""
        # All at once: while the first is being removed, a topic of the same name may be made.
        ids = [PartitionId(topic.name, number) for number in range(topic.partition_count)]
        doomed = [self._open.pop(each) for each in ids if each in self._open]
        for each in ids:
            self._marks.forget(each)
        # What refuses to go stays marked as deleted; the others go nevertheless.
        await asyncio.gather(*(each.delete() for each in doomed), return_exceptions=True)
        self.remove_files(topic.name, topic.topic_id)

    def remove_files(self, name: str, topic_id: UUID) -> None:
        """Remove what a deleted topic left behind."""
        self._disk.remove_folder(self._folder / name / topic_id.hex)

    def unknown_folders(self) -> list[str]:
        """Folders with the records of topics that the metadata does not know."""
        known = {
            (topic.name, topic.topic_id.hex) for topic in self._topics.catalogue.by_name.values()
        }
        return [
            f"{name}/{topic_id}"
            for name in self._disk.names(self._folder)
            for topic_id in self._disk.names(self._folder / name)
            if (name, topic_id) not in known
        ]

    def _topic_folder(self, topic: Topic) -> Path:
        return self._folder / topic.name / topic.topic_id.hex

    async def close(self) -> None:
        """Close all, so that the next start has nothing to recover.

        One that cannot be closed does not keep the others open; the next start recovers it.
        """
        partitions = tuple(self)
        closing = (partition.close() for partition in partitions)
        outcomes = await asyncio.gather(*closing, return_exceptions=True)
        self._open.clear()
        for partition, outcome in zip(partitions, outcomes, strict=True):
            if outcome is not None:
                logger.error("%s was not closed cleanly: %s", partition.id, outcome)
