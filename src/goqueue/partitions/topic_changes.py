"""Changes of topics: what the catalogue says and which partitions this node has change together."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from goqueue.model.errors import (
    CompactedTopicError,
    InternalTopicError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from goqueue.model.internal_topics import INTERNAL_TOPICS
from goqueue.topics.replica_assignments import ANYWHERE, Replication

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
    from uuid import UUID

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partitions import Partitions
    from goqueue.topics.catalogue import Topic, Topics

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_TOPICS_A_TURN: Final = 100
"""Topics that follow changed defaults before other work has its turn."""


class TopicChange(Enum):
    """What was done to a topic."""

    CREATED = auto()
    GROWN = auto()
    DELETED = auto()


class TopicAdmission(Protocol):
    """Whoever bounds what topics there are; each raises a `QuotaExceededError`."""

    def admit_topic(
        self, name: str, partition_count: int, overrides: Mapping[str, str] | None
    ) -> None:
        """A topic is to be made."""

    def admit_growth(self, name: str, partition_count: int) -> None:
        """A topic is to have so many partitions."""

    def admit_settings(self, name: str, overrides: Mapping[str, str]) -> None:
        """A topic is to have these settings."""


class TopicChanges:
    """Makes, grows, configures, trims and deletes topics."""

    is_cluster = False
    """Whether partitions may have replicas on other nodes."""

    def __init__(self, topics: Topics, partitions: Partitions, default_partitions: int) -> None:
        self.topics = topics
        self._partitions = partitions
        self._default_partitions = default_partitions
        self._under_way: set[asyncio.Task[Any]] = set()
        """As many as there are requests for changes."""
        self.growing: dict[str, int] = {}
        """Topics that are being given partitions, and how many they will have."""
        self.on_change: Callable[[TopicChange, Topic], Awaitable[None]] | None = None
        """Told of what was done to topics of users, before the client is; set by whoever wants to
        know. It does not raise."""
        self.admission: TopicAdmission | None = None
        """Who may refuse what clients ask for; set by the broker."""
        self.on_deleted: Callable[[Topic], None] | None = None
        """Told of each topic that is deleted, before anything is awaited: of a topic made again,
        nobody has read anything yet."""

    async def create(
        self,
        name: str,
        partition_count: int | None = None,
        overrides: Mapping[str, str] | None = None,
        replication: Replication = ANYWHERE,
    ) -> Topic:
        """Make a topic and its partitions. Raises like `Topics.plan`."""
        count = self._admitted(name, partition_count, overrides)

        async def create() -> Topic:
            topic = await self.topics.create(name, count, overrides, replication=replication)
            await self._partitions.open_topic(topic)
            return await self._told(TopicChange.CREATED, topic)

        return await self.to_the_end(create())

    def _admitted(
        self, name: str, partition_count: int | None, overrides: Mapping[str, str] | None
    ) -> int:
        """How many partitions a new topic gets, if there may be one."""
        count = self._default_partitions if partition_count is None else partition_count
        if self.admission is not None:
            self.admission.admit_topic(name, count, overrides)
        return count

    async def restore(
        self,
        name: str,
        partition_count: int,
        overrides: Mapping[str, str],
        topic_id: UUID,
        replication: Replication = ANYWHERE,
    ) -> Topic:
        """Make a topic under an id of its own for a backup to be restored into it.

        It takes no messages before `restored`. Raises like `Topics.plan`.
        """

        async def create() -> Topic:
            topic = await self.topics.restore(
                name, partition_count, overrides, topic_id, replication=replication
            )
            await self._partitions.open_topic(topic)
            return topic

        return await self.to_the_end(create())

    async def restored(self, name: str) -> None:
        """Let a topic that was restored take messages."""

        async def finish() -> None:
            self._partitions.configure_topic(await self.topics.restored(name))

        await self.to_the_end(finish())

    async def opened(self, topic: Topic) -> None:
        """Return when this node has opened its replicas of a new topic; on one node it has."""

    async def create_internal(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""
        if name in self.topics.catalogue.by_name:
            return

        async def create() -> None:
            settings = INTERNAL_TOPICS[name]
            topic = await self.topics.create(name, partition_count, settings, internal=True)
            await self._partitions.open_topic(topic)

        await self.to_the_end(create())

    async def restore_internal_settings(self) -> None:
        """Give internal topics the settings that their state depends on.

        They have others if they were made by an older version, which let clients change them.
        """
        for name, required in INTERNAL_TOPICS.items():
            topic = self.topics.catalogue.by_name.get(name)
            if topic is None or required.items() <= topic.settings.overrides.items():
                continue
            overrides = {**topic.settings.overrides, **required}
            await self.topics.configure(name, overrides, internal=True)
            _log.warning("internal topic %s: restored the settings %s", name, dict(required))

    async def delete(self, name: str) -> Topic:
        """Forget a topic and remove its files."""

        async def delete() -> Topic:
            topic = await self.topics.delete(name)
            if self.on_deleted is not None:
                self.on_deleted(topic)
            await self._partitions.delete_topic(topic)
            await self.topics.files_are_gone(topic.topic_id)
            return await self._told(TopicChange.DELETED, topic)

        return await self.to_the_end(delete())

    async def finish_deletions(
        self, at_start: Collection[str], forget: Callable[[str], None]
    ) -> None:
        """Do what is left of deletions that were interrupted.

        `forget` is told their names, but for those of `at_start`: topics that had been made anew
        before this start, and of which groups may have read something.

        Only what is marked as deleted goes: folders that the metadata does not know hold records
        that somebody was promised, if it is the metadata that was lost.
        """
        for name, topic_id in await self.topics.deleted():
            if name not in at_start:
                forget(name)
            self._partitions.remove_files(name, topic_id)
            await self.topics.files_are_gone(topic_id)
            _log.info("removed the remaining files of deleted topic %s", name)
        for folder in self._partitions.unknown_folders():
            _log.error(
                "%s/%s holds records of a topic that the metadata does not know: left alone; "
                "restore the metadata, or remove the folder",
                self._partitions.folder,
                folder,
            )

    async def grow(
        self, name: str, partition_count: int, replication: Replication = ANYWHERE
    ) -> Topic:
        """Give a topic more partitions."""
        if self.admission is not None:
            self.admission.admit_growth(name, partition_count)

        async def grow() -> Topic:
            self.growing[name] = partition_count
            try:
                topic = await self.topics.grow(name, partition_count, replication)
                await self._partitions.open_topic(topic)
            finally:
                self.growing.pop(name, None)
            return await self._told(TopicChange.GROWN, topic)

        return await self.to_the_end(grow())

    async def configure(self, name: str, overrides: Mapping[str, str]) -> Topic:
        """Replace the overrides of a topic's settings; they hold from the next append on."""
        if self.admission is not None:
            self.admission.admit_settings(name, overrides)

        async def configure() -> Topic:
            topic = await self.topics.configure(name, overrides)
            self._partitions.configure_topic(topic)
            return topic

        return await self.to_the_end(configure())

    async def follow_defaults(self, affected: Iterable[Topic]) -> None:
        """Let topics follow changed defaults from their next append on."""
        for number, topic in enumerate(affected):
            with suppress(UnknownTopicError):  # deleted meanwhile
                self._partitions.configure_topic(self.topics.catalogue.topic(topic.name))
            if number % _TOPICS_A_TURN == _TOPICS_A_TURN - 1:
                await asyncio.sleep(0)

    async def delete_records(self, partition_id: TopicPartition, offset: int | None) -> int:
        """Let a partition start at `offset`, or at its high watermark; returns the new start.

        Raises:
            TopicError: there is no such partition, it is the broker's own, or it is only compacted.
            OffsetOutOfRangeError: there is no such offset to start at.
        """
        topic, partition = self._partitions.resolve(partition_id)
        if topic.is_internal:
            raise InternalTopicError(f"{topic.name} belongs to the broker: it cannot be trimmed")
        if topic.settings.compacts and not topic.settings.deletes:
            raise CompactedTopicError(
                f"topic {topic.name!r} has cleanup.policy=compact and its records cannot be "
                "deleted by offset: add delete to its cleanup.policy first"
            )
        start = partition.high_watermark if offset is None else offset
        if not 0 <= start <= partition.high_watermark:
            raise OffsetOutOfRangeError(start, partition.log_start, partition.high_watermark)
        return await partition.delete_before(start)

    async def _told(self, change: TopicChange, topic: Topic) -> Topic:
        """The topic, once those who want to know of its change have been told."""
        if self.on_change is not None:
            await self.on_change(change, topic)
        return topic

    async def to_the_end(self, change: Coroutine[Any, Any, _T]) -> _T:
        """Make all of a change, also when whoever asked for it is gone meanwhile.

        What is stored and what this broker holds would be different topics otherwise, until the
        next start: messages would be taken for a topic that is deleted there.
        """
        task = asyncio.create_task(change)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """Return when every change under way is made."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
