"""Webhooks of a node: what happens here is recorded, and endpoints are sent what was recorded."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from goqueue.access.stored import StoredRecords
from goqueue.metrics import webhook_names as names
from goqueue.model.errors import GoQueueError
from goqueue.model.internal_topics import WEBHOOKS, is_internal_topic
from goqueue.model.limits import MAX_WEBHOOKS
from goqueue.partitions.topic_changes import TopicChange
from goqueue.queues.delivery.group import WEBHOOK_GROUP_PREFIX, is_internal_group
from goqueue.runtime.tasks import PeriodicTasks
from goqueue.webhooks.addresses import AddressPolicy
from goqueue.webhooks.administration import (
    AdministrationServices,
    EndpointAdministration,
    EndpointTest,
)
from goqueue.webhooks.dead_events import DeadEvents, DeadEventServices
from goqueue.webhooks.delivering import DeliveringServices, EndpointDelivery
from goqueue.webhooks.endpoints import Endpoint, group_of
from goqueue.webhooks.events import EventMaker, EventType
from goqueue.webhooks.history import History
from goqueue.webhooks.outbox import EVENTS, Outbox
from goqueue.webhooks.sending import Resolve, Sender, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.groups.service import Groups
    from goqueue.metrics.registry import Metrics, Samples
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.topic_changes import TopicChanges
    from goqueue.publishing.targets import Targets
    from goqueue.queues.dead_letters.service import DeadLetters
    from goqueue.queues.delivery.operations import Doom
    from goqueue.records import Record
    from goqueue.topics.catalogue import Topic
    from goqueue.webhooks.settings import WebhookSettings

logger = logging.getLogger(__name__)

PREFIX: Final = "webhooks/"
"""Of the endpoints in the metadata store."""
_TIDY_S: Final = 2.0
"""Between looks for groups whose endpoint was deleted."""
_TOLD_S: Final = 5.0
"""How long a change of a topic waits for its event to be durable; it is published either way."""
_DRAIN_S: Final = 2.0
"""What the last events have to be delivered at a stop; the rest is delivered after the start."""
_LOOK_S: Final = 0.05
_KINDS: Final = {
    TopicChange.CREATED: EventType.TOPIC_CREATED,
    TopicChange.GROWN: EventType.PARTITION_ADDED,
    TopicChange.DELETED: EventType.TOPIC_DELETED,
}


class NodeSettings(Protocol):
    """What the broker was told at its start."""

    @property
    def node_id(self) -> int:
        """The number of this node."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""

    @property
    def webhooks(self) -> WebhookSettings:
        """Which addresses events may be sent to."""


class WebhookServices(DeliveringServices, DeadEventServices, AdministrationServices, Protocol):
    """What webhooks need of a broker."""

    store: MetadataStore
    keeper: ViewKeeper | None
    groups: Groups
    topic_changes: TopicChanges
    dead_letters: DeadLetters
    targets: Targets
    metrics: Metrics

    @property
    def settings(self) -> NodeSettings:
        """What the broker was told."""


