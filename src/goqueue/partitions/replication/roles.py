"""What a node is to each of its partitions: it leads or follows as the record says.

A node leads only in an epoch that began in this run of it: one that is still called leader after a
restart first asks the store for the next epoch. It gives up what it leads before it cuts a log that
has failed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.cluster.elections import candidates, given_up, is_counted, led_by, may_lead
from goqueue.cluster.metadata import Committed
from goqueue.cluster.proposals import PartitionChange, bundles
from goqueue.cluster.records import PartitionRecord, decode, new_token
from goqueue.model.errors import MetadataError, MetadataUnavailableError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.replica import Following, Leading
from goqueue.partitions.replication.replicated_partition import Standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.hello import NodeIdentity
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.records import PartitionKey
    from goqueue.cluster.view import Stored
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.replication.following import FollowedPartitions
    from goqueue.partitions.replication.leading import LedPartitions
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.topics.catalogue import Topics

logger = logging.getLogger(__name__)

FAILED_RESIGN_S: Final = 2.0
"""How long the leader of a failed or damaged log tries to hand over before it goes on alone."""
_STRIKES: Final = 5
"""How often a replica with a failed log tries in a row to leave the in-sync set."""


class Roles:
    """Changes roles, one change of a partition at a time."""

    def __init__(
        self,
        identity: NodeIdentity,
        keeper: ViewKeeper,
        store: MetadataStore,
        partitions: Partitions,
        topics: Topics,
    ) -> None:
        self._identity = identity
        self._keeper = keeper
        self._view = keeper.view
        self._store = store
        self._partitions = partitions
        self._topics = topics
        self.led: LedPartitions
        self.followed: FollowedPartitions
        self.on_change: Callable[[PartitionKey], None] = lambda _: None
        """Told of a partition whose record is to be looked at again."""
        self.homeless: set[PartitionKey] = set()
        """Records that name this node, of topics that the catalogue does not have yet."""

    async def take(self, key: PartitionKey) -> bool:
        """Be what the record says; false when that is to be tried again."""
        stored = self._view.partitions.get(key)
        if stored is None or self._identity.node_id not in stored.value.replicas:
            await self._leave(key, is_stray=stored is not None)
            return True
        partition = await self._opened(key)
        if partition is None:
            self.homeless.add(key)
            return True
        record = stored.value
        if record.leader != self._identity.node_id:
            await self._follow(key, partition, record)
            return True
        if partition.role == Leading(record.epoch) and key in self.led.by_key:
            return True  # the in-sync set has changed, which was observed already
        return await self._lead(key, partition, stored)

    async def _opened(self, key: PartitionKey) -> ReplicatedPartition | None:
        topic = self._topics.catalogue.by_id.get(key.topic_id)
        if topic is None or key.partition >= topic.partition_count:
            return None
        partition_id = TopicPartition(topic.name, key.partition)
        if self._partitions.find(partition_id) is None:
            await self._partitions.open_topic(topic)
        partition = self._partitions.replica(partition_id)
        if partition is not None:
            partition.on_failed = partial(self.give_up, key, partition)
        return partition

    async def _leave(self, key: PartitionKey, *, is_stray: bool) -> None:
        self.led.end(key)
        await self.followed.end(key)
        self.homeless.discard(key)
        if not is_stray:
            self.led.forget(key)
        topic = self._topics.catalogue.by_id.get(key.topic_id)
        if not is_stray or topic is None:
            return
        partition_id = TopicPartition(topic.name, key.partition)
        partition = self._partitions.replica(partition_id)
        if partition is not None:
            logger.warning(
                "%s is no longer assigned to this node; its files in %s are kept",
                partition_id,
                partition.folder,
            )
            await self._partitions.follow(partition_id, None, partition.leader_epoch)
            await self._partitions.let_go(partition_id)

    async def _follow(
        self, key: PartitionKey, partition: ReplicatedPartition, record: PartitionRecord
    ) -> None:
        known = self.followed.by_key.get(key)
        role = Following(record.leader, record.epoch)
        if partition.role == role and (known is not None or record.leader is None):
            return
        # No append comes between: a leader follows first and forgets its followers then.
        await self.followed.end(key)
        await self._partitions.follow(partition.id, record.leader, record.epoch)
        self.led.end(key)
        if record.leader is not None and partition.role == role:
            self.followed.follow(key, partition, record.leader, record.epoch)

    async def _lead(
        self, key: PartitionKey, partition: ReplicatedPartition, stored: Stored[PartitionRecord]
    ) -> bool:
        node_id, record = self._identity.node_id, stored.value
        if not self._view.is_active(node_id):
            return True  # it is looked at again when the registration changes
        if partition.failure is not None or partition.damaged:
            return False
        await self.followed.end(key)
        is_new = may_lead(stored, node_id, self._identity.incarnation)
        if not is_new or self.led.has_led(key, record.epoch):
            return await self._begin_epoch(key, stored)
        # The epoch is on the disk before the first append; from `begin` to `lead` nothing waits.
        if not await partition.begin(record.epoch):
            return True
        newest = self._view.partitions.get(key)
        if newest is None or newest.value.leader != node_id or newest.value.epoch != record.epoch:
            partition.follow(None, record.epoch)
            return True  # the record has changed, and is looked at again
        self.led.end(key)  # of an earlier epoch
        self.led.lead(key, partition, newest)
        logger.info(
            "%s: led here in epoch %d from %d on", partition.id, record.epoch, partition.log_end
        )
        await self._partitions.lead(partition.id, record.epoch)
        return True

    async def _begin_epoch(self, key: PartitionKey, stored: Stored[PartitionRecord]) -> bool:
        """Ask the store for another epoch: what the last one had begun is not gone on with."""
        node_id, record = self._identity.node_id, stored.value
        if node_id not in candidates(record, self._view):
            return True  # the controller decides who leads
        change = PartitionChange(
            key, stored.revision, led_by(record, node_id, record, self._view), frozenset({node_id})
        )
        return await self.propose("lead again", change)

    async def propose(self, purpose: str, change: PartitionChange) -> bool:
        """Change a record by compare-and-set; false when that is not known to have happened."""
        (proposal,) = bundles(purpose, [change], self._view, new_token)
        try:
            result = await self._store.transact(proposal.conditions, proposal.operations)
        except MetadataError as error:
            logger.info("%s of %s is tried again: %s", purpose, change.key, error)
            return False
        if isinstance(result, Committed):
            await self._keeper.reached(result.revision)
            return True
        return False  # whatever is stored by now, the view shows it soon

    # --- A failed log ----------------------------------------------------------------------------

    async def give_up(self, key: PartitionKey, partition: ReplicatedPartition) -> Standing:
        """Leave every in-sync set before a failed log is cut to what is on its disk.

        A leader hands over first. Then the record may still promise something of this node: another
        may have been made leader meanwhile, or this one, which has not begun to lead. Whoever is
        elected from what the record promises has to have it.

        Raises:
            MetadataError: the store did not say that nobody counts on it; to be tried again.
        """
        node_id, fetched_in = self._identity.node_id, partition.leader_epoch
        led = self.led.by_key.get(key)
        if led is not None:
            if not await self.led.resign(key, FAILED_RESIGN_S, lost=True):
                others = {*led.progress.maximal, *led.progress.record.elr} - {node_id}
                return Standing.NEEDED if others else Standing.ALONE
            if partition.is_leading:  # before the view says who does
                await self._partitions.follow(partition.id, None, partition.leader_epoch)
            self.led.end(key)
            self.on_change(key)
        for _ in range(_STRIKES):
            entry = await self._store.get(str(key))
            if entry is None:
                return Standing.ALONE  # its topic was deleted
            record = decode(entry.value, PartitionRecord, entry.key)
            if not is_counted(record, node_id, fetched_in):
                await self._keeper.reached(entry.revision)
                return Standing.GIVEN_UP
            if {*record.isr, *record.elr} == {node_id}:
                return Standing.ALONE
            struck = given_up(record, node_id, self._view)
            if struck is None:
                break
            await self.propose("strike", PartitionChange(key, entry.revision, struck))
        raise MetadataUnavailableError(
            f"{key}: its log has failed, and the in-sync set cannot be left at the moment"
        )
