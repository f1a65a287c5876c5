"""The broker of one node: topics and partitions, and the use cases over them."""

from __future__ import annotations

import logging
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.access.users import Users
from goqueue.administration.groups import GroupAdministrator
from goqueue.configs.broker_configs import BrokerConfigs, Level
from goqueue.configs.broker_setting_table import COMPACTION_INTERVAL, PRODUCER_EXPIRY
from goqueue.configs.coordinated_group_configs import CoordinatedGroupConfigs
from goqueue.delays.service import Delays
from goqueue.delays.traces import DelayTraces
from goqueue.groups.polling.memberships import Memberships
from goqueue.groups.polling.reader import MemberReader
from goqueue.groups.service import Groups
from goqueue.insight.backlogs import Backlogs
from goqueue.insight.gauges import BrokerGauges
from goqueue.insight.group_views import GroupViews
from goqueue.insight.history import STEP_S, History
from goqueue.insight.lag import GroupLag
from goqueue.insight.new_dead_letters import NewDeadLetters
from goqueue.metrics.registry import Metrics
from goqueue.partitions.batch_opener import BatchOpener
from goqueue.partitions.clock_guard import ClockGuard
from goqueue.partitions.damage import DamageReports
from goqueue.partitions.due_marks import MaintenanceMarks
from goqueue.partitions.health import Health
from goqueue.partitions.maintenance import MaintainedNode, Maintenance, Pass
from goqueue.partitions.measures import Measures
from goqueue.partitions.partitions import Partitions
from goqueue.partitions.producer_ids import ProducerIds
from goqueue.partitions.topic_changes import TopicChanges
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
from goqueue.runtime.clock import Clock, SystemClock
from goqueue.runtime.disk import Disk, SystemDisk
from goqueue.schemas.service import Schemas
from goqueue.schemas.validation import SchemaValidator
from goqueue.state.logs import StateLogs
from goqueue.storage.open_files import OpenFiles, SharedFiles
from goqueue.topics.catalogue import Topic, Topics
from goqueue.tracing.log_groups import LogGroupTraces
from goqueue.tracing.store import TraceStore
from goqueue.tracing.tracer import Tracer
from goqueue.transactions.ends import TransactionEnds
from goqueue.transactions.service import Transactions
from goqueue.transactions.writer import TransactionOffsets, TransactionWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.configs.broker_settings import BrokerSettings
    from goqueue.runtime.tasks import PeriodicTasks

logger = logging.getLogger(__name__)

