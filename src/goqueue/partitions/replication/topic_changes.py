"""Changes of topics in a cluster: a node asks the store, and all follow what the store has.

Whoever makes, configures or deletes a topic only writes that down. What follows from it, on every
node and so on this one, follows from the view: replicas are opened, logs are configured, files of
deleted topics are removed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import (
    GoQueueError,
    LeaderUnavailableError,
    MetadataUnavailableError,
)
from goqueue.partitions.topic_changes import TopicChange, TopicChanges
from goqueue.topics.replica_assignments import ANYWHERE, Replication

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.tasks import Sleep
    from goqueue.topics.catalogue import Topic
    from goqueue.topics.cluster_catalogue import ClusterTopics

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
"""Until the store is asked again to note that files are gone."""


_FOLLOW_S: Final = 5.0
"""How long the followers have to let go of deleted records before a client is told otherwise."""


_OPEN_S: Final = 0.02
_OPEN_LOOKS: Final = 100
"""How often it is looked whether the replicas of a new topic are open, and how many times."""


async def _at_once(key: PartitionKey, start: int, wait_s: float) -> None:
    """A node whose partitions nobody follows."""


class ClusterTopicChanges(TopicChanges):
    """Makes, grows, configures and deletes topics of a cluster."""

    is_cluster = True

    def __init__(
        self,
        topics: ClusterTopics,
        partitions: Partitions,
        default_partitions: int,
        node_id: int,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(topics, partitions, default_partitions)
        self._cluster = topics
        self._node_id = node_id
        self._sleep = sleep
        self.start_followed: Callable[[PartitionKey, int, float], Awaitable[None]] = _at_once
        """Waits for followers to start where the leader does; set by the replicas' owner."""
        self._removing: set[asyncio.Task[None]] = set()
        """One for each deleted topic whose files are still here."""
        topics.on_removed = self._removed
        topics.on_configured = partitions.configure_topic

    async def create(
        self,
        name: str,
        partition_count: int | None = None,
        overrides: Mapping[str, str] | None = None,
        replication: Replication = ANYWHERE,
    ) -> Topic:
        """Make a topic; its partitions are opened by the nodes that they are on."""
        count = self._admitted(name, partition_count, overrides)

        async def create() -> Topic:
            topic = await self.topics.create(name, count, overrides, replication=replication)
            return await self._told(TopicChange.CREATED, topic)

        return await self.to_the_end(create())

    async def opened(self, topic: Topic) -> None:
        """Return when this node has opened its replicas of a new topic, or after a moment."""
        for _ in range(_OPEN_LOOKS):
            expected = self._cluster.replica_count(topic, self._node_id)
            if len(self._partitions.of_topic(topic)) >= expected:
                return
            await self._sleep(_OPEN_S)

    async def create_internal(self, name: str, partition_count: int) -> None:  # noqa: ARG002 - the controller's
        """Wait for the controller, which makes internal topics once there are enough nodes.

        Raises:
            LeaderUnavailableError: it has not done so yet.
        """
        for _ in range(_OPEN_LOOKS):
            if name in self.topics.catalogue.by_name:
                return
            await self._sleep(_OPEN_S)
        raise LeaderUnavailableError(
            f"{name} is not there yet: it is made once enough nodes are running; try again"
        )

    async def restore_internal_settings(self) -> None:
        """Clients of a cluster never could change the settings of internal topics."""

    async def grow(
        self, name: str, partition_count: int, replication: Replication = ANYWHERE
    ) -> Topic:
        """Give a topic more partitions."""
        if self.admission is not None:
            self.admission.admit_growth(name, partition_count)

        async def grow() -> Topic:
            topic = await self.topics.grow(name, partition_count, replication)
            return await self._told(TopicChange.GROWN, topic)

        return await self.to_the_end(grow())

    async def configure(self, name: str, overrides: Mapping[str, str]) -> Topic:
        """Replace the overrides of a topic's settings; logs follow when their node sees it."""
        if self.admission is not None:
            self.admission.admit_settings(name, overrides)
        return await self.to_the_end(self.topics.configure(name, overrides))

    async def delete(self, name: str) -> Topic:
        """Forget a topic; each node removes its own files."""

        async def delete() -> Topic:
            topic = await self.topics.delete(name)
            return await self._told(TopicChange.DELETED, topic)

        return await self.to_the_end(delete())

    async def delete_records(self, partition_id: TopicPartition, offset: int | None) -> int:
        """Let a partition start at `offset` on every replica that is alive. Raises as of one node.

        Raises:
            NotEnoughReplicasAfterAppendError: it does here, and not yet on another.
        """
        start = await super().delete_records(partition_id, offset)
        topic = self.topics.catalogue.require(partition_id)
        await self.start_followed(
            PartitionKey(topic.topic_id, partition_id.partition), start, _FOLLOW_S
        )
        return start

    async def finish_deletions(
        self,
        at_start: Collection[str],  # noqa: ARG002 - groups forget by what they load
        forget: Callable[[str], None],  # noqa: ARG002 - as above
    ) -> None:
        """Remove what this node still has of topics that were deleted while it was away."""
        for name, topic_id in await self._cluster.deleted():
            self._partitions.remove_files(name, topic_id)
            await self._mark_files_removed(topic_id)

    async def stop(self) -> None:
        """Return when every change under way is made; what is left of files goes at a start."""
        await super().stop()
        for task in self._removing:
            task.cancel()
        await asyncio.gather(*self._removing, return_exceptions=True)

    def _removed(self, topic: Topic) -> None:
        """A topic was deleted, on whichever node."""
        if self.on_deleted is not None:
            self.on_deleted(topic)
        doomed = self._partitions.take_out(topic)
        task = asyncio.create_task(self._remove(topic, doomed))
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)

    async def _remove(self, topic: Topic, doomed: Sequence[Partition]) -> None:
        try:
            await self._partitions.remove_topic(topic, doomed)
        except GoQueueError:
            logger.exception("files of deleted topic %s are left until the next start", topic.name)
            return
        await self._mark_files_removed(topic.topic_id)

    async def _mark_files_removed(self, topic_id: UUID) -> None:
        while True:
            try:
                await self._cluster.mark_files_removed(topic_id, self._node_id)
            except MetadataUnavailableError as error:
                logger.info("%s", error)
                await self._sleep(_RETRY_S)
            else:
                return
