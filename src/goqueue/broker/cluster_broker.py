"""The broker of one node of a cluster: topics, partitions and consumer groups, and no more yet."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, cast

from goqueue.broker.broker import Broker
from goqueue.broker.unserved import Unserved
from goqueue.cluster.facts import not_in_cluster
from goqueue.cluster.view_facts import view_of
from goqueue.insight.cluster_gauges import ClusterGauges
from goqueue.model.errors import ClusterError, GroupError
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.messages import MessageWriter
from goqueue.schemas.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.errors import GoQueueError
    from goqueue.topics.catalogue import Topic

TRANSACTIONS = "transactions"
SCHEMAS = "schemas"
DELAYS = "delayed messages"
QUEUES = "queue and share groups"
DEAD_LETTERS = "dead-letter queues"
MEMBERS = "members of groups over HTTP and gRPC"
PIPELINES = "reports of pipelines"


class ClusterBroker(Broker):
    """A node of a cluster. What a cluster does not serve refuses, and is not started."""

    _configured_groups: frozenset[str] = frozenset()
    """Those that had settings of their own when these were last looked at."""

    def _build_coordinated(self) -> None:
        def unserved(what: str, **answers: Any) -> Any:
            return cast("Any", Unserved(what, **answers))

        self.transactions = unserved(
            TRANSACTIONS, list=_none, now_ms=self.clock.now_ms, snapshot_bytes=0
        )
        self.transaction_writer = unserved(TRANSACTIONS)
        self.transaction_offsets = unserved(TRANSACTIONS)
        self.publisher.verify_transaction = _refusing(TRANSACTIONS)
        self.schemas = unserved(SCHEMAS, registry=Registry(unserved(SCHEMAS)), snapshot_bytes=0)
        self.validator = unserved(SCHEMAS)
        self.publisher.check_schemas = _no_schemas
        self.delays = unserved(DELAYS)
        self.publisher.delays = self.delays
        self.writer = MessageWriter(self.topics, self.publisher, self.clock, _refusing(SCHEMAS))
        self.writer.check_led = self._check_led
        self.queues = unserved(QUEUES, find=_nothing, snapshot_bytes=0)
        self.queue_members = unserved(QUEUES, find=_nothing)
        self.memberships = unserved(MEMBERS)
        self.deliverer = self.acknowledger = unserved(QUEUES)
        self.dead_letters = self.redrives = unserved(DEAD_LETTERS)
        self.letters = unserved(DEAD_LETTERS, count_all=_zero)
        self.new_dead_letters = unserved(DEAD_LETTERS, all=_empty)
        self.pipelines = unserved(PIPELINES, all=_none, generation=0)

    def _check_led(self, topic_name: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.partitions.partition(TopicPartition(topic_name, number))

    async def start_services(self) -> None:
        """Coordinate the groups whose partitions this node leads, from now on."""
        await self.coordinated_group_configs.load()
        self.coordinated_group_configs.on_change(self._follow_group_configs)
        await self.groups.start()
        await self.topic_changes.finish_deletions(self.topics_at_start, self.groups.forget_topic)
        gauges = ClusterGauges(self, view_of(self.facts), self.facts)
        if self.keeper is not None:
            self.keeper.on_change(gauges.follow)
        self.metrics.add_source(gauges)

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
        await self.topic_changes.stop()
        await self.groups.stop()
        await self.close()

    def _forget_topic(self, topic: Topic) -> None:
        self.groups.forget_topic(topic.name)
        self.measures.forget_topic(topic.name)
        self.writer.forget_topic(topic.name)


def _refusing(what: str) -> Any:
    """A function that refuses whatever it is called with."""

    def refuse(*_: object) -> NoReturn:
        raise not_in_cluster(what)

    return refuse


async def _no_schemas(*_: object) -> GoQueueError:
    """What is to be said against every batch of a topic with schemas."""
    return not_in_cluster(SCHEMAS)


def _nothing(*_: object) -> None:
    """There is none of that name."""


def _none(*_: object) -> list[Any]:
    """There are none."""
    return []


async def _zero(*_: object) -> int:
    """There are none, and it takes no time to find out."""
    return 0


async def _empty(*_: object) -> list[Any]:
    """There are none, and it takes no time to find out."""
    return []