TOPICS_FOLDER: Final = "topics"
TRACES_FOLDER: Final = "traces"
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
        self.topic_changes = TopicChanges(self.topics, self.partitions, settings.default_partitions)
        self.topic_changes.on_deleted = self._forget_topic
        self.create_topic = self.topic_changes.create
        self.create_internal_topic = self.topic_changes.create_internal
        self.delete_topic = self.topic_changes.delete
        self.grow_topic = self.topic_changes.grow
        self.configure_topic = self.topic_changes.configure
        self.delete_records = self.topic_changes.delete_records
        self.state_logs = StateLogs(
            self.partitions, self.topics, self.disk, self.clock, self.measures
        )
        """Where coordinators keep their state, and the clock that they count by."""
        self._build_rooms(settings)

    def _build_rooms(self, settings: BrokerSettings) -> None:
        """Groups, queues, delays, transactions and the rest, over the partitions."""
        self.groups = Groups(
            self.state_logs,
            self.topic_changes,
            self.partitions,
            self.clock,
            self.executor,
            settings=settings.groups,
            partition_count=settings.offsets_partitions,
            settings_of=self.coordinated_group_configs.settings_of,
            measures=self.measures,
            traces=self.log_group_traces,
        )
        self.transactions = Transactions(
            self.state_logs,
            self.topic_changes,
            self.producer_ids,
            self.groups,
            self.executor,
            ends=TransactionEnds(self.partitions, self.groups, self.measures),
            measures=self.measures,
            settings=settings.transactions,
            partition_count=settings.transactions_partitions,
        )
        self.publisher.verify_transaction = self.transactions.verify_batch
        self.schemas = Schemas(self.state_logs, self.topic_changes, self.damage, self.executor)
        self.validator = SchemaValidator(self.schemas, self.opener, self.clock, self.metrics)
        self.publisher.check_schemas = self.validator.check
        self.publisher.steady_ms = self.clock_guard.steady_ms
        self.delays = Delays(self)
        self.clock_guard.on_set = self.delays.clock_was_set
        self.writer = MessageWriter(self.topics, self.publisher, self.clock, self.validator.misfits)
        self.transaction_writer = TransactionWriter(
            self.topics, self.partitions, self.writer, self.transactions
        )
        self.reader = MessageReader(self.fetcher, self.damage, self.opener)
        self.time_ranges = TimeRanges(self.topics, self.partitions, self.reader, self.executor)
        self.memberships = Memberships(
            self.groups,
            self.topics,
            self.clock,
            MemberReader(self.groups, self.partitions, self.fetcher, self.opener, self.damage),
        )
        self.record_reader = RecordReader(self.executor, self.damage, self.opener)
        self.queues = Queues(self)
        self.groups.is_queue_group = self.queues.knows
        self.groups.shares_messages = self.queues.shares
        self.queue_members = QueueMembers(self.queues, self.topics, self.memberships)
        self.deliverer = Deliverer(self, self.queues)
        self.acknowledger = Acknowledger(self, self.queues)
        self.dead_letters = DeadLetters(self, self.queues)
        self.letters = Letters(
            self.queues, self.topics, self.partitions, self.record_reader, self.executor
        )
        self.redrives = Redrives(self, self.letters)
        self.health = Health(self.metrics, self.disk, settings.data_dir)
        self.partitions.on_opened = self.health.opened
        self.transaction_offsets = TransactionOffsets(
            self.topics, self.queues, self.memberships, self.transactions
        )
        self.group_views = GroupViews(self.topics, self.groups, self.queues)
        self.lag = GroupLag(self.topics, self.partitions, self.groups, self.queues)
        self.group_administrator = GroupAdministrator(
            self.topics,
            self.partitions,
            self.groups,
            self.queues,
            views=self.group_views,
            lag=self.lag,
            measures=self.measures,
            executor=self.executor,
        )
        self.backlogs = Backlogs(
            self.group_views, self.lag, self.partitions, self.clock, self.executor
        )
        self.history = History(self.metrics, self.clock, self.queues, self.backlogs)
        self.pipelines = Pipelines(self.state_logs, self.topic_changes, self.clock, self.executor)
        self.new_dead_letters = NewDeadLetters(
            self.letters,
            self.topics,
            self.partitions,
            self.pipelines,
            clock=self.clock,
            executor=self.executor,
        )

    async def start(self) -> None:
        """Load the catalogue and open every partition, recovering those that need it."""
        await self.configs.load()
        await self.coordinated_group_configs.load()
        await self.topics.load(self.configs.topic_defaults())
        await self.topic_changes.restore_internal_settings()
        await self.users.load()
        await self.tracer.start()
        await self.partitions.open_all()
        await self.groups.start()
        await self.transactions.start()
        await self.schemas.start()
        await self.queues.start()
        await self.topic_changes.finish_deletions(self.groups.forget_topic)
        await self.delays.start()
        self.dead_letters.start()
        await self.redrives.start()
        await self.pipelines.start()
        self.metrics.add_source(self.health.put)
        self.metrics.add_source(BrokerGauges(self))

    async def stop(self) -> None:
        """Close every partition, so that the next start has nothing to recover."""
        await self.topic_changes.stop()
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

    def _forget_topic(self, topic: Topic) -> None:
        self.groups.forget_topic(topic.name)
        self.queues.forget_topic(topic.topic_id, self.partitions.of_topic(topic))
        self.measures.forget_topic(topic.name)
        self.writer.forget_topic(topic.name)
        self.delays.forget_topic(topic)

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
            await self.topic_changes.follow_defaults(affected)

        await self.topic_changes.to_the_end(configure())
