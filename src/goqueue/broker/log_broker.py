"""The part of a broker that needs no coordinator: topics and partitions, publishing to them."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, cast

from goqueue.access.administration import AccessAdministration
from goqueue.access.authenticator import Authenticator
from goqueue.access.authorizer import Authorizer
from goqueue.access.directory import AccessDirectory
from goqueue.access.sessions import Sessions
from goqueue.access.tenants.administration import TenantAdministration
from goqueue.access.users import Users
from goqueue.audit.access_trail import AccessTrail
from goqueue.audit.log import NO_AUDIT
from goqueue.cluster.facts import OneNode
from goqueue.configs.broker_configs import BrokerConfigs, Level
from goqueue.configs.broker_setting_table import COMPACTION_INTERVAL, PRODUCER_EXPIRY
from goqueue.metrics.registry import Metrics
from goqueue.partitions.batch_opener import BatchOpener
from goqueue.partitions.clock_guard import ClockGuard
from goqueue.partitions.damage import DamageReports
from goqueue.partitions.due_marks import MaintenanceMarks
from goqueue.partitions.elsewhere.figures import PartitionFigures
from goqueue.partitions.elsewhere.leaders import Leaders
from goqueue.partitions.health import Health
from goqueue.partitions.maintenance import MaintainedNode, Maintenance
from goqueue.partitions.measures import Measures
from goqueue.partitions.partitions import Partitions
from goqueue.partitions.producer_ids import ProducerIds
from goqueue.partitions.topic_changes import TopicChanges
from goqueue.publishing.large_batches import LargeBatches
from goqueue.publishing.publish import Publisher
from goqueue.publishing.targets import Targets
from goqueue.publishing.traces import PublishTraces
from goqueue.quotas.service import Quotas
from goqueue.quotas.tenant_limits import TenantLimits
from goqueue.runtime.clock import Clock, SystemClock
from goqueue.runtime.disk import Disk, SystemDisk
from goqueue.storage.open_files import OpenFiles, SharedFiles
from goqueue.topics.catalogue import Topics
from goqueue.topics.routes import Routes
from goqueue.tracing.store import TraceStore
from goqueue.tracing.tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from goqueue.audit.log import AuditLog
    from goqueue.cluster.facts import ClusterFacts
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.configs.broker_settings import BrokerSettings
    from goqueue.partitions.upkeep import MaintenanceSettings
    from goqueue.runtime.tasks import PeriodicTasks
    from goqueue.topics.cluster_catalogue import ClusterTopics

TOPICS_FOLDER: Final = "topics"
TRACES_FOLDER: Final = "traces"
DISK_THREADS: Final = 8
"""In each of two pools: one for syncs, which publishers wait for, and one for cold reads, searches
by time, compaction and tokens, behind which a sync must not have to queue."""


class LogBroker:
    """The partitions of a node, and what is published to them."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MetadataStore,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        facts: ClusterFacts | None = None,
        keeper: ViewKeeper | None = None,
        audit: AuditLog = NO_AUDIT,
    ) -> None:
        """Of a node of a cluster, `facts` and `keeper` tell what the others do."""
        self.settings = settings
        self.facts = facts or OneNode(settings.node_id)
        """Which nodes there are and who leads what."""
        self.store = store
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
        self.keeper = keeper
        self.audit = audit
        """Who did what; protocols record it."""
        self.troubles: dict[str, Callable[[], str | None]] = {}
        """What else somebody should look at: a title, and what tells the reason while there is one.
        The server adds what the broker itself does not know."""
        self.configs = BrokerConfigs(store, settings, keeper)
        self.topics = self._make_topics()
        self.topics.max_partitions = settings.max_partitions
        self.topics_at_start: Collection[str] = ()
        """Those that the catalogue had when it was loaded."""
        self.marks = MaintenanceMarks()
        open_files = OpenFiles(settings.max_open_segments)
        self.files = SharedFiles(self.disk, open_files, settings.data_dir)
        self.partitions = Partitions(
            settings.data_dir / TOPICS_FOLDER,
            self.topics,
            self.files,
            self.clock,
            executor=self._syncs,
            measures=self.measures,
            marks=self.marks,
            damage=self.damage,
        )
        if self.facts.is_cluster:
            self.partitions.facts = self.facts
        self.routes = Routes(self.topics, self.facts)
        """Who leads what, and the connections to the other nodes."""
        self.leaders = Leaders(self.topics, self.partitions, self.facts, self.routes)
        self.figures = PartitionFigures(self.topics, self.leaders)
        """How large partitions are and where they end, wherever they are led."""
        self.health = Health(self.metrics, self.disk, settings.data_dir)
        self.partitions.on_opened = self.health.opened
        self.producer_ids = ProducerIds(store)
        self._build_access()
        self.traces = TraceStore(
            settings.tracing,
            self.disk,
            settings.data_dir / TRACES_FOLDER,
            self.clock,
            str(settings.node_id),
        )
        self.tracer = Tracer(
            self.traces, self.topics, self.clock, str(settings.node_id), self.routes
        )
        self.publisher = self._make_publisher()
        self.publisher.steady_ms = self.clock_guard.steady_ms
        self.targets = Targets(
            self.topics, self.partitions, self.routes, self.publisher, self.executor
        )
        """Partitions to hand messages over to, wherever they are led."""
        self.large_batches = LargeBatches(self.partitions, self.opener)
        self.topic_changes = self._make_topic_changes()
        self._offer_topic_changes()
        self.open_partitions: Callable[[], Awaitable[object]] = self.partitions.open_all

    def _offer_topic_changes(self) -> None:
        self.topic_changes.admission = self.tenant_limits
        self.create_topic = self.topic_changes.create
        self.create_internal_topic = self.topic_changes.create_internal
        self.delete_topic = self.topic_changes.delete
        self.grow_topic = self.topic_changes.grow
        self.configure_topic = self.topic_changes.configure
        self.delete_records = self.topic_changes.delete_records

    def _build_access(self) -> None:
        settings, store = self.settings.access, self.store
        self.users = Users(store, self.settings.initial_users, self.keeper)
        self.access = AccessDirectory(
            store,
            self.users,
            root_key=settings.root_key,
            uses_tenants=settings.uses_tenants,
            keeper=self.keeper,
        )
        """Rules, roles, keys and tenants."""
        self.access_administration = AccessAdministration(self.access, self.clock)
        self.tenants = TenantAdministration(self.access.tenants, self.clock)
        self.authorizer = Authorizer(settings, self.access)
        self.authenticator = Authenticator(settings, self.access, self.clock)
        self.quotas = Quotas(store, self.clock, self.measures, self.access.tenants, self.keeper)
        """Of clients and of tenants."""
        self.sessions = Sessions(
            self.access,
            store,
            self.clock,
            key=settings.session_key,
            lifetime_s=settings.session_lifetime_s,
            keeper=self.keeper,
        )
        """Who is signed in to the console."""
        self.tenant_limits = TenantLimits(self.quotas, self.topics)

    def _make_topics(self) -> Topics:
        if self.keeper is None:
            return Topics(self.store, self.settings.topic_defaults)
        from goqueue.topics.cluster_catalogue import ClusterTopics  # noqa: PLC0415 - not alone

        self.configs.on_change(self._follow_configs)
        return ClusterTopics(
            self.store,
            self.settings.topic_defaults,
            self.keeper,
            self.clock,
            self.settings.replication_factor,
        )

    @cached_property
    def access_trail(self) -> AccessTrail | None:
        """Who was refused and has logged in, where that is not one line for each."""
        return AccessTrail(self.audit, self.clock.monotonic_s) if self.audit.is_on else None

    def _make_publisher(self) -> Publisher:
        traces = PublishTraces(self.tracer)
        if self.keeper is None:
            return Publisher(self.partitions, self.clock, self.measures, traces)
        from goqueue.publishing.cluster_publish import (  # noqa: PLC0415 - not alone
            ClusterPublisher,
        )

        return ClusterPublisher(self.partitions, self.clock, self.measures, traces)

    def _make_topic_changes(self) -> TopicChanges:
        count = self.settings.default_partitions
        if self.keeper is None:
            return TopicChanges(self.topics, self.partitions, count)
        from goqueue.partitions.replication.topic_changes import (  # noqa: PLC0415 - as above
            ClusterTopicChanges,
        )

        topics = cast("ClusterTopics", self.topics)
        return ClusterTopicChanges(topics, self.partitions, count, self.settings.node_id)

    def _follow_configs(self) -> None:
        """What topics do by default was set by way of some node."""
        for topic in self.topics.use_defaults(self.configs.topic_defaults()):
            self.partitions.configure_topic(self.topics.catalogue.topic(topic.name))

    async def open(self) -> None:
        """Load the catalogue and open every partition, recovering those that need it."""
        await self.configs.load()
        await self.topics.load(self.configs.topic_defaults())
        self.topics_at_start = frozenset(self.topics.catalogue.by_name)
        await self.topic_changes.restore_internal_settings()
        await self.users.load()
        await self.access.load()
        await self.sessions.load()
        await self.quotas.load()
        await self.tracer.start()
        await self.open_partitions()
        self.metrics.add_source(self.health.put)

    async def close(self) -> None:
        """Close every partition, so that the next start has nothing to recover."""
        await self.topic_changes.stop()
        await self.partitions.close()
        await self.tracer.stop()
        self.users.close()
        self.authenticator.close()
        self.executor.shutdown()
        self._syncs.shutdown()
        self.opener.close()

    def maintenance(
        self, settings: MaintenanceSettings | None = None, tasks: PeriodicTasks | None = None
    ) -> Maintenance:
        """What this broker does by itself, now and then."""
        node = MaintainedNode(
            self.settings.data_dir,
            self.disk,
            self.clock,
            self.executor,
            self.metrics,
            self.publisher.refuse,
            partial(self.configs.changed, PRODUCER_EXPIRY),
            partial(self.configs.changed, COMPACTION_INTERVAL),
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

    async def follow_stored_configs(self) -> None:
        """Read what was set for the broker anew; topics follow from their next append on."""
        await self.configs.load()
        affected = self.topics.use_defaults(self.configs.topic_defaults())
        await self.topic_changes.follow_defaults(affected)

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
