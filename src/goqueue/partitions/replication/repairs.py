"""Replicas with damaged records: another one's are put in their place, or all is fetched again.

Where nobody has exactly what was there, nobody counts on the replica any more before it is cut.
What a replica has fetched or appended in an epoch is trusted in that epoch. So a log is cut only
when another node leads in a later one, and the record promises nothing of this replica. It enters
the in-sync set again as every replica does: by fetching what is committed.

A leader without a successor goes on with what it has, as a node on its own does, until there is
one.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.cluster.elections import expelled, handed_over
from goqueue.cluster.proposals import PartitionChange
from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import DamagedRangeError, GoQueueError, PeerUnavailableError
from goqueue.records.batch import walk
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.cluster.peers import Peers
    from goqueue.cluster.view import ClusterView
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.partitions.replication.roles import Roles
    from goqueue.storage.patching import DamagedStretch
    from goqueue.topics.catalogue import Topics

logger = logging.getLogger(__name__)

PATCHED_BYTES: Final = 64 * 1024 * 1024
"""A stretch that is larger is cut off and fetched like everything else."""
_STEP_S: Final = 0.2
"""How often it is looked at whether a damaged log may be cut."""


class Repairs:
    """Cuts and fetches again what is damaged; one task a partition, as long as that takes."""

    def __init__(
        self,
        node_id: int,
        view: ClusterView,
        roles: Roles,
        partitions: Partitions,
        topics: Topics,
        *,
        peers: Peers,
    ) -> None:
        self._node_id = node_id
        self._view = view
        self._roles = roles
        self._partitions = partitions
        self._topics = topics
        self._peers = peers
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: dict[TopicPartition, int] = {}
        """What was met before the roles were known: at most one place a partition."""
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Repair from now on, and what was met before."""
        self._loop = asyncio.get_running_loop()
        for partition_id, first in self._early.items():
            self._begin(partition_id, first)
        self._early.clear()

    async def stop(self) -> None:
        """Leave what is damaged as it is; whoever reads it next meets it again."""
        self._loop = None
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def met(self, partition_id: TopicPartition, damage: DamagedRangeError) -> None:
        """Records of a partition are damaged here; told by any thread."""
        if self._loop is None:
            self._early[partition_id] = damage.first
        else:
            self._loop.call_soon_threadsafe(self._begin, partition_id, damage.first)

    def _begin(self, partition_id: TopicPartition, first: int) -> None:
        topic = self._topics.catalogue.by_name.get(partition_id.topic)
        partition = self._partitions.replica(partition_id)
        if self._loop is None or topic is None or partition is None or partition_id in self._tasks:
            return
        key = PartitionKey(topic.topic_id, partition_id.partition)
        task = self._tasks[partition_id] = self._loop.create_task(
            self._repair(key, partition, first), name=f"repair of {partition_id}"
        )
        task.add_done_callback(lambda _: self._tasks.pop(partition_id))

    async def _repair(self, key: PartitionKey, partition: ReplicatedPartition, first: int) -> None:
        if not await partition.is_damaged_at(first):
            return  # the log was cut meanwhile, or it is something else that was lost
        if await self._is_patched(key, partition, first):
            return
        partition.distrusted_in = partition.leader_epoch  # from now on nothing is fetched
        try:
            while not await self._is_done(key, partition, first):  # noqa: ASYNC110 - of the cluster
                await asyncio.sleep(_STEP_S)
        finally:
            partition.distrusted_in = None
            self._roles.on_change(key)

    async def _is_patched(
        self, key: PartitionKey, partition: ReplicatedPartition, first: int
    ) -> bool:
        """Take the records from whoever has them: nothing else has to be given up for that."""
        stored = self._view.partitions.get(key)
        for node_id in () if stored is None else stored.value.replicas:
            if node_id == self._node_id or not self._view.is_active(node_id):
                continue
            try:
                stretch = await partition.patch(first, partial(self._read, key, node_id))
            except GoQueueError as error:
                logger.info("%s: not patched by node %d: %s", partition.id, node_id, error)
                continue
            if stretch is not None and not await partition.is_damaged_at(first):
                logger.warning(
                    "%s: damaged records from %d to %d are patched, as node %d has them",
                    partition.id,
                    stretch.first_offset,
                    stretch.end_offset,
                    node_id,
                )
                return True
        return False

    async def _read(self, key: PartitionKey, node_id: int, stretch: DamagedStretch) -> bytes:
        """What another replica has in place of a damaged stretch."""
        found, offset = bytearray(), stretch.first_offset
        while offset < stretch.end_offset and len(found) < stretch.size_bytes <= PATCHED_BYTES:
            answer = await self._peers.ask(
                node_id,
                ApiKey.READ_BATCHES,
                0,
                topic_id=key.topic_id,
                partition_index=key.partition,
                offset=offset,
            )
            if answer.error_code or not answer.batches:
                raise PeerUnavailableError(
                    f"node {node_id} answers {ErrorCode(answer.error_code).name} for offset "
                    f"{offset}"
                )
            for position, info in walk(answer.batches):
                if info.base_offset >= stretch.end_offset:
                    break
                found += answer.batches[position : position + info.size_bytes]
                offset = info.next_offset
        return bytes(found)

    async def _is_done(self, key: PartitionKey, partition: ReplicatedPartition, first: int) -> bool:
        try:
            return await self._step(key, partition, first)
        except GoQueueError as error:
            logger.info("%s: damaged records stay for now: %s", partition.id, error)
            return False

    async def _step(self, key: PartitionKey, partition: ReplicatedPartition, first: int) -> bool:
        """Do what is next; true when there is nothing more to do."""
        node_id, stored = self._node_id, self._view.partitions.get(key)
        if stored is None or node_id not in stored.value.replicas or partition.is_closed:
            return True
        record, trusted_in = stored.value, partition.distrusted_in
        if record.leader == node_id:
            if handed_over(record, self._view, lost=True) is not None:
                await self._roles.give_up(key)
            return False
        is_promised = node_id in record.isr or node_id in record.elr
        is_over = trusted_in is not None and record.epoch > trusted_in
        if record.leader is not None and is_over and not is_promised:
            await self._cut(key, partition, first, record.leader)
            return True
        after = expelled(record, node_id, self._view)
        if after is not None and after.leader is not None:
            nodes = frozenset({node_id, after.leader})
            await self._roles.propose("expel", PartitionChange(key, stored.revision, after, nodes))
        return False

    async def _cut(
        self, key: PartitionKey, partition: ReplicatedPartition, first: int, leader: int
    ) -> None:
        followed, start, end = self._roles.followed, partition.log_start, partition.log_end
        await followed.end(key)
        to = await partition.truncate(first)
        if partition.log_start > start:  # nothing was left before a missing segment
            await partition.restart_at(start)
            to = start
        logger.error(
            "%s: cut from %d to %d, where records are damaged; they are fetched again from node %d",
            partition.id,
            end,
            to,
            leader,
        )
        await followed.end(key)  # one that began meanwhile knows the watermark of before
