"""Where the messages of a queue come from: a partition, a copy of it on this node, or its leader.

The shard of a group decides on messages; whoever has them may be asked for them. On one node that
is the partition. In a cluster another node may lead it, and a replica here that is in sync serves
as well: what it has up to its high watermark is what the leader has there. Without one, the leader
is asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import LeaderUnavailableError
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.partitions.waiting import Waiter
from goqueue.reading.remote_source import RemoteSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.queues.remote_sources import RemoteSources
    from goqueue.reading.positions import Ends
    from goqueue.reading.record_reader import RecordSource
    from goqueue.topics.catalogue import Topics

_PATIENCE_S: Final = 5.0
"""How long a source is waited for that is behind its leader."""
_LOOK_S: Final = 0.1
"""After so long it is looked up again: another may serve by then."""


def starts_at(source: RecordSource, offset: int) -> None:
    """What is below an offset was deleted, which a source on another node is yet to hear."""
    if isinstance(source, RemoteSource):
        source.starts_at(offset)


class QueueSources:
    """Finds the source of each partition."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        remote: RemoteSources | None = None,
        *,
        is_forced: bool = False,
    ) -> None:
        """Of a cluster, `remote` are the sources on other nodes.

        With `is_forced`, replicas here are not read: the way of a cluster in which most nodes have
        none of a partition.
        """
        self._topics = topics
        self._partitions = partitions
        self._remote = remote
        self._is_forced = is_forced
        self.of: Callable[[TopicPartition], RecordSource] = (
            partitions.partition if remote is None else self._of
        )
        """The source of a partition.

        Raises:
            TopicError: there is no such partition.
        """

    async def reaching(self, partition_id: TopicPartition, ends: Ends) -> RecordSource:
        """The source of a partition, once it can be read as far as its leader says.

        Raises:
            TopicError: there is no such partition.
            LeaderUnavailableError: nothing comes from its leader.
        """
        isolation = Isolation.READ_COMMITTED
        source = await self._once(
            partition_id,
            lambda found: found.is_leading or found.readable_to(isolation) >= ends.readable_to,
            f"is committed up to offset {ends.readable_to}, which has not come here",
        )
        starts_at(source, ends.log_start)
        return source

    async def known(self, partition_id: TopicPartition) -> RecordSource:
        """The source of a partition, once it is known how far it can be read. Raises alike."""
        return await self._once(
            partition_id,
            lambda found: not isinstance(found, RemoteSource) or found.leader_epoch >= 0,
            "is not known here: nothing has come",
        )

    async def _once(
        self,
        partition_id: TopicPartition,
        is_enough: Callable[[RecordSource], bool],
        otherwise: str,
    ) -> RecordSource:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _PATIENCE_S
        while True:
            source = self.of(partition_id)  # another one as soon as there is a replica here
            if is_enough(source):
                return source
            if loop.time() > deadline_s:
                raise LeaderUnavailableError(
                    f"{partition_id} {otherwise} from its leader: try again"
                )
            waiter = Waiter(1)
            everybody = [source.waiters_for(each) for each in Isolation]
            for waiters in everybody:
                waiters.add(waiter)
            try:
                await waiter.wait(_LOOK_S)
            finally:
                for waiters in everybody:
                    waiters.discard(waiter)

    def find(self, key: TopicIdPartition) -> RecordSource | None:
        """The same; None when the topic is gone."""
        topic = self._topics.catalogue.by_id.get(key[0])
        if topic is None or key[1] >= topic.partition_count:
            return None
        place = TopicPartition(topic.name, key[1])
        if self._remote is None:
            return self._partitions.find(place)
        return self._read_here(place, key) or self._remote.of(place, key)

    def _of(self, partition_id: TopicPartition) -> RecordSource:
        topic = self._topics.catalogue.require(partition_id)
        key = topic.topic_id, partition_id.partition
        assert self._remote is not None  # of one node, every partition is its own source
        return self._read_here(partition_id, key) or self._remote.of(partition_id, key)

    def _read_here(self, partition_id: TopicPartition, key: TopicIdPartition) -> Partition | None:
        """The replica on this node, if it is led here or in sync."""
        replica, facts = self._partitions.find(partition_id), self._partitions.facts
        if replica is None or replica.is_leading or facts is None:
            return replica
        is_read = not self._is_forced and facts.node_id in facts.partition(*key).isr
        return replica if is_read else None
