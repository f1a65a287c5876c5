"""The topics: what they are called, how many partitions they have, how they are set.

They live in the metadata store; this is the broker's view of it, kept in memory and replaced as a
whole when something changes, so that a reader sees one consistent catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import msgspec
from msgspec.structs import force_setattr, replace

from goqueue.cluster.metadata import (
    ABSENT,
    Committed,
    Condition,
    Conflict,
    Delete,
    MetadataStore,
    Operation,
    Put,
    Revision,
)
from goqueue.model.errors import (
    InternalTopicError,
    InvalidPartitionCountError,
    InvalidTopicNameError,
    MetadataUnavailableError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from goqueue.model.internal_topics import is_internal_topic
from goqueue.model.limits import MAX_PARTITIONS, MAX_TOPIC_PARTITIONS
from goqueue.topics.names import check_name, unknown_topic_id
from goqueue.topics.partition_bounds import check_total
from goqueue.topics.replica_assignments import ANYWHERE, Replication
from goqueue.topics.restored_topics import RestoredTopics
from goqueue.topics.settings import TopicSettings, check_overrides
from goqueue.topics.stored_topic import DELETED, TOPICS, StoredTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.model.topic_partition import TopicPartition


class Topic(msgspec.Struct, frozen=True):
    """One topic as it is now."""

    name: str
    topic_id: UUID
    partition_count: int
    settings: TopicSettings
    revision: Revision
    is_internal: bool = False
    """The broker keeps its own state here: what its name says."""
    replication_factor: int = 1
    is_restoring: bool = False
    """A backup is being restored into it; it takes no messages meanwhile."""

    def __post_init__(self) -> None:
        force_setattr(self, "is_internal", is_internal_topic(self.name))

    def stored(self, token: str = "") -> StoredTopic:
        """The topic as it is stored."""
        return StoredTopic(
            str(self.topic_id),
            self.partition_count,
            dict(self.settings.overrides),
            self.replication_factor,
            self.is_restoring,
            token,
        )


class Catalogue(msgspec.Struct, frozen=True):
    """Every topic at one moment."""

    version: int = 0
    by_name: Mapping[str, Topic] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    by_id: Mapping[UUID, Topic] = msgspec.field(default_factory=lambda: MappingProxyType({}))

    def topic(self, name: str) -> Topic:
        """The topic of that name.

        Raises:
            UnknownTopicError: there is none.
        """
        topic = self.by_name.get(name)
        if topic is None:
            raise UnknownTopicError(f"there is no topic {name!r}: create it first")
        return topic

    def topic_with_id(self, topic_id: UUID) -> Topic:
        """The topic with that id.

        Raises:
            UnknownTopicIdError: there is none.
        """
        topic = self.by_id.get(topic_id)
        if topic is None:
            raise unknown_topic_id(topic_id)
        return topic

    def require(self, partition: TopicPartition) -> Topic:
        """The topic of a partition that exists, wherever it is led.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none.
        """
        topic = self.topic(partition.topic)
        if not 0 <= partition.partition < topic.partition_count:
            raise UnknownPartitionError(
                f"topic {topic.name!r} has partitions 0 to {topic.partition_count - 1}, "
                f"not {partition.partition}"
            )
        return topic

    def with_topic(self, topic: Topic) -> Catalogue:
        """The same with one topic new or changed."""
        names = {**self.by_name, topic.name: topic}
        return catalogue_of(self.version + 1, names)

    def without(self, name: str) -> Catalogue:
        """The same without one topic."""
        names = {key: value for key, value in self.by_name.items() if key != name}
        return catalogue_of(self.version + 1, names)


def catalogue_of(version: int, names: dict[str, Topic]) -> Catalogue:
    """These topics, by their names and by their ids."""
    ids = {topic.topic_id: topic for topic in names.values()}
    return Catalogue(version, MappingProxyType(names), MappingProxyType(ids))


class Topics(RestoredTopics[Topic]):
    """The catalogue, and every way to change it."""

    def __init__(self, store: MetadataStore, defaults: Mapping[str, str]) -> None:
        self._store = store
        self._static = dict(defaults)
        self._defaults = self._static
        self._watchers: list[Callable[[], None]] = []
        self.catalogue: Catalogue = Catalogue()
        self.max_partitions = MAX_PARTITIONS
        """Of all topics of clients together."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call back, right after, whenever the catalogue has been replaced."""
        self._watchers.append(callback)

    def _publish(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        for callback in self._watchers:
            callback()

    async def revision(self) -> int:
        """How many changes the metadata store has made since it began."""
        return (await self._store.status()).revision

    async def load(self, defaults: Mapping[str, str] | None = None) -> None:
        """Read the catalogue from the metadata store; `defaults` are those set at run time."""
        self._defaults = {**self._static, **(defaults or {})}
        snapshot = await self._store.range(TOPICS)
        topics = {}
        for entry in snapshot.entries:
            name = entry.key.removeprefix(TOPICS)
            stored = msgspec.msgpack.decode(entry.value, type=StoredTopic)
            topics[name] = self._topic(name, stored, entry.revision)
        self._publish(catalogue_of(self.catalogue.version + 1, topics))

    async def refresh(self) -> None:
        """Take in topics that were made elsewhere: of one node there are none."""

    async def is_gone(self, name: str) -> bool:
        """Whether there is no such topic, whatever this node has heard."""
        return await self._store.get(TOPICS + name) is None

    def use_defaults(self, defaults: Mapping[str, str]) -> list[Topic]:
        """Let topics use what was set at run time where they say nothing; returns who is affected.

        Internal topics keep to the server's configuration: state depends on their settings.
        """
        before, self._defaults = self._defaults, {**self._static, **defaults}
        names = {
            name
            for name in before.keys() | self._defaults.keys()
            if before.get(name) != self._defaults.get(name)
        }
        by_name = self.catalogue.by_name
        affected = [
            topic
            for topic in by_name.values()
            if not topic.is_internal and not names <= topic.settings.overrides.keys()
        ]
        if affected:
            renewed = {
                topic.name: replace(topic, settings=self._settings(topic.stored(), self._defaults))
                for topic in affected
            }
            self._publish(catalogue_of(self.catalogue.version + 1, {**by_name, **renewed}))
        return affected

    def plan(
        self,
        name: str,
        partition_count: int,
        overrides: Mapping[str, str],
        *,
        internal: bool = False,
        replication: Replication = ANYWHERE,
    ) -> Topic:
        """The topic that `create` would make; `internal` is for the broker itself.

        Raises:
            InvalidTopicNameError, InvalidPartitionCountError, InvalidTopicConfigError,
            TopicExistsError: it cannot be made.
            InternalTopicError: the broker keeps its own state under this name.
            InvalidReplicationError, InvalidAssignmentError: there are no such nodes, or too few.
        """
        check_name(name)
        if is_internal_topic(name) and not internal:
            raise InternalTopicError(
                f"topic {name!r} is internal and only the broker creates it: choose another name"
            )
        if name in self.catalogue.by_name:
            raise TopicExistsError(f"topic {name!r} exists already")
        other = None if internal else self._colliding(name)
        if other is not None:
            raise InvalidTopicNameError(
                f"topic {name!r} collides with topic {other!r}: names that differ only in '.' and "
                "'_' are the same in the names of metrics; choose another name"
            )
        if not 1 <= partition_count <= MAX_TOPIC_PARTITIONS:
            raise InvalidPartitionCountError(
                f"{partition_count} partitions, expected 1 to {MAX_TOPIC_PARTITIONS}"
            )
        if not internal:
            check_total(self.catalogue.by_name.values(), name, partition_count, self.max_partitions)
        check_overrides(overrides)
        factor = self._factor(partition_count, replication)
        stored = StoredTopic(str(uuid4()), partition_count, dict(overrides), factor)
        return self._topic(name, stored, ABSENT)

    def _factor(self, new_count: int, replication: Replication) -> int:  # noqa: ARG002 - see ClusterTopics
        """How many replicas new partitions get."""
        return 1

    def _colliding(self, name: str) -> str | None:
        """A topic whose name differs only in '.' and '_'; Kafka refuses the second of such two."""
        if "." not in name and "_" not in name:
            return None
        folded = name.replace(".", "_")
        others = self.catalogue.by_name
        return next((other for other in others if other.replace(".", "_") == folded), None)

    async def create(
        self,
        name: str,
        partition_count: int,
        overrides: Mapping[str, str] | None = None,
        *,
        internal: bool = False,
        replication: Replication = ANYWHERE,
    ) -> Topic:
        """Make a topic. Raises like `plan`."""
        topic = self.plan(
            name, partition_count, overrides or {}, internal=internal, replication=replication
        )
        return await self._make(topic, replication)

    async def _make(self, topic: Topic, replication: Replication) -> Topic:  # noqa: ARG002 - as above
        """Store a topic that is new."""
        return await self._store_topic(topic)

    async def grow(
        self, name: str, partition_count: int, replication: Replication = ANYWHERE
    ) -> Topic:
        """Give a topic more partitions; the new ones follow the old. Raises like `plan_growth`."""
        topic = self.plan_growth(name, partition_count, replication)
        return await self._store_topic(replace(topic, partition_count=partition_count))

    def plan_growth(
        self, name: str, partition_count: int, replication: Replication = ANYWHERE
    ) -> Topic:
        """The topic that `grow` would change.

        Raises:
            InvalidPartitionCountError: not more than it has, or too many.
            InvalidReplicationError, InvalidAssignmentError: there are no such nodes, or too few.
        """
        topic = self._changeable(name)
        if not topic.partition_count < partition_count <= MAX_TOPIC_PARTITIONS:
            raise InvalidPartitionCountError(
                f"topic {name!r} has {topic.partition_count} partitions and can only be given more "
                f"(at most {MAX_TOPIC_PARTITIONS}), not {partition_count}"
            )
        new_count = partition_count - topic.partition_count
        check_total(self.catalogue.by_name.values(), name, new_count, self.max_partitions)
        self._factor(new_count, replication)
        return topic

    def plan_settings(
        self, name: str, overrides: Mapping[str, str], *, internal: bool = False
    ) -> Topic:
        """The topic that `configure` would change.

        Raises:
            UnknownTopicError: there is none.
            InternalTopicError: the broker alone changes it, `internal` being true.
            InvalidTopicConfigError: a setting has no such name or cannot have that value.
        """
        topic = self.catalogue.topic(name) if internal else self._changeable(name)
        check_overrides(overrides, topic.settings.overrides)
        return topic

    async def configure(
        self, name: str, overrides: Mapping[str, str], *, internal: bool = False
    ) -> Topic:
        """Replace all overrides of a topic's settings. Raises like `plan_settings`."""
        topic = self.plan_settings(name, overrides, internal=internal)
        return await self._store_topic(self._configured(topic, overrides))

    def _configured(self, topic: Topic, overrides: Mapping[str, str]) -> Topic:
        return replace(topic, settings=replace(topic.settings, overrides=dict(overrides)))

    async def delete(self, name: str) -> Topic:
        """Forget a topic, and note that its files may go; removing them is the broker's part."""
        topic = self._changeable(name)
        mark = Put(DELETED + topic.topic_id.hex, name.encode())
        await self._transact(topic, Delete(TOPICS + name), mark)
        self._publish(self.catalogue.without(name))
        return topic

    async def deleted(self) -> list[tuple[str, UUID]]:
        """The names and ids of deleted topics whose files may still be there."""
        snapshot = await self._store.range(DELETED)
        return [
            (entry.value.decode(), UUID(entry.key.removeprefix(DELETED)))
            for entry in snapshot.entries
        ]

    async def files_are_gone(self, topic_id: UUID) -> None:
        """The files of a deleted topic need not be looked for any more."""
        await self._store.transact([], [Delete(DELETED + topic_id.hex)])

    def _changeable(self, name: str) -> Topic:
        topic = self.catalogue.topic(name)
        if topic.is_internal:
            raise InternalTopicError(
                f"topic {name!r} is internal: the broker keeps its own state in it, and clients "
                "cannot change or delete it"
            )
        return topic

    async def _store_topic(self, topic: Topic) -> Topic:
        stored = topic.stored()
        put = Put(TOPICS + topic.name, msgspec.msgpack.encode(stored))
        revision = await self._transact(topic, put)
        topic = self._topic(topic.name, stored, revision)
        self._publish(self.catalogue.with_topic(topic))
        return topic

    async def _transact(self, topic: Topic, *operations: Operation) -> Revision:
        """Change one topic, provided that nobody else has since it was read."""
        condition = Condition(TOPICS + topic.name, topic.revision)
        result = await self._store.transact([condition], operations)
        if isinstance(result, Committed):
            return result.revision
        if isinstance(result, Conflict) and topic.revision == ABSENT:
            raise TopicExistsError(f"topic {topic.name!r} was just created by another request")
        raise MetadataUnavailableError(
            f"topic {topic.name!r} could not be changed because it was changing already; try again"
        )

    def _settings(self, stored: StoredTopic, defaults: Mapping[str, str]) -> TopicSettings:
        return TopicSettings(MappingProxyType(stored.overrides), defaults)

    def settings_with(self, overrides: Mapping[str, str]) -> TopicSettings:
        """What a topic with these overrides would follow."""
        return TopicSettings(MappingProxyType(dict(overrides)), self._defaults)

    def _topic(self, name: str, stored: StoredTopic, revision: Revision) -> Topic:
        defaults = self._static if is_internal_topic(name) else self._defaults
        settings = self._settings(stored, defaults)
        return Topic(
            name,
            UUID(stored.topic_id),
            stored.partition_count,
            settings,
            revision,
            replication_factor=stored.replication_factor,
            is_restoring=stored.is_restoring,
        )
