"""The broker of one node: topics and partitions, and the use cases over them."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from goqueue.access.users import Users
from goqueue.configs.broker_configs import BrokerConfigs
from goqueue.configs.broker_setting_table import COMPACTION_INTERVAL, PRODUCER_EXPIRY
from goqueue.configs.coordinated_group_configs import CoordinatedGroupConfigs
from goqueue.delays.service import Delays
from goqueue.delays.traces import DelayTraces
from goqueue.groups.membership import Memberships
from goqueue.groups.service import Groups
from goqueue.insight.backlogs import Backlogs
from goqueue.insight.gauges import BrokerGauges
from goqueue.insight.history import STEP_S, History
from goqueue.insight.new_dead_letters import NewDeadLetters
from goqueue.metrics.registry import Metrics
from goqueue.model.errors import (
    CompactedTopicError,
    InternalTopicError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from goqueue.model.internal_topics import INTERNAL_TOPICS
from goqueue.partitions.batch_opener import BatchOpener
from goqueue.partitions.clock_guard import ClockGuard
from goqueue.partitions.damage import DamageReports
from goqueue.partitions.due_marks import MaintenanceMarks
from goqueue.partitions.health import Health
from goqueue.partitions.maintenance import MaintainedNode, Maintenance, Pass
from goqueue.partitions.measures import Measures
from goqueue.partitions.partitions import Partitions
from goqueue.partitions.producer_ids import ProducerIds
from goqueue.partitions.upkeep import MaintenanceSettings
from goqueue.pipelines.service import Pipelines
from goqueue.publishing.large_batches import LargeBatches
from goqueue.publishing.messages import MessageWriter
from goqueue.publishing.publish import Publisher
from goqueue.publishing.traces import PublishTraces
from goqueue.queues.acknowledging import Acknowledger
from goqueue.queues.dead_letters.letters import Letters
from goqueue.queues.dead_letters.redrive import Redrives
from goqueue.queues.dead_letters.service import DeadLetters
from goqueue.queues.delivering import Deliverer
from goqueue.queues.members import QueueMembers
from goqueue.queues.service import Queues
from goqueue.queues.traces import QueueTraces
from goqueue.reading.fetch import Fetcher
from goqueue.reading.record_reader import RecordReader
from goqueue.reading.stored_messages import MessageReader
from goqueue.reading.time_range import TimeRanges
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from goqueue.schemas.service import Schemas
from goqueue.schemas.validation import SchemaValidator
from goqueue.state.logs import StateLogs
from goqueue.storage.open_files import OpenFiles
from goqueue.storage.shared_files import SharedFiles
from goqueue.topics.catalogue import Topics
from goqueue.tracing.log_groups import LogGroupTraces
from goqueue.tracing.store import TraceStore
from goqueue.tracing.tracer import Tracer
from goqueue.transactions.service import Transactions
from goqueue.transactions.writer import TransactionWriter

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.configs.broker_configs import Level
    from goqueue.configs.broker_settings import BrokerSettings
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.runtime.tasks import PeriodicTasks
    from goqueue.topics.catalogue import Topic

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

TOPICS_FOLDER: Final = "topics"
TRACES_FOLDER: Final = "traces"
_TOPICS_A_TURN: Final = 100
"""Topics that follow changed defaults before other work has its turn."""
DISK_THREADS: Final = 8
"""In each of two pools: one for syncs, which publishers wait for, and one for cold reads, searches
by time, compaction and logins, behind which a sync must not have to queue."""


class Broker:
    """Everything that a protocol may ask for."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MetadataStore,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.settings = settings
        self.data_dir = settings.data_dir
        self.clock = clock or SystemClock()
        self.clock_guard = ClockGuard(self.clock)
        self.disk = disk or SystemDisk()
        self.executor: Executor = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        self._syncs = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="sync")
        self.opener = BatchOpener()
        self.metrics = metrics or Metrics(str(settings.node_id))
        self.measures = Measures(self.metrics)
        self.damage = DamageReports(self.metrics)
        self.configs = BrokerConfigs(store, settings)
        self.coordinated_group_configs = CoordinatedGroupConfigs(store, settings.groups)
        self.topics = Topics(store, settings.topic_defaults)
        self.marks = MaintenanceMarks()
        self.partitions = Partitions(
            settings.data_dir / TOPICS_FOLDER,
            self.topics,
            SharedFiles(self.disk, OpenFiles(settings.max_open_segments), settings.data_dir),
            self.clock,
            executor=self._syncs,
            measures=self.measures,
            marks=self.marks,
            damage=self.damage,
        )
        self.producer_ids = ProducerIds(store)
        self.users = Users(store, self.executor, settings.initial_users)
        self.traces = TraceStore(
            settings.tracing,
            self.disk,
            settings.data_dir / TRACES_FOLDER,
            self.clock,
            str(settings.node_id),
        )
        self.tracer = Tracer(self.traces, self.topics, self.clock, str(settings.node_id))
        self.log_group_traces = LogGroupTraces(self.tracer)
        self.queue_traces = QueueTraces(self.tracer)
        self.delay_traces = DelayTraces(self.tracer)
        self.publisher = Publisher(
            self.partitions, self.clock, self.measures, PublishTraces(self.tracer)
        )
        self.large_batches = LargeBatches(self.partitions, self.opener)
        self.fetcher = Fetcher(
            self.partitions,
            self.clock,
            self.executor,
            self.measures,
            self.damage.damaged,
            traces=self.log_group_traces,
        )
        self._changes: set[asyncio.Task[Any]] = set()
        """Changes of topics under way; as many as there are requests for them."""
        self.growing: dict[str, int] = {}
        """Topics that are being given partitions, and how many they will have."""
        self.state_logs = StateLogs(self.partitions, self.disk, self.clock, self.measures)
        """Where coordinators keep their state, and the clock that they count by."""
        self._build_rooms(settings)

    def _build_rooms(self, settings: BrokerSettings) -> None:
        """Groups, queues, delays, transactions and the rest, over the partitions."""
        self.groups = Groups(self, settings.groups, settings.offsets_partitions)
        self.transactions = Transactions(
            self, settings.transactions, settings.transactions_partitions
        )
        self.schemas = Schemas(self)
        self.validator = SchemaValidator(self.schemas, self.opener, self.clock, self.metrics)
        self.publisher.check_schemas = self.validator.check
        self.publisher.steady_ms = self.clock_guard.steady_ms
        self.delays = Delays(self)
        self.clock_guard.on_set = self.delays.clock_was_set
        self.writer = MessageWriter(self.topics, self.publisher, self.clock, self.validator.misfits)
        self.transaction_writer = TransactionWriter(self)
        self.reader = MessageReader(self.fetcher, self.damage, self.opener)
        self.time_ranges = TimeRanges(self.topics, self.partitions, self.reader, self.executor)
        self.memberships = Memberships(self)
        self.record_reader = RecordReader(self.executor, self.damage, self.opener)
        self.queues = Queues(self)
        self.queue_members = QueueMembers(self.queues, self.topics, self.memberships)
        self.deliverer = Deliverer(self, self.queues)
        self.acknowledger = Acknowledger(self, self.queues)
        self.dead_letters = DeadLetters(self, self.queues)
        self.letters = Letters(self)
        self.new_dead_letters = NewDeadLetters(self)
        self.redrives = Redrives(self, self.letters)
        self.health = Health(self.metrics, self.disk, settings.data_dir)
        self.partitions.on_opened = self.health.opened
        self.backlogs = Backlogs(self)
        self.history = History(self)
        self.pipelines = Pipelines(self)

    async def start(self) -> None:
        """Load the catalogue and open every partition, recovering those that need it."""
        await self.configs.load()
        await self.coordinated_group_configs.load()
        await self.topics.load(self.configs.topic_defaults())
        await self._restore_internal_settings()
        await self.users.load()
        await self.tracer.start()
        await self.partitions.open_all()
        await self.groups.start()
        await self.transactions.start()
        await self.schemas.start()
        await self.queues.start()
        await self._finish_deletions()
        await self.delays.start()
        self.dead_letters.start()
        await self.redrives.start()
        await self.pipelines.start()
        self.metrics.add_source(self.health.put)
        self.metrics.add_source(BrokerGauges(self))

    async def _finish_deletions(self) -> None:
        """Do what is left of deletions that were interrupted.

        Only what is marked as deleted goes: folders that the metadata does not know hold records
        that somebody was promised, if it is the metadata that was lost.
        """
        for name, topic_id in await self.topics.deleted():
            if name not in self.topics.catalogue.by_name:
                self.groups.forget_topic(name)
            self.partitions.remove_files(name, topic_id)
            await self.topics.files_are_gone(topic_id)
            logger.info("removed what was left of deleted topic %s", name)
        for folder in self.partitions.unknown_folders():
            logger.error(
                "%s/%s holds records of a topic that the metadata does not know: left alone; "
                "restore the metadata, or remove the folder",
                self.settings.data_dir / TOPICS_FOLDER,
                folder,
            )

    async def stop(self) -> None:
        """Close every partition, so that the next start has nothing to recover."""
        await asyncio.gather(*self._changes, return_exceptions=True)
        await self.pipelines.stop()
        await self.delays.stop()
        await self.redrives.stop()
        await self.dead_letters.stop()
        await self.queues.stop()
        await self.transactions.stop()
        await self.schemas.stop()
        await self.validator.stop()
        await self.groups.stop()
        await self.partitions.close()
        await self.tracer.stop()
        self.executor.shutdown()
        self._syncs.shutdown()
        self.opener.close()

    def maintenance(
        self, settings: MaintenanceSettings | None = None, tasks: PeriodicTasks | None = None
    ) -> Maintenance:
        """What this broker does by itself, now and then."""
        settings = settings or MaintenanceSettings()
        node = MaintainedNode(
            self.settings.data_dir,
            self.disk,
            self.clock,
            self.executor,
            self.metrics,
            self.publisher.refuse,
            partial(self.configs.changed, PRODUCER_EXPIRY),
            partial(self.configs.changed, COMPACTION_INTERVAL),
            (
                Pass("backlogs", settings.backlogs_s, self.backlogs.look),
                Pass("history", STEP_S, self.history.sample),
            ),
        )
        return Maintenance(
            self.partitions,
            self.topics,
            self.marks,
            self.clock_guard,
            node=node,
            settings=settings,
            tasks=tasks,
        )

    # --- Topics ----------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partition_count: int | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic and its partitions. Raises like `Topics.plan`."""
        count = self.settings.default_partitions if partition_count is None else partition_count

        async def create() -> Topic:
            topic = await self.topics.create(name, count, overrides)
            await self.partitions.open_topic(topic)
            return topic

        return await self._to_the_end(create())

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""
        if name in self.topics.catalogue.by_name:
            return

        async def create() -> None:
            settings = INTERNAL_TOPICS[name]
            topic = await self.topics.create(name, partition_count, settings, internal=True)
            await self.partitions.open_topic(topic)

        await self._to_the_end(create())

    async def _restore_internal_settings(self) -> None:
        """Give internal topics the settings that their state depends on.

        They have others if they were made by an older version, which let clients change them.
        """
        for name, required in INTERNAL_TOPICS.items():
            topic = self.topics.catalogue.by_name.get(name)
            if topic is None or required.items() <= topic.settings.overrides.items():
                continue
            overrides = {**topic.settings.overrides, **required}
            await self.topics.configure(name, overrides, internal=True)
            logger.warning("internal topic %s: restored the settings %s", name, dict(required))

    async def delete_topic(self, name: str) -> Topic:
        """Forget a topic and remove its files."""

        async def delete() -> Topic:
            topic = await self.topics.delete(name)
            # Before anything is awaited: of a topic made again, nobody has read anything yet.
            self.groups.forget_topic(name)
            self.queues.forget_topic(topic.topic_id, self.partitions.of_topic(topic))
            self.measures.forget_topic(name)
            self.writer.forget_topic(name)
            self.delays.forget_topic(topic)
            await self.partitions.delete_topic(topic)
            await self.topics.files_are_gone(topic.topic_id)
            return topic

        return await self._to_the_end(delete())

    async def grow_topic(self, name: str, partition_count: int) -> Topic:
        """Give a topic more partitions."""

        async def grow() -> Topic:
            self.growing[name] = partition_count
            try:
                topic = await self.topics.grow(name, partition_count)
                await self.partitions.open_topic(topic)
            finally:
                self.growing.pop(name, None)
            return topic

        return await self._to_the_end(grow())

    async def configure_topic(self, name: str, overrides: Mapping[str, str]) -> Topic:
        """Replace the overrides of a topic's settings; they hold from the next append on."""

        async def configure() -> Topic:
            topic = await self.topics.configure(name, overrides)
            self.partitions.configure_topic(topic)
            return topic

        return await self._to_the_end(configure())

    async def configure(self, level: Level, overrides: Mapping[str, str]) -> None:
        """Replace what was set for this node or for the cluster. Raises like `BrokerConfigs.check`.

        Topics follow from their next append on.
        """

        async def configure() -> None:
            expiry_ms = self.configs.changed(PRODUCER_EXPIRY)
            await self.configs.replace(level, overrides)
            affected = self.topics.use_defaults(self.configs.topic_defaults())
            if expiry_ms != self.configs.changed(PRODUCER_EXPIRY):
                affected = list(self.topics.catalogue.by_name.values())
            for number, topic in enumerate(affected):
                with suppress(UnknownTopicError):  # deleted meanwhile
                    self.partitions.configure_topic(self.topics.catalogue.topic(topic.name))
                if number % _TOPICS_A_TURN == _TOPICS_A_TURN - 1:
                    await asyncio.sleep(0)

        await self._to_the_end(configure())

    async def _to_the_end(self, change: Coroutine[Any, Any, _T]) -> _T:
        """Make all of a change, also when whoever asked for it is gone meanwhile.

        What is stored and what this broker holds would be different topics otherwise, until the
        next start: messages would be taken for a topic that is deleted there.
        """
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    # --- Records ---------------------------------------------------------------------------------

    async def delete_records(self, partition_id: TopicPartition, offset: int | None) -> int:
        """Let a partition start at `offset`, or at its high watermark; returns the new start.

        Raises:
            TopicError: there is no such partition, it is the broker's own, or it is only compacted.
            OffsetOutOfRangeError: there is no such offset to start at.
        """
        topic, partition = self.partitions.resolve(partition_id)
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
