"""Replicas with damaged records: another one's are put in their place, or all is fetched again.

Where nobody has exactly what was there, nobody counts on the replica any more before it is cut.
What a replica has fetched or appended in an epoch is trusted in that epoch. So a log is cut only
when another node leads in a later one, and the record promises nothing of this replica. It enters
the in-sync set again as every replica does: by fetching what is committed.

A leader without a successor goes on with what it has, as a node on its own does, until there is
one.

What a start has found damaged is left where it is, and the replica is struck. Where nobody leads
because all have lost something, each takes from the others what it lacks. Only what none of them
has is cut off, with everything behind it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.cluster.elections import expelled, handed_over, is_recoverable
from goqueue.cluster.proposals import PartitionChange
from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import DamagedRangeError, GoQueueError
from goqueue.partitions.replication.patches import Outcome, Patches

if TYPE_CHECKING:
    from goqueue.cluster.peers import Peers
    from goqueue.cluster.records import PartitionRecord
    from goqueue.cluster.view import ClusterView, Stored
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.partitions.replication.roles import Roles
    from goqueue.topics.catalogue import Topics

logger = logging.getLogger(__name__)

AWAY_S: Final = 30.0
"""How long a replica that all the others depend on waits for one that is away and may have what is
damaged here. Then it is lost, as it would be if that one never came."""
_NEVER: Final = -1
"""Before any epoch."""
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
        self._patches = Patches(node_id, view, peers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: dict[TopicPartition, int] = {}
        """What was met before the roles were known: at most one place a partition."""
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Repair from now on, and what was found or met before."""
        self._loop = asyncio.get_running_loop()
        for partition in self._partitions:
            replica = self._partitions.replica(partition.id)
            if replica is not None and replica.damaged:
                self._begin(partition.id, replica.damaged[0])
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
        was_found = bool(partition.damaged)
        if not was_found:
            if not await partition.is_damaged_at(first):
                return  # the log was cut meanwhile, or it is something else that was lost
            if await self._patches.attempt(key, partition, first) is Outcome.PATCHED:
                return
        repair = _Repair(key, partition, first)
        # From now on nothing is fetched. A run that began with the damage has never fetched.
        partition.distrusted_in = _NEVER if was_found else partition.leader_epoch
        try:
            while not await self._is_done(repair):  # noqa: ASYNC110 - of the cluster
                await asyncio.sleep(_STEP_S)
        finally:
            partition.distrusted_in = None
            self._roles.on_change(key)

    async def _is_done(self, repair: _Repair) -> bool:
        try:
            return await self._step(repair)
        except GoQueueError as error:
            logger.info("%s: damaged records stay for now: %s", repair.partition.id, error)
            return False

    async def _step(self, repair: _Repair) -> bool:
        """Do what is next; true when there is nothing more to do."""
        key, partition = repair.key, repair.partition
        node_id, stored = self._node_id, self._view.partitions.get(key)
        if stored is None or node_id not in stored.value.replicas or partition.is_closed:
            return True
        if partition.damaged and await self._is_patched(repair):
            return True
        record, trusted_in = stored.value, partition.distrusted_in
        if record.leader is None:
            return await self._step_without_leader(repair, stored)
        if record.leader == node_id:
            if handed_over(record, self._view, lost=True) is not None:
                await self._roles.give_up(key, partition)
            return False
        # A leader that has not forgotten who was struck may be one that is gone and has not acted.
        is_counted = node_id in {*record.isr, *record.elr, *record.struck}
        is_over = trusted_in is not None and record.epoch > trusted_in
        if is_over and not is_counted and self._view.is_active(record.leader):
            await self._cut(repair)
            return True
        after = None if node_id in record.struck else expelled(record, node_id, self._view)
        if after is not None and after.leader is not None:
            nodes = frozenset({node_id, after.leader})
            await self._roles.propose("expel", PartitionChange(key, stored.revision, after, nodes))
        return False

    async def _is_patched(self, repair: _Repair) -> bool:
        """Take what a start has found damaged from whoever is there now; whether all is whole."""
        others = self._patches.others(repair.key)
        if repair.outcome is not Outcome.UNKNOWN and others == repair.asked:
            return False  # they have said what they have
        key, partition = repair.key, repair.partition
        outcomes = [
            await self._patches.attempt(key, partition, first) for first in partition.damaged
        ]
        if Outcome.PATCHED in outcomes:
            await partition.settle_patched()
        left = [each for each in outcomes if each is not Outcome.PATCHED]
        repair.outcome, repair.asked = left[0] if left else Outcome.PATCHED, others
        repair.first = min(partition.damaged, default=repair.first)
        return not partition.damaged

    async def _step_without_leader(self, repair: _Repair, stored: Stored[PartitionRecord]) -> bool:
        """Give up what nobody has, once all are there who could have it.

        Whoever lost something says what is left only then: the controller waits for that.
        """
        record, partition = stored.value, repair.partition
        if self._node_id not in record.struck or not is_recoverable(stored, self._view):
            return False
        if record.replicas == (self._node_id,):
            await partition.forgive()
            return True
        if not partition.damaged:  # it was met by a reader, before this replica was struck
            repair.outcome = await self._patches.attempt(repair.key, partition, repair.first)
        if repair.outcome is Outcome.NOBODY and not repair.may_wait(record, self._view):
            await self._cut(repair)
        return repair.outcome is Outcome.PATCHED or not await partition.is_damaged_at(repair.first)

    async def _cut(self, repair: _Repair) -> None:
        key, partition, followed = repair.key, repair.partition, self._roles.followed
        start, end = partition.log_start, partition.log_end
        await followed.end(key)
        to = await partition.truncate(repair.first)
        if partition.log_start > start:  # nothing was left before a missing segment
            await partition.restart_at(start)
            to = start
        logger.error(
            "%s: cut from %d to %d, where records are damaged; they are fetched again from others "
            "that have them",
            partition.id,
            end,
            to,
        )
        await followed.end(key)  # one that began meanwhile knows the watermark of before


class _Repair:
    """One replica that is damaged, and what others have said about it."""

    def __init__(self, key: PartitionKey, partition: ReplicatedPartition, first: int) -> None:
        self.key = key
        self.partition = partition
        self.first = first
        """The first damaged offset."""
        self.outcome = Outcome.UNKNOWN
        self.asked: frozenset[int] = frozenset()
        """Who has answered, to that outcome."""
        self._steps = 0

    def may_wait(self, record: PartitionRecord, view: ClusterView) -> bool:
        """Whether a replica is away that may have it, and there is still time for it to come."""
        self._steps += 1
        is_away = not all(view.is_active(each) for each in record.replicas)
        return is_away and self._steps * _STEP_S < AWAY_S