class Webhooks:
    """Events and endpoints, on one node."""

    def __init__(self, services: WebhookServices, lookup: Resolve = resolve) -> None:
        self._services = services
        settings = services.settings
        policy = AddressPolicy(settings.webhooks)
        self.endpoints = StoredRecords(
            services.store, PREFIX, Endpoint, limit=MAX_WEBHOOKS, keeper=services.keeper
        )
        """By their ids; followed by every node."""
        self.history = History()
        self.dead = DeadEvents(services)
        self.administration = EndpointAdministration(services, self.endpoints, policy, lookup)
        source = f"goqueue/{settings.cluster_id}/{settings.node_id}"
        self._maker = EventMaker(services.clock, source)
        self._sender = Sender(policy, services.clock, lookup)
        self.test = EndpointTest(self._sender, self._maker, self.history, services.clock)
        create = partial(services.create_internal_topic, WEBHOOKS, 1)
        self._outbox = Outbox(services.targets, create, services.clock)
        self._running: dict[str, asyncio.Task[None]] = {}
        """One for each endpoint that is on."""
        self._tasks = PeriodicTasks()
        self._recorded: Counter[str] = Counter()
        self._is_stopped = False

    # --- Starting and stopping -------------------------------------------------------------------

    async def start(self) -> None:
        """Record events and deliver them from now on."""
        services = self._services
        self._outbox.start()
        self.endpoints.on_change = self._follow
        await self.endpoints.load()
        services.topic_changes.on_change = self._topic_changed
        services.groups.on_member = self._member_changed
        services.queues.on_member = self._member_changed
        services.dead_letters.on_dead_lettered = self._dead_lettered
        services.metrics.add_source(self._put)
        self._tasks.start("webhook groups", _TIDY_S, self._forget_deleted)

    async def shut_down(self) -> None:
        """Record that this node stops, and give the last events a moment to be delivered."""
        await self._record(EventType.BROKER_SHUTDOWN, self._node())
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _DRAIN_S
        # Nobody tells when a queue is empty: it is looked at for a moment.
        while any(map(self.pending, self._running)) and loop.time() < deadline_s:  # noqa: ASYNC110 - as said
            await asyncio.sleep(_LOOK_S)
        await self.stop()

    async def stop(self) -> None:
        """Deliver no more; what is not delivered is after the next start, or by another node."""
        if self._is_stopped:
            return
        self._is_stopped = True
        await self._tasks.stop()
        running, self._running = self._running, {}
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        await self._outbox.stop()

    def _follow(self) -> None:
        """Endpoints were created, changed or deleted, by way of whichever node."""
        if self._is_stopped:
            return
        wanted = {name for name, each in self.endpoints.all.items() if each.is_enabled}
        for name in self._running.keys() - wanted:
            self._running.pop(name).cancel()
        for name in wanted - self._running.keys():
            delivery = EndpointDelivery(
                self._services, name, self._find, self._sender, self.history
            )
            self._running[name] = asyncio.create_task(delivery.run(), name=f"webhook {name}")

    def _find(self, endpoint_id: str) -> Endpoint | None:
        """An endpoint as it is now: the view is replaced as a whole with each change."""
        return self.endpoints.all.get(endpoint_id)

    async def _forget_deleted(self) -> None:
        """Delete the groups of deleted endpoints; whether they are, the store says."""
        for group_id in [each.group_id for each in self._services.queues]:
            endpoint_id = group_id.removeprefix(WEBHOOK_GROUP_PREFIX)
            if endpoint_id == group_id or endpoint_id in self.endpoints.all:
                continue
            try:
                if await self._services.store.get(PREFIX + endpoint_id) is None:
                    await self._services.queues.delete(group_id)
                    self.history.forget(endpoint_id)
            except GoQueueError as error:
                logger.info("group %s of a deleted webhook is left for now: %s", group_id, error)

    # --- What happens ----------------------------------------------------------------------------

    async def node_is_ready(self) -> None:
        """Record that this node serves clients."""
        await self._record(EventType.BROKER_READY, self._node())

    def _node(self) -> dict[str, Any]:
        settings = self._services.settings
        return {"node": settings.node_id, "cluster": settings.cluster_id}

    async def _topic_changed(self, change: TopicChange, topic: Topic) -> None:
        await self._record(
            _KINDS[change],
            {
                "topic": topic.name,
                "topic_id": str(topic.topic_id),
                "partitions": topic.partition_count,
            },
        )

    def _member_changed(self, group_id: str, member_id: str, reason: str | None) -> None:
        if is_internal_group(group_id):
            return
        data: dict[str, Any] = {"group": group_id, "member": member_id}
        if reason is None:
            self._put_event(EventType.GROUP_JOINED, data)
        else:
            self._put_event(EventType.GROUP_LEFT, {**data, "reason": str(reason)})

    def _dead_lettered(
        self,
        source: TopicPartition,
        target: TopicPartition,
        group_id: str,
        dead: Sequence[tuple[Record, Doom]],
    ) -> None:
        if is_internal_topic(source.topic):
            return  # an event of ours: to tell of it would be one more
        for record, doom in dead:
            data = {
                "topic": source.topic,
                "partition": source.partition,
                "offset": record.offset,
                "group": group_id,
                "reason": str(doom.reason),
                "error": doom.error,
                "attempts": doom.deliveries,
                "dead_letter_topic": target.topic,
            }
            self._put_event(EventType.MESSAGE_DEAD_LETTERED, data)

    async def _record(self, kind: EventType, data: dict[str, Any]) -> None:
        """Record an event, and wait a moment for it to be durable."""
        stored = self._put_event(kind, data)
        if stored is not None:
            await asyncio.wait((stored,), timeout=_TOLD_S)

    def _put_event(self, kind: EventType, data: dict[str, Any]) -> asyncio.Future[None] | None:
        if not any(each.wants(kind) for each in self.endpoints.all.values()):
            return None
        self._recorded[kind.value] += 1
        return self._outbox.put(self._maker.make(kind, data))

    # --- What is shown ---------------------------------------------------------------------------

    def pending(self, endpoint_id: str) -> int | None:
        """Events that wait for an endpoint, those that its filters skip included.

        None: another node delivers them, or nobody has begun to.
        """
        try:
            queues = self._services.queues
            group = queues.find(group_of(endpoint_id))
            queue = None if group is None else group.queues.get(queues.key(EVENTS))
            if group is None or queue is None:
                return None
            return max(queues.sources.of(EVENTS).readable_to(group.isolation) - queue.start, 0)
        except GoQueueError:
            return None

    def _put(self, samples: Samples) -> None:
        samples.put(names.EVENTS_DROPPED, self._outbox.dropped)
        for kind, count in self._recorded.items():
            samples.put(names.EVENTS, count, kind)
        for (endpoint_id, outcome), count in self.history.counts.items():
            samples.put(names.ATTEMPTS, count, endpoint_id, outcome.value)
        for endpoint_id in self.endpoints.all:
            pending = self.pending(endpoint_id)
            if pending is not None:
                samples.put(names.PENDING, pending, endpoint_id)
