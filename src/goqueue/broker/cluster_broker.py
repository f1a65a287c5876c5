"""The broker of one node of a cluster."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from goqueue.broker.broker import Broker
from goqueue.cluster.view_facts import view_of
from goqueue.insight.cluster_gauges import ClusterGauges
from goqueue.model.errors import ClusterError, GroupError, LeaderUnavailableError
from goqueue.model.topic_partition import TopicPartition
from goqueue.pipelines.service import PIPELINES_TOPIC, CopiedReports
from goqueue.publishing.messages import MessageWriter
from goqueue.publishing.router import PublishRouter
from goqueue.queues.receipt_routing import RoutedAcknowledger
from goqueue.schemas.copied import CopiedRegistry
from goqueue.schemas.service import SCHEMAS_TOPIC
from goqueue.state.followed import FollowedState
from goqueue.state.spreading import Spreading
from goqueue.topics.forwarding import Forwards
from goqueue.transactions.cluster.service import ClusterTransactions
from goqueue.transactions.cluster.writer import ClusterTransactionWriter

if TYPE_CHECKING:
    from goqueue.partitions.partition import Partition
    from goqueue.state.followed import StateCopy
    from goqueue.state.serial import SerialShard
    from goqueue.topics.catalogue import Topic


class ClusterBroker(Broker):
    """A node of a cluster: a family that other nodes have a part in overrides how it is built."""

    forwards: Forwards
    _configured_groups: frozenset[str] = frozenset()
    """Those that had settings of their own when these were last looked at."""

    def _build_coordinated(self) -> None:
        self._spreading = Spreading(self.routes)
        self.forwards = Forwards(self.routes, self.facts)
        super()._build_coordinated()
        self.transaction_writer = ClusterTransactionWriter(
            self.topics, self.partitions, self.writer, self.transactions, targets=self.targets
        )

    def _build_transactions(self) -> None:
        self.transactions = ClusterTransactions(
            self.state_logs,
            self.topic_changes,
            self.partitions,
            self.groups,
            routes=self.routes,
            clock=self.clock,
            measures=self.measures,
            producer_ids=self.producer_ids,
            executor=self.executor,
            settings=self.settings.transactions,
            partition_count=self.settings.transactions_partitions,
        )
        self.publisher.verify_transaction = self.transactions.verify_batch

    def _build_schemas(self) -> None:
        super()._build_schemas()
        copy = self._copied(SCHEMAS_TOPIC, CopiedRegistry(self.schemas), self.schemas.shard)
        self.schemas.catch_up = copy.caught_up
        self.schemas.confirm = partial(self._confirm, TopicPartition(SCHEMAS_TOPIC, 0))

    async def _confirm(self, place: TopicPartition) -> int | None:
        """The epoch in which this node leads a partition, as the store says; None without topic.

        Raises:
            ClusterError: another node leads it, or nobody knows.
        """
        if self.keeper is not None:
            await self.keeper.catch_up()
        topic = self.topics.catalogue.by_name.get(place.topic)
        if topic is None:
            return None
        known = self.facts.partition(topic.topic_id, place.partition)
        if known.leader != self.facts.node_id:
            who = "no node" if known.leader is None else f"node {known.leader}"
            raise LeaderUnavailableError(
                f"{who} leads {place} now, and this one cannot tell what is in it: try again"
            )
        return known.epoch

    def _make_writer(self) -> MessageWriter:
        self.publish_router = PublishRouter(
            self.topics, self.partitions, self.publisher, self.routes
        )
        return MessageWriter(self.topics, self.publish_router, self.clock, self.validator.misfits)

    def _build_delays(self) -> None:
        super()._build_delays()
        self.delays.confirm_epoch = self._confirm

    def _build_queues(self) -> None:
        super()._build_queues()
        self.acknowledger = RoutedAcknowledger(self, self.queues, self.forwards)
        self.queues.confirm = self._confirm
        self.record_reader.is_copied = self._is_copied

    def _is_copied(self, partition: Partition) -> bool:
        """Whether a replica of a partition on another node is in sync."""
        topic = self.topics.catalogue.by_name.get(partition.id.topic)
        if topic is None:
            return False
        in_sync = self.facts.partition(topic.topic_id, partition.id.partition).isr
        return any(each != self.facts.node_id for each in in_sync)

    def _build_pipelines(self) -> None:
        super()._build_pipelines()
        self._copied(PIPELINES_TOPIC, CopiedReports(self.pipelines), self.pipelines.shard)

    def _copied(self, topic: str, copy: StateCopy, shard: SerialShard) -> FollowedState:
        """Let every node have what the leader of a topic's only partition stores."""
        place = TopicPartition(topic, 0)
        followed = FollowedState(
            place, copy, self.leaders, self.fetcher, self.fetches, positions=self.positions
        )
        shard.spread = partial(self._spreading.spread, topic)
        self.state_copies[topic] = followed
        return followed

    async def start_services(self) -> None:
        """Coordinate the groups whose partitions this node leads, from now on."""
        await self.coordinated_group_configs.load()
        self.coordinated_group_configs.on_change(self._follow_group_configs)
        self.figures.start()
        if self.keeper is not None:
            self.keeper.spread = self._spreading.spread_view
        await self.groups.start()
        await self.transactions.start()
        await self.queues.start()
        await self.schemas.start()
        await self.pipelines.start()
        for copy in self.state_copies.values():
            copy.start()
        await self.delays.start()
        await self.topic_changes.finish_deletions(self.topics_at_start, self.groups.forget_topic)
        gauges = ClusterGauges(self, view_of(self.facts), self.facts)
        if self.keeper is not None:
            self.keeper.on_change(gauges.follow)
        self.metrics.add_source(gauges)
        self.backups.start()
        if self.webhooks is not None:
            await self.webhooks.start()

    def _follow_group_configs(self) -> None:
        """The settings of a group were changed, maybe by way of another node than its own."""
        before, self._configured_groups = (
            self._configured_groups,
            frozenset(self.coordinated_group_configs.names),
        )
        for group_id in before | self._configured_groups:
            with suppress(GroupError, ClusterError):  # another node coordinates it
                self.groups.follow_settings(group_id)

    async def stop(self) -> None:
        """Stop everything in order, so that the next start has nothing to recover."""
        if self.webhooks is not None:
            await self.webhooks.stop()
        await self.backups.stop()
        await self.usage_topic.stop()
        await self.history_keeper.save()
        await self.topic_changes.stop()
        await self.redrives.stop()
        await self.dead_letters.stop()
        await self.queues.stop()
        await self.transactions.stop()
        await self.figures.stop()
        self.publish_router.close()
        await self.delays.stop()
        for copy in self.state_copies.values():
            await copy.stop()
        await self.pipelines.stop()
        await self.schemas.stop()
        await self.validator.stop()
        await self.groups.stop()
        await self.close()

    def _forget_topic(self, topic: Topic) -> None:
        self.groups.forget_topic(topic.name)
        self.queues.forget_topic(topic.topic_id, self.partitions.local_of(topic))
        self.measures.forget_topic(topic.name)
        self.writer.forget_topic(topic.name)
        self.delays.forget_topic(topic)
