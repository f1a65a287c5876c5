"""Every partition that this broker holds, opened, found and closed."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from goqueue.model.errors import (
    NotLeaderError,
    StorageError,
    UnknownTopicError,
)
from goqueue.model.limits import MAX_LOGS_AWAITING_FLUSH
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.opening import OpenedLog, open_on_disk
from goqueue.partitions.partition import Partition
from goqueue.runtime.tasks import in_portions, in_thread
from goqueue.storage.checkpoints.book import CheckpointBook
from goqueue.storage.disk_log import LogHost
from goqueue.storage.flushing.schedule import FlushSchedule
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path
    from uuid import UUID

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.partitions.damage import DamageReports
    from goqueue.partitions.due_marks import MaintenanceMarks
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.replication.holding import Holding
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.runtime.clock import Clock
    from goqueue.storage.checkpoints.checkpoint import LogSummary
    from goqueue.storage.open_files import SharedFiles
    from goqueue.topics.catalogue import Topic, Topics

logger = logging.getLogger(__name__)

BOOK_FILE: Final = "log-summaries"
PORTION: Final = 64
"""Partitions that one thread opens, or one task closes, in one go."""
PORTIONS_OPENING: Final = 2
"""More would mostly wait for each other: opening is half Python."""
PORTIONS_CLOSING: Final = 8
"""Each waits for a few syncs, where a partition is too large for a summary."""


class LeadershipWatch(NamedTuple):
    """Who is told when this node begins and ceases to lead the partitions of a topic."""

    on_leading: Callable[[Partition, int], Awaitable[None]]
    on_left: Callable[[Partition], Awaitable[None]]


class Partitions:
    """The partitions of all topics in one folder, each in `<topic>/<topic id>/<number>`.

    The topic's id is in the path, so that a topic made again never finds the old one's records.
    """

    def __init__(
        self,
        folder: Path,
        topics: Topics,
        shared: SharedFiles,
        clock: Clock,
        *,
        executor: Executor,
        measures: Measures,
        marks: MaintenanceMarks,
        damage: DamageReports,
    ) -> None:
        self.folder = folder
        self._topics = topics
        self._shared = shared
        self._disk = shared.disk
        self._clock = clock
        self._executor = executor
        max_waiting = min(shared.open_files.limit, MAX_LOGS_AWAITING_FLUSH)
        sync_all = partial(self._disk.sync_all, folder.parent)
        self._schedule = FlushSchedule(executor, max_waiting, sync_all)
        self.book = CheckpointBook(self._disk, folder.parent / BOOK_FILE, folder)
        """What the next start need not find out by itself."""
        saved = partial(measures.snapshot_saved, SnapshotKind.PRODUCERS.label)
        self._host = LogHost(executor, self._schedule, self.book, measures.synced, saved)
        self._measures = measures
        self._marks = marks
        self.damage = damage
        self._open: dict[TopicPartition, Partition] = {}
        self._watches: defaultdict[str, list[LeadershipWatch]] = defaultdict(list)
        self.facts: ClusterFacts | None = None
        """Who leads what this node has no replica of; None on a node without others."""
        self.holding: Holding | None = None
        """Of a node of a cluster, set before anything is opened: which partitions it holds. A node
        on its own holds all, and leads them."""
        self._opening = asyncio.Lock()
        """Held while partitions of a cluster are opened."""
        self.has_unclosed = False
        """Whether one could not be closed: what it had may not be on the disk."""
        self.on_opened: Callable[[int], None] = lambda _: None
        """Told how many partitions were opened."""

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def resolve(self, partition_id: TopicPartition) -> tuple[Topic, Partition]:
        """A partition that this node leads, and its topic.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none.
            NotLeaderError: it exists and another node leads it, or none does at the moment.
        """
        topic = self._topics.catalogue.require(partition_id)
        partition = self._open.get(partition_id)
        if partition is None:
            raise self._elsewhere(topic, partition_id)
        if not partition.is_leading:
            partition.check_leading()
        return topic, partition

    def _elsewhere(self, topic: Topic, partition_id: TopicPartition) -> NotLeaderError:
        if self.facts is None:
            return NotLeaderError(str(partition_id))
        known = self.facts.partition(topic.topic_id, partition_id.partition)
        return NotLeaderError(str(partition_id), known.leader, known.epoch)

    def partition(self, partition_id: TopicPartition) -> Partition:
        """A partition that this node leads: its data, and appends to it. Raises like `resolve`."""
        return self.resolve(partition_id)[1]

    def local(self, partition_id: TopicPartition) -> Partition:
        """A partition in any role, for views of its watermarks and sizes.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none.
            NotLeaderError: this node has no replica of it.
        """
        partition = self._open.get(partition_id)
        return self.partition(partition_id) if partition is None else partition

    def find(self, partition_id: TopicPartition) -> Partition | None:
        """A partition in any role, if it is open here."""
        return self._open.get(partition_id)

    def replica(self, partition_id: TopicPartition) -> ReplicatedPartition | None:
        """The same on a node of a cluster."""
        return cast("ReplicatedPartition | None", self._open.get(partition_id))

    def failed(self) -> list[Partition]:
        """The partitions whose logs refuse appends."""
        marked = map(self._open.get, sorted(self._marks.failing))
        return [each for each in marked if each is not None and each.failure is not None]

    async def open_all(self) -> None:
        """Open every partition of every topic that this node holds, in threads.

        Those that need it are recovered.

        Raises:
            StorageError: the stored data of a partition cannot be opened.
        """
        summaries = await in_thread(self._executor, self.book.load)
        await self._open_in_threads(self._topics.catalogue.by_name.values(), summaries)

    async def _open_in_threads(
        self, topics: Iterable[Topic], summaries: Mapping[str, LogSummary]
    ) -> None:
        wanted = [(topic, each.partition) for topic in topics for each in self._missing(topic)]

        def open_logs(portion: Sequence[tuple[Topic, int]]) -> list[OpenedLog]:
            return [self._open_log(topic, number, summaries) for topic, number in portion]

        async def open_portion(portion: Sequence[tuple[Topic, int]]) -> None:
            opened = await in_thread(self._executor, partial(open_logs, portion))
            for (topic, number), stored in zip(portion, opened, strict=True):
                if topic.topic_id in self._topics.catalogue.by_id:
                    await self._tell_leading(self._add(topic, number, stored))
                else:
                    await stored.log.remove()  # the topic was deleted meanwhile

        await in_portions(wanted, PORTION, open_portion, PORTIONS_OPENING)

    async def open_topic(self, topic: Topic) -> None:
        """Open every partition of a topic that is to be here and is not; new ones start empty.

        All are open before anything is awaited: a topic that is in the catalogue has partitions. In
        a cluster they may be elsewhere, or about to be opened, and are opened in threads.
        """
        if self.holding is not None:
            async with self._opening:
                if self._topics.catalogue.by_id.get(topic.topic_id) is not None:
                    await self._open_in_threads((topic,), {})
            return
        new = [
            self._add(topic, each.partition, self._open_log(topic, each.partition, {}))
            for each in self._missing(topic)
        ]
        for partition in new:
            await self._tell_leading(partition)

    def _missing(self, topic: Topic) -> list[TopicPartition]:
        """The partitions that this node is to hold and that are not open."""
        holding = self.holding
        return [
            each
            for each in _ids(topic)
            if each not in self._open
            and (holding is None or holding.held(topic, each.partition) is not None)
        ]

    def _open_log(
        self, topic: Topic, number: int, summaries: Mapping[str, LogSummary]
    ) -> OpenedLog:
        folder = self.folder / topic.name / topic.topic_id.hex / str(number)
        return open_on_disk(
            folder,
            topic.settings.log_config(),
            self._host,
            shared=self._shared,
            clock=self._clock,
            summary=summaries.get(self.book.name_of(folder)),
            on_damage=partial(self.damage.damaged, TopicPartition(topic.name, number)),
            is_replica=self.holding is not None,
        )

    def _add(self, topic: Topic, number: int, stored: OpenedLog) -> Partition:
        make: Callable[..., Partition] = Partition
        if self.holding is not None:
            make = self.holding.maker(topic, number)
        partition_id = TopicPartition(topic.name, number)
        partition = self._open[partition_id] = make(
            partition_id,
            stored,
            clock=self._clock,
            measures=self._measures,
            marks=self._marks,
            damage=self.damage,
        )
        partition.hold(is_restoring=topic.is_restoring)
        self.on_opened(1)
        return partition

    # --- Leadership ------------------------------------------------------------------------------

    async def watch(
        self,
        topic_name: str,
        on_leading: Callable[[Partition, int], Awaitable[None]],
        on_left: Callable[[Partition], Awaitable[None]],
    ) -> None:
        """Call back whenever this node begins or ceases to lead a partition of a topic.

        `on_leading` gets the partition and its epoch: at once for those that are led now, one after
        the other, and later whenever one is opened or led in another epoch. `on_left` is called
        when another node leads it, or when it is deleted. Whoever makes the change waits for both.
        """
        watch = LeadershipWatch(on_leading, on_left)
        self._watches[topic_name].append(watch)
        for partition in self:
            if partition.id.topic == topic_name and partition.is_leading:
                await on_leading(partition, partition.leader_epoch)

    async def lead(self, partition_id: TopicPartition, epoch: int) -> None:
        """This node leads a partition, which is open, in an epoch."""
        partition = self._open[partition_id]
        if await partition.begin(epoch):
            await self._tell_leading(partition)

    async def follow(self, partition_id: TopicPartition, leader: int | None, epoch: int) -> None:
        """Another node leads a partition, which is open here; None is none."""
        partition = self._open[partition_id]
        was_leading = partition.is_leading
        partition.follow(leader, epoch)
        if was_leading:
            await self._tell_left(partition)
            await partition.end()

    async def _tell_leading(self, partition: Partition) -> None:
        if not partition.is_leading:
            return
        for watch in self._watches.get(partition.id.topic, ()):
            await watch.on_leading(partition, partition.leader_epoch)

    async def _tell_left(self, partition: Partition) -> None:
        for watch in self._watches.get(partition.id.topic, ()):
            await watch.on_left(partition)

    # --- Topics ----------------------------------------------------------------------------------

    def configure_topic(self, topic: Topic) -> None:
        """Let the logs of a topic follow its changed settings."""
        config = topic.settings.log_config()
        for partition in self.local_of(topic):
            partition.configure(config, is_restoring=topic.is_restoring)

    def of_topic(self, topic: Topic) -> list[Partition]:
        """The partitions of one topic, in order; in a cluster those of which a replica is here.

        Raises:
            UnknownTopicError: it was deleted meanwhile.
        """
        if self.holding is not None:
            return self.local_of(topic)
        try:
            return [self._open[each] for each in _ids(topic)]
        except KeyError:
            raise UnknownTopicError(f"topic {topic.name!r} was just deleted") from None

    def local_of(self, topic: Topic) -> list[Partition]:
        """The partitions of one topic that are open here, in whichever role."""
        return [self._open[each] for each in _ids(topic) if each in self._open]

    async def delete_topic(self, topic: Topic) -> None:
        """Remove a topic's partitions and their files."""
        await self.remove_topic(topic, self.take_out(topic))

    def take_out(self, topic: Topic) -> list[Partition]:
        """Have nothing more to do with the partitions of a deleted topic; returns those.

        All at once: while the first is being removed, a topic of the same name may be made.
        """
        doomed = [self._open.pop(each) for each in _ids(topic) if each in self._open]
        for each in _ids(topic):
            self._marks.forget(each)
        return doomed

    async def let_go(self, partition_id: TopicPartition) -> None:
        """Close a partition that this node holds no longer; its files stay. Raises like `close`."""
        partition = self._open.pop(partition_id)
        self._marks.forget(partition_id)
        await partition.close()

    async def remove_topic(self, topic: Topic, doomed: Sequence[Partition]) -> None:
        """Remove the files of partitions that were taken out."""
        for partition in doomed:
            await self._tell_left(partition)
        # What refuses to go stays marked as deleted; the others go nevertheless.
        await asyncio.gather(*(each.delete() for each in doomed), return_exceptions=True)
        self.remove_files(topic.name, topic.topic_id)

    def remove_files(self, name: str, topic_id: UUID) -> None:
        """Remove what a deleted topic left behind."""
        self._disk.remove_folder(self.folder / name / topic_id.hex)

    def unknown_folders(self) -> list[str]:
        """Folders with the records of topics that the metadata does not know."""
        known = {
            (topic.name, topic.topic_id.hex) for topic in self._topics.catalogue.by_name.values()
        }
        return [
            f"{name}/{topic_id}"
            for name in self._disk.names(self.folder)
            for topic_id in self._disk.names(self.folder / name)
            if (name, topic_id) not in known
        ]

    async def save_book(self) -> None:
        """Make the summaries of all logs durable. Raises `DiskError` if the disk refuses."""
        await in_thread(self._executor, self.book.save)

    async def close(self) -> None:
        """Close all, so that the next start has nothing to recover.

        One that cannot be closed does not keep the others open; the next start recovers it.
        """
        partitions = tuple(self)
        await self._schedule.flush_all()
        await in_portions(partitions, PORTION, self._close_portion, PORTIONS_CLOSING)
        self._open.clear()
        try:
            await self.save_book()
        except StorageError:
            logger.exception("%s was not written: the next start scans more data", BOOK_FILE)

    async def _close_portion(self, portion: Sequence[Partition]) -> None:
        for partition in portion:
            (outcome,) = await asyncio.gather(partition.close(), return_exceptions=True)
            if outcome is not None:
                self.has_unclosed = True
                logger.error("%s was not closed cleanly: %s", partition.id, outcome)


def _ids(topic: Topic) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in range(topic.partition_count)]
