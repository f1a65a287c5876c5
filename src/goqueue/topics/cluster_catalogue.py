"""The topics of a cluster: every node may change them, and each sees what the others have changed.

A topic and the records of its partitions are written by one transaction. More partitions than one
transaction holds are written first, under an id that no topic has yet; the key of the topic comes
last and is what makes the topic exist. Records of a topic that never came to exist are removed by
the controller.

A change is done when the store has it. This node answers when its own view has it, too, so that
whoever made a topic by way of a node finds it there.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from goqueue.cluster.elections import with_min_isr
from goqueue.cluster.metadata import (
    ABSENT,
    Change,
    Committed,
    Condition,
    Conflict,
    Delete,
    Entry,
    MetadataStore,
    Operation,
    Put,
    Revision,
    Unknown,
)
from goqueue.cluster.placement import candidates, check_assignments, first_record, place
from goqueue.cluster.records import (
    DeletedTopic,
    PartitionKey,
    PartitionRecord,
    decode,
    encode,
    new_token,
)
from goqueue.model.errors import (
    GoQueueError,
    InvalidReplicationError,
    InvalidTopicConfigError,
    MetadataUnavailableError,
    TopicExistsError,
)
from goqueue.topics.catalogue import Topic, Topics, catalogue_of
from goqueue.topics.replica_assignments import ANYWHERE, Replication
from goqueue.topics.stored_topic import DELETED, TOPICS, StoredTopic
from goqueue.topics.topic_writer import RECORDS_A_TRANSACTION, TopicWriter, changing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goqueue.cluster.view import Stored
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.runtime.clock import Clock
    from goqueue.topics.settings import TopicSettings

logger = logging.getLogger(__name__)

INSYNC_SETTING: Final = "min.insync.replicas"
_SAFE_FACTOR: Final = 3
"""From this many replicas on, two have to be in sync unless the topic says otherwise."""
_REFRESH_S: Final = 0.1
"""The store is asked for topics that this node does not know at most this often."""


class ClusterTopics(Topics):
    """The catalogue of a cluster, fed by the view, and every way to change it."""

    def __init__(
        self,
        store: MetadataStore,
        defaults: Mapping[str, str],
        keeper: ViewKeeper,
        clock: Clock,
        default_factor: int = 3,
    ) -> None:
        """`default_factor` replicas are made of which nothing else is said, if there are nodes."""
        super().__init__(store, defaults)
        self._keeper = keeper
        self._clock = clock
        self._default_factor = default_factor
        self._writer = TopicWriter(store)
        self.mark_files_removed = self._writer.mark_files_removed
        self.unreadable: set[str] = set()
        """Topics that the store has and this node does not understand: it keeps what it knew."""
        self._refreshing: asyncio.Future[None] | None = None
        self._refreshed_s = clock.monotonic_s() - _REFRESH_S
        self.on_removed: Callable[[Topic], None] = lambda _: None
        """Told of each topic that was deleted, by whichever node, before a catalogue without it
        is published."""
        self.on_configured: Callable[[Topic], None] = lambda _: None
        """Told of each topic whose settings were changed, after that."""

    # --- Following -------------------------------------------------------------------------------

    async def load(self, defaults: Mapping[str, str] | None = None) -> None:
        """Follow the view of this node, which has the topics already."""
        self._defaults = {**self._static, **(defaults or {})}
        self._keeper.follow(TOPICS, self._take_all, self._take)

    async def refresh(self) -> None:
        """Take in what the store has by now: a topic may have been made a moment ago elsewhere.

        Callers that come meanwhile wait for the same answer. The store is not asked again for a
        tenth of a second, nor waited for when it is away.
        """
        if self._refreshing is None:
            if self._clock.monotonic_s() - self._refreshed_s < _REFRESH_S:
                return
            self._refreshing = asyncio.ensure_future(self._refresh())
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        try:
            await self._keeper.catch_up()
        except MetadataUnavailableError as error:
            logger.info("refreshing the topics from the metadata store failed: %s", error)
        finally:
            self._refreshed_s = self._clock.monotonic_s()
            self._refreshing = None

    def _take_all(self, entries: Mapping[str, Entry]) -> None:
        self._follow(
            {
                key.removeprefix(TOPICS): (entry.value, entry.revision)
                for key, entry in entries.items()
            },
            [name for name in self.catalogue.by_name if TOPICS + name not in entries],
        )

    def _take(self, revision: Revision, changes: Sequence[Change]) -> None:
        names = [(each.key.removeprefix(TOPICS), each.value) for each in changes]
        self._follow(
            {name: (value, revision) for name, value in names if value is not None},
            [name for name, value in names if value is None],
        )

    def _follow(
        self, written: Mapping[str, tuple[bytes, Revision]], removed: Sequence[str]
    ) -> None:
        before = self.catalogue.by_name
        topics = dict(before)
        for name in removed:
            self.unreadable.discard(name)
            if (gone := topics.pop(name, None)) is not None:
                self.on_removed(gone)
        configured = []
        for name, (value, revision) in written.items():
            old = before.get(name)
            if old is not None and old.revision == revision:
                continue
            try:
                topic = self._topic(name, decode(value, StoredTopic, TOPICS + name), revision)
            except (GoQueueError, ValueError) as error:
                self.unreadable.add(name)
                logger.error("reading the metadata of topic %s failed: %s", name, error)  # noqa: TRY400 - the text says it
                continue
            self.unreadable.discard(name)
            if old is not None and old.topic_id != topic.topic_id:
                self.on_removed(old)
            elif old is not None and _follows(old) != _follows(topic):
                configured.append(topic)
            topics[name] = topic
        self._publish(catalogue_of(self.catalogue.version + 1, topics))
        for topic in configured:
            self.on_configured(topic)

    def _settings(self, stored: StoredTopic, defaults: Mapping[str, str]) -> TopicSettings:
        """Two of three replicas have to be in sync, unless something else was said."""
        minimum = "2" if stored.replication_factor >= _SAFE_FACTOR else "1"
        return super()._settings(stored, {INSYNC_SETTING: minimum, **defaults})

    def plan(
        self,
        name: str,
        partition_count: int,
        overrides: Mapping[str, str],
        *,
        internal: bool = False,
        replication: Replication = ANYWHERE,
    ) -> Topic:
        """The topic that `create` would make. Raises like `Topics.plan`."""
        topic = super().plan(
            name, partition_count, overrides, internal=internal, replication=replication
        )
        _check_minimum(overrides, topic)
        return topic

    def plan_settings(
        self, name: str, overrides: Mapping[str, str], *, internal: bool = False
    ) -> Topic:
        """The topic that `configure` would change. Raises like `Topics.plan_settings`."""
        topic = super().plan_settings(name, overrides, internal=internal)
        _check_minimum(overrides, topic)
        return topic

    def replica_count(self, topic: Topic, node_id: int) -> int:
        """How many partitions of a topic are on a node, as far as this one knows."""
        partitions = self._keeper.view.partitions
        keys = (PartitionKey(topic.topic_id, number) for number in range(topic.partition_count))
        found = filter(None, map(partitions.get, keys))
        return sum(node_id in each.value.replicas for each in found)

    # --- Making ----------------------------------------------------------------------------------

    def _factor(self, new_count: int, replication: Replication) -> int:
        view = self._keeper.view
        known = view.members.keys() | view.nodes.keys()
        if replication.assignments is not None:
            check_assignments(replication.assignments, known, new_count)
            return len(replication.assignments[0])
        factor = replication.factor
        if factor is None:
            factor = min(self._default_factor, max(len(known), 1))
        if not 1 <= factor <= len(known):
            raise InvalidReplicationError(
                f"replication factor {factor} in a cluster of {len(known)} nodes: ask for 1 to "
                f"{len(known)} replicas, or add nodes"
            )
        return factor

    async def _make(self, topic: Topic, replication: Replication) -> Topic:
        """Store a topic and the records of its partitions."""
        return await self._make_partitions(topic, 0, replication)

    async def _store_topic(self, topic: Topic) -> Topic:
        return await self._write(topic, new_token(), (), ())

    async def grow(
        self, name: str, partition_count: int, replication: Replication = ANYWHERE
    ) -> Topic:
        """Give a topic more partitions. Raises like `plan_growth`."""
        topic = self.plan_growth(name, partition_count, replication)
        first = topic.partition_count
        return await self._make_partitions(
            replace(topic, partition_count=partition_count), first, replication
        )

    async def _make_partitions(self, topic: Topic, first: int, replication: Replication) -> Topic:
        """Write a topic and the records of its partitions from `first` on."""
        count = topic.partition_count - first
        chosen = replication.assignments or self._placed(count, topic.replication_factor)
        token = new_token()
        minimum = topic.settings.number(INSYNC_SETTING)
        records = {
            PartitionKey(topic.topic_id, first + number): self._record(replicas, minimum, token)
            for number, replicas in enumerate(chosen)
        }
        conditions: list[Condition] = []
        if len(records) > RECORDS_A_TRANSACTION:
            conditions = [await self._writer.write_early(topic.name, records)]
            records = {}
        conditions += [Condition(str(key), ABSENT) for key in records]
        puts = [Put(str(key), encode(record)) for key, record in records.items()]
        return await self._write(topic, token, conditions, puts)

    def _placed(self, count: int, factor: int) -> Sequence[Sequence[int]]:
        view = self._keeper.view
        nodes = candidates(
            {each.node_id for each in view.active()},
            view.members.keys() | view.nodes.keys(),
            {node_id: each.record.rack for node_id, each in view.nodes.items()},
            (each.value for each in view.partitions.values()),
        )
        return place(nodes, count, factor)

    def _record(self, replicas: Sequence[int], minimum: int, token: str) -> PartitionRecord:
        """A new partition: whoever is running is in sync, since there is nothing to have yet."""
        record = first_record(replicas, self._keeper.view, minimum)
        if record is None:
            raise MetadataUnavailableError(
                f"none of the nodes {list(replicas)} is running, which a partition was to be on: "
                "try again"
            )
        return replace(record, token=token)

    # --- Changing --------------------------------------------------------------------------------

    async def configure(
        self, name: str, overrides: Mapping[str, str], *, internal: bool = False
    ) -> Topic:
        """Replace all overrides of a topic's settings. Raises like `plan_settings`.

        The records of partitions have `min.insync.replicas`, too, because eligible leaders are
        those without whom nothing was committed under the value that was in force: with another
        one nobody stays eligible. They change in the same transaction, as many as it holds; the
        controller brings the others in line, each of which holds to its own value until then.
        """
        topic = self.plan_settings(name, overrides, internal=internal)
        wanted = self._configured(topic, overrides)
        token = new_token()
        minimum = wanted.settings.number(INSYNC_SETTING)
        changing_records = [
            (key, each)
            for key, each in self.records_of(topic).items()
            if each.value.min_isr != minimum
        ][:RECORDS_A_TRANSACTION]
        conditions = [Condition(str(key), each.revision) for key, each in changing_records]
        puts = [
            Put(str(key), encode(replace(with_min_isr(each.value, minimum), token=token)))
            for key, each in changing_records
        ]
        return await self._write(wanted, token, conditions, puts)

    def _configured(self, topic: Topic, overrides: Mapping[str, str]) -> Topic:
        stored = replace(topic.stored(), overrides=dict(overrides))
        return self._topic(topic.name, stored, topic.revision)

    def records_of(self, topic: Topic) -> dict[PartitionKey, Stored[PartitionRecord]]:
        """The records of a topic's partitions, as far as this node has seen them."""
        partitions = self._keeper.view.partitions
        keys = (PartitionKey(topic.topic_id, each) for each in range(topic.partition_count))
        return {key: partitions[key] for key in keys if key in partitions}

    async def delete(self, name: str) -> Topic:
        """Forget a topic, and note on which nodes its files are to be removed."""
        topic = self._changeable(name)
        records = self.records_of(topic)
        nodes = sorted({node for each in records.values() for node in each.value.replicas})
        mark = DELETED + topic.topic_id.hex
        operations: list[Operation] = [Delete(TOPICS + name)]
        operations.append(Put(mark, encode(DeletedTopic(name, tuple(nodes)))))
        # Without conditions: whatever a leader writes meanwhile goes with its topic. What does not
        # fit is removed by the controller.
        operations += [Delete(str(key)) for key in list(records)[:RECORDS_A_TRANSACTION]]
        condition = Condition(TOPICS + name, topic.revision)
        result = await self._store.transact([condition], operations)
        if isinstance(result, Unknown):
            entry = await self._writer.read_again(mark)
            result = Conflict({}) if entry is None else Committed(entry.revision)
        if isinstance(result, Conflict):
            raise changing(name)
        await self._keeper.written(result.revision)
        return topic

    async def deleted(self) -> list[tuple[str, UUID]]:
        """The names and ids of deleted topics of which some node still has files."""
        snapshot = await self._store.range(DELETED)
        return [
            (
                decode(entry.value, DeletedTopic, entry.key).name,
                UUID(entry.key.removeprefix(DELETED)),
            )
            for entry in snapshot.entries
        ]

    # --- Writing ---------------------------------------------------------------------------------

    async def _write(
        self,
        topic: Topic,
        token: str,
        conditions: Sequence[Condition],
        puts: Sequence[Put],
    ) -> Topic:
        """Write a topic and records with it; returns when this node's view has both."""
        key = TOPICS + topic.name
        result = await self._store.transact(
            [Condition(key, topic.revision), *conditions],
            [Put(key, msgspec.msgpack.encode(topic.stored(token))), *puts],
        )
        revision = await self._writer.settled(result, key, token)
        if revision is None:
            if topic.revision == ABSENT and await self._store.get(key) is not None:
                raise TopicExistsError(f"topic {topic.name!r} was just created by another request")
            raise changing(topic.name)
        await self._keeper.written(revision)
        return self._topic(topic.name, topic.stored(), revision)


def _follows(topic: Topic) -> tuple[TopicSettings, bool]:
    """What the partitions of a topic are told of when it changes."""
    return topic.settings, topic.is_restoring


def _check_minimum(overrides: Mapping[str, str], topic: Topic) -> None:
    """Refuse a topic that nothing could ever be committed to with all its replicas in sync."""
    minimum, factor = overrides.get(INSYNC_SETTING), topic.replication_factor
    if minimum is not None and int(minimum) > factor:
        raise InvalidTopicConfigError(
            f"{INSYNC_SETTING} is {minimum} and topic {topic.name!r} has {factor} replicas: set it "
            f"to 1 to {factor}, or make the topic with more replicas"
        )
