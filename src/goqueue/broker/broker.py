"""The broker of one node: topics and partitions, and the use cases over them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

from goqueue.access.directory import EXPIRY_PASS_S
from goqueue.administration.groups import GroupAdministrator
from goqueue.administration.tenants import DELETION_PASS_S, TenantRemoval
from goqueue.broker.lazy_backups import LazyBackups
from goqueue.broker.log_broker import LogBroker
from goqueue.configs.coordinated_group_configs import CoordinatedGroupConfigs
from goqueue.delays.service import Delays
from goqueue.delays.traces import DelayTraces
from goqueue.groups.polling.memberships import Memberships
from goqueue.groups.polling.reader import MemberReader
from goqueue.groups.service import Groups
from goqueue.insight.backlogs import Backlogs
from goqueue.insight.gauges import BrokerGauges
from goqueue.insight.group_views import GroupViews
from goqueue.insight.history import History
from goqueue.insight.history_file import HistoryFile
from goqueue.insight.history_keeper import SAVE_S, HistoryKeeper
from goqueue.insight.lag import GroupLag
from goqueue.insight.lines import STEP_S
from goqueue.insight.new_dead_letters import NewDeadLetters
from goqueue.model.internal_topics import USAGE
from goqueue.partitions.elsewhere.record_deletion import RecordDeletion
from goqueue.partitions.maintenance import Pass
from goqueue.pipelines.service import Pipelines
from goqueue.publishing.messages import MessageWriter
from goqueue.queues.acknowledging import Acknowledger
from goqueue.queues.dead_letters.letters import Letters
from goqueue.queues.dead_letters.redrive import Redrives
from goqueue.queues.dead_letters.service import DeadLetters
from goqueue.queues.delivering import Deliverer
from goqueue.queues.members import QueueMembers
from goqueue.queues.service import Queues
from goqueue.queues.traces import QueueTraces
from goqueue.quotas.usage_topic import PASS_S, UsageTopic
from goqueue.reading.any_fetch import AnyFetcher
from goqueue.reading.fetch import Fetcher
from goqueue.reading.positions import Positions
from goqueue.reading.record_reader import RecordReader
from goqueue.reading.remote_fetch import RemoteFetch
from goqueue.reading.stored_messages import Fetches, MessageReader
from goqueue.reading.time_range import TimeRanges
from goqueue.reading.windows import AnyLooks, LocalLooks, Looks
from goqueue.schemas.service import Schemas
from goqueue.schemas.validation import SchemaValidator
from goqueue.state.logs import StateLogs
from goqueue.tracing.log_groups import LogGroupTraces
from goqueue.transactions.ends import TransactionEnds
from goqueue.transactions.service import Transactions
from goqueue.transactions.writer import TransactionOffsets, TransactionWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.configs.broker_settings import BrokerSettings
    from goqueue.groups.settings import GroupSettings
    from goqueue.metrics.registry import Metrics
    from goqueue.partitions.upkeep import MaintenanceSettings
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.state.followed import FollowedState
    from goqueue.topics.catalogue import Topic
    from goqueue.topics.forwarding import Forwards
    from goqueue.webhooks.service import Webhooks


class Broker(LogBroker):
    """Everything that a protocol may ask for."""

    forwards: Forwards | None = None
    """What is asked of other nodes for clients; None: there are none."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MetadataStore,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        facts: ClusterFacts | None = None,
    ) -> None:
        super().__init__(settings, store, disk=disk, clock=clock, metrics=metrics, facts=facts)
        self._build_services()

    @classmethod
    def over(cls, logs: LogBroker) -> Self:
        """The whole broker over partitions that are open; `logs` goes on as a part of it."""
        broker = cls.__new__(cls)
        vars(broker).update(vars(logs))
        cls._build_services(broker)
        return broker

    def _build_services(self) -> None:
        """Groups, queues, delays, transactions and the rest, over the partitions."""
        self.state_copies: dict[str, FollowedState] = {}
        """Of a cluster: what every node has a copy of, by the topic that it is stored in."""
        self._build_groups()
        self._build_coordinated()
        self._build_views()
        self.backups = LazyBackups(self)
        self.webhooks: Webhooks | None = None
        """None: they are off."""
        if self.settings.webhooks.is_on:
            from goqueue.webhooks.service import Webhooks  # noqa: PLC0415 - few servers have any

            self.webhooks = Webhooks(self)

    def _build_groups(self) -> None:
        """What a cluster has, too: reading, and consumer groups."""
        settings = self.settings
        self.coordinated_group_configs = CoordinatedGroupConfigs(
            self.store, settings.groups, self.keeper
        )
        self.log_group_traces = LogGroupTraces(self.tracer)
        self.queue_traces = QueueTraces(self.tracer)
        self.delay_traces = DelayTraces(self.tracer)
        self.fetcher = Fetcher(
            self.partitions,
            self.clock,
            self.executor,
            self.measures,
            self.damage.damaged,
            traces=self.log_group_traces,
        )
        self.topic_changes.on_deleted = self._forget_topic
        self.state_logs = StateLogs(
            self.partitions, self.topics, self.disk, self.clock, self.measures
        )
        """Where coordinators keep their state, and the clock that they count by."""
        self.groups = Groups(
            self.state_logs,
            self.topic_changes,
            self.figures,
            self.clock,
            self.executor,
            settings=settings.groups,
            partition_count=settings.offsets_partitions,
            settings_of=self._group_settings,
            measures=self.measures,
            traces=self.log_group_traces,
            facts=self.facts if self.facts.is_cluster else None,
        )
        self._build_reading()
        self.memberships = Memberships(
            self.groups,
            self.topics,
            self.clock,
            MemberReader(self.groups, self.positions, self.fetches, self.opener, self.damage),
        )
        self.record_reader = RecordReader(self.executor, self.damage, self.opener)
        if self.partitions.holding is not None:
            self.partitions.holding.on_cut = self.record_reader.forget

    def _build_reading(self) -> None:
        """Messages of any partition, wherever it is led."""
        self.positions = Positions(self.leaders, self.executor)
        self.fetches: Fetches = self.fetcher
        self.looks: Looks = LocalLooks(self.partitions, self.executor)
        if self.facts.is_cluster:
            remote = RemoteFetch(self.topics, self.routes)
            self.fetches = fetcher = AnyFetcher(self.leaders, self.fetcher, remote)
            self.looks = AnyLooks(self.leaders, fetcher, self.executor)
        self.reader = MessageReader(self.fetches, self.damage, self.opener)
        self.time_ranges = TimeRanges(self.topics, self.positions, self.reader)
        self.record_deletion = RecordDeletion(self.topic_changes, self.leaders)

    def _build_coordinated(self) -> None:
        """What has a coordinator besides groups: every family in its turn."""
        self._build_transactions()
        self._build_schemas()
        self._build_delays()
        self.writer = self._make_writer()
        self.writer.admit = self.quotas.admit_messages
        self.transaction_writer = TransactionWriter(
            self.topics, self.partitions, self.writer, self.transactions
        )
        self._build_queues()
        self._build_dead_letters()
        self.transaction_offsets = TransactionOffsets(
            self.topics, self.queues, self.memberships, self.transactions
        )
        self._build_pipelines()
        self.new_dead_letters = NewDeadLetters(
            self.letters, self.positions, self.pipelines, self.clock
        )

    def _build_transactions(self) -> None:
        self.transactions = Transactions(
            self.state_logs,
            self.topic_changes,
            self.producer_ids,
            self.groups,
            self.executor,
            ends=TransactionEnds(self.partitions, self.groups, self.measures),
            measures=self.measures,
            settings=self.settings.transactions,
            partition_count=self.settings.transactions_partitions,
        )
        self.publisher.verify_transaction = self.transactions.verify_batch

    def _build_schemas(self) -> None:
        self.schemas = Schemas(self.state_logs, self.topic_changes, self.damage, self.executor)
        self.validator = SchemaValidator(self.schemas, self.opener, self.clock, self.metrics)
        self.publisher.check_schemas = self.validator.check

    def _build_delays(self) -> None:
        self.delays = Delays(self)
        self.clock_guard.on_set = self.delays.clock_was_set

    def _group_ids(self) -> set[str]:
        """Every group that this node keeps, also those that nobody is shown yet."""
        listed = {each.group_id for each in self.group_views.all()}
        return listed | {each.group_id for each in self.queues}

    def _size_of(self, topic: str) -> int:
        """What the records of a topic take on the disk of their leaders."""
        found = self.figures.of_topic(self.topics.catalogue.topic(topic))
        return sum(each.size_bytes for each in found if each is not None)

    def _group_settings(self, group_id: str) -> GroupSettings:
        settings = self.coordinated_group_configs.settings_of(group_id)
        return self.tenant_limits.group_settings(group_id, settings)

    def _limit_tenants(self) -> None:
        """Let groups and schemas know what tenants may have."""
        limits = self.tenant_limits
        limits.group_ids = self._group_ids
        registry = self.schemas.registry
        limits.subjects = lambda: (name for name, _ in registry.contexts.subjects(""))
        self.groups.refuse_groups_by(limits.admit_group)
        self.queues.limits = limits

    def _make_writer(self) -> MessageWriter:
        return MessageWriter(self.topics, self.publisher, self.clock, self.validator.misfits)

    def _build_queues(self) -> None:
        self.queues = Queues(self)
        self.groups.is_queue_group = self.queues.knows
        self.groups.shares_messages = self.queues.shares
        self.queue_members = QueueMembers(self.queues, self.topics, self.memberships)
        self.deliverer = Deliverer(self, self.queues)
        self.acknowledger = Acknowledger(self, self.queues)

    def _build_dead_letters(self) -> None:
        self.dead_letters = DeadLetters(self, self.queues)
        self.letters = Letters(
            self.queues, self.topics, self.positions, self.record_reader, self.executor
        )
        self.redrives = Redrives(self, self.letters)

    def _build_pipelines(self) -> None:
        self.pipelines = Pipelines(self.state_logs, self.topic_changes, self.clock, self.executor)

    def _build_views(self) -> None:
        """What is shown of all of it."""
        self.group_views = GroupViews(self.topics, self.groups, self.queues)
        self.lag = GroupLag(self.topics, self.figures, self.groups, self.queues)
        self.group_administrator = GroupAdministrator(
            self.topics,
            self.positions,
            self.groups,
            self.queues,
            views=self.group_views,
            lag=self.lag,
            measures=self.measures,
        )
        self.tenant_removal = TenantRemoval(
            self.tenants,
            self.access,
            self.access_administration,
            topics=self.topics,
            delete_topic=self.delete_topic,
            group_views=self.group_views,
            groups=self.group_administrator,
            schemas=self.schemas,
            transactions=self.transactions,
            pipelines=self.pipelines,
            limits=self.tenant_limits,
            clock=self.clock,
            is_cluster=self.facts.is_cluster,
        )
        self.backlogs = Backlogs(
            self.group_views, self.lag, self.partitions, self.clock, self.executor
        )
        self.history = History(self.metrics, self.clock, self.queues, self.backlogs)
        file = HistoryFile(self.disk, self.data_dir)
        self.history_keeper = HistoryKeeper(self.history, file, self.executor)
        self._limit_tenants()
        self.usage_topic = UsageTopic(
            self.quotas,
            self.tenant_limits,
            self.settings.node_id,
            targets=self.targets,
            reader=self.reader,
            create=partial(self.create_internal_topic, USAGE, 1),
            clock=self.clock,
            others=self.routes.others,
            size_of=self._size_of,
        )

    async def start(self) -> None:
        """Open the partitions, then start what coordinates clients over them."""
        await self.open()
        await self.start_services()

    async def start_services(self) -> None:
        """Load what is stored of groups, transactions, queues and delays, and go on with it."""
        await self.coordinated_group_configs.load()
        await self.groups.start()
        await self.transactions.start()
        await self.schemas.start()
        await self.queues.start()
        await self.topic_changes.finish_deletions(self.topics_at_start, self.groups.forget_topic)
        await self.delays.start()
        self.dead_letters.start()
        await self.history_keeper.start()
        await self.redrives.start()
        await self.pipelines.start()
        self.metrics.add_source(BrokerGauges(self))
        self.backups.start()
        if self.webhooks is not None:
            await self.webhooks.start()

    async def stop(self) -> None:
        """Stop everything in order, so that the next start has nothing to recover."""
        if self.webhooks is not None:
            await self.webhooks.stop()
        await self.backups.stop()
        await self.usage_topic.stop()
        await self.history_keeper.save()
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
        await self.close()

    async def reload_settings(self) -> None:
        """Follow what was restored into the metadata store; in a cluster every node does so."""
        if self.keeper is None:
            await self.coordinated_group_configs.load()
            await self.users.load()
            await self.access.load()
            await self.sessions.load()
            await self.quotas.load()
            if self.webhooks is not None:
                await self.webhooks.endpoints.load()
            await self.follow_stored_configs()

    def passes(self, settings: MaintenanceSettings) -> Sequence[Pass]:
        """What services do now and then."""
        passes = (
            Pass("backlogs", settings.backlogs_s, self.backlogs.look),
            Pass("history", STEP_S, self.history.sample),
            Pass("file of the history", SAVE_S, self.history_keeper.save),
            Pass("usage of quotas", PASS_S, self.usage_topic.run),
            Pass("expired keys", EXPIRY_PASS_S, self._expire_keys),
        )
        if not self.access.tenants.is_enabled:
            return passes
        return (*passes, Pass("tenant deletions", DELETION_PASS_S, self.tenant_removal.run))

    async def _expire_keys(self) -> None:
        self.access.expire(self.clock.now_ms())

    def _forget_topic(self, topic: Topic) -> None:
        self.groups.forget_topic(topic.name)
        self.queues.forget_topic(topic.topic_id, self.partitions.local_of(topic))
        self.measures.forget_topic(topic.name)
        self.writer.forget_topic(topic.name)
        self.delays.forget_topic(topic)
        self.history.topics.forget(topic.name)
