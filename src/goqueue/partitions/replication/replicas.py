"""The replicas of this node: each leads or follows as the record of its partition says.

The view tells which records have changed. What a record asks for is done one partition at a time
each, many partitions beside each other; a record that changes meanwhile is looked at again.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import GoQueueError, StorageError
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.replication.feed import ReplicaFeed
from goqueue.partitions.replication.following import FollowedPartitions
from goqueue.partitions.replication.holding import Held, Holding
from goqueue.partitions.replication.leading import LedPartitions
from goqueue.partitions.replication.repairs import Repairs
from goqueue.partitions.replication.roles import Roles
from goqueue.partitions.replication.traffic import ReplicationTraffic
from goqueue.partitions.replication.watermark_file import FILE, WatermarkFile
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor
    from pathlib import Path
    from uuid import UUID

    from goqueue.cluster.hello import NodeIdentity
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.peers import Peers
    from goqueue.cluster.view_keeper import Touched, ViewKeeper
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.topics.catalogue import Topic, Topics

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 32
"""Partitions whose role changes at the same time; each may wait for a disk."""
_RETRY_S: Final = 0.2
"""Until a role is tried again that could not be taken."""
WATERMARKS_S: Final = 5.0
"""How often watermarks are kept for the next start."""


class ReplicaSettings(NamedTuple):
    """What an operator may set of replication."""

    lag_s: float = 10.0
    """`cluster.replica_lag_ms`: a replica that is not caught up for so long is out of sync."""
    catch_up_bytes_per_s: int = 0
    """How fast a replica that lacks much may be fetched from one leader; 0 is no bound."""
    failure_wait_s: float = 1.0
    """After so long a replica that could not store something tries again."""


class ReplicaHost(NamedTuple):
    """What replicas need of their node."""

    identity: NodeIdentity
    keeper: ViewKeeper
    store: MetadataStore
    peers: Peers
    clock: Clock
    executor: Executor
    disk: Disk
    folder: Path
    """The data folder, which holds the watermarks too."""
    store_heard_s: Callable[[], float]
    """When the metadata store last answered anything."""
    traffic: ReplicationTraffic | None = None


DEFAULTS: Final = ReplicaSettings()


class Replicas:
    """Opens, leads and follows what the records name this node for."""

    def __init__(
        self,
        host: ReplicaHost,
        partitions: Partitions,
        topics: Topics,
        settings: ReplicaSettings = DEFAULTS,
    ) -> None:
        """Keep the replicas of a node among its partitions, which are not open yet."""
        identity, keeper, store, peers, clock, executor, disk, folder, store_heard_s, counted = host
        traffic = counted or ReplicationTraffic()
        self._identity = identity
        self._keeper = keeper
        self._view = keeper.view
        self._partitions = partitions
        self._topics = topics
        self._executor = executor
        self._file = WatermarkFile(disk, folder / FILE)
        self._watermarks: dict[str, int] = {}
        self.led = LedPartitions(
            identity.node_id,
            store,
            keeper.view,
            clock,
            store_heard_s=store_heard_s,
            lag_s=settings.lag_s,
        )
        self.led.on_deposed = self._change
        self.followed = FollowedPartitions(
            peers,
            identity,
            clock,
            catch_up_bytes_per_s=settings.catch_up_bytes_per_s,
            failure_wait_s=settings.failure_wait_s,
            traffic=traffic,
        )
        self.feed = ReplicaFeed(self.led.by_key, clock, executor, self._knows, traffic=traffic)
        partitions.holding = Holding(self._held)
        self._roles = Roles(identity, keeper, store, partitions, topics)
        self._roles.led, self._roles.followed = self.led, self.followed
        self._roles.on_change = self._change
        self._repairs = Repairs(
            identity.node_id, keeper.view, self._roles, partitions, topics, peers=peers
        )
        partitions.damage.on_damaged = self._repairs.met
        self._changed: set[PartitionKey] = set()
        self._settling: dict[PartitionKey, asyncio.Task[None]] = {}
        """What is being done; one task a partition."""
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._saving: asyncio.Task[None] | None = None
        self._is_running = False

    # --- Starting and stopping -------------------------------------------------------------------

    async def open(self) -> list[TopicPartition]:
        """Open what the records name this node for, as followers of nobody.

        Returns those that have lost something which they had: the node is unclean then.

        Raises:
            StorageError: the stored data of a partition cannot be opened.
        """
        self._watermarks = await in_thread(self._executor, self._file.load)
        await self._partitions.open_all()
        return self.unclean()

    def unclean(self) -> list[TopicPartition]:
        """The partitions that ended below what they had when this run began."""
        found = map(self._partitions.replica, [each.id for each in self._partitions])
        return [each.id for each in found if each is not None and each.is_unclean]

    def start(self) -> None:
        """Lead and follow from now on, as the view says."""
        self._is_running = True
        self.led.start()
        self._repairs.start()
        self._keeper.on_change(self._on_change)
        self._keeper.follow(
            "topics/", lambda _: self._topics_came(), lambda *_: self._topics_came()
        )
        self._saving = asyncio.create_task(self._save_on(), name="high watermarks")
        for key in list(self._view.partitions):
            self._change(key)

    async def hand_over(self, wait_s: float) -> int:
        """Resign from everything that others can lead; returns what is still led here."""
        return await self.led.resign_all(wait_s)

    async def stop(self) -> None:
        """Lead and follow nothing any more; the logs stay open for whoever closes them."""
        self._is_running = False
        if self._saving is not None:
            self._saving.cancel()
        await self._repairs.stop()
        for task in list(self._settling.values()):
            task.cancel()
        await asyncio.gather(*self._settling.values(), return_exceptions=True)
        await self.led.stop()
        await self.followed.close()
        for key, led in list(self.led.by_key.items()):
            self.led.end(key)
            led.partition.stop_commits()
        try:
            await self.save_watermarks()
        except StorageError as error:
            logger.warning("high watermarks were not kept for the next start: %s", error)

    async def _save_on(self) -> None:
        while True:
            await asyncio.sleep(WATERMARKS_S)
            try:
                await self.save_watermarks()
            except StorageError as error:
                logger.warning("high watermarks were not kept for the next start: %s", error)

    async def save_watermarks(self) -> None:
        """Keep the watermarks for the next start. Raises `DiskError`."""
        ids = self._topics.catalogue.by_name
        watermarks = {
            f"{topic.topic_id.hex}/{each.id.partition}": each.high_watermark
            for each in self._partitions
            if (topic := ids.get(each.id.topic)) is not None
        }
        await in_thread(self._executor, partial(self._file.save, watermarks))

    # --- What the view says ----------------------------------------------------------------------

    def _held(self, topic: Topic, number: int) -> Held | None:
        stored = self._view.partitions.get(PartitionKey(topic.topic_id, number))
        if stored is None or self._identity.node_id not in stored.value.replicas:
            return None
        known = self._watermarks.get(f"{topic.topic_id.hex}/{number}", 0)
        return Held(stored.value.epoch, known)

    def _knows(self, topic_id: UUID) -> bool:
        return topic_id in self._topics.catalogue.by_id

    def _on_change(self, touched: Touched) -> None:
        for key in touched.partitions:
            self._change(key)
        nodes: Iterable[int] = touched.nodes
        if self._identity.node_id in touched.nodes:
            for key, stored in self._view.partitions.items():
                if stored.value.leader == self._identity.node_id:
                    self._change(key)
        self.led.observe(touched.partitions, nodes)

    def _topics_came(self) -> None:
        homeless, self._roles.homeless = self._roles.homeless, set()
        for key in homeless:
            self._change(key)

    def _change(self, key: PartitionKey) -> None:
        """Look at a partition's record, now or after what is being done to the partition."""
        if not self._is_running:
            return
        self._changed.add(key)
        if key not in self._settling:
            task = self._settling[key] = asyncio.create_task(self._settle(key))
            task.add_done_callback(lambda _: self._settled(key))

    def _settled(self, key: PartitionKey) -> None:
        del self._settling[key]
        if key in self._changed:
            self._change(key)

    async def _settle(self, key: PartitionKey) -> None:
        while key in self._changed:
            self._changed.discard(key)
            try:
                async with self._turns:
                    is_done = await self._roles.take(key)
            except GoQueueError as error:
                logger.warning("the role in %s is tried again: %s", key, error)
                is_done = False
            except Exception:
                logger.exception("the role in %s is tried again", key)
                is_done = False
            if not is_done:
                await asyncio.sleep(_RETRY_S)
                self._changed.add(key)
