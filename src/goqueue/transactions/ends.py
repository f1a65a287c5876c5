"""Carrying out what was decided: a marker for each partition, the offsets, then the last word.

Interrupted anywhere, it can be done again. A partition whose log has the marker has nothing open
any more and gets no second one; a group that has taken over the offsets has nothing staged.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.model.errors import GoQueueError, NotLeaderError, TopicError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.transactions.states import TransactionState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goqueue.groups.service import Groups
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partition import Partition, Placed
    from goqueue.partitions.partitions import Partitions
    from goqueue.transactions.messages import Effects, Ending
    from goqueue.transactions.shard import TransactionShard
    from goqueue.transactions.transaction import Transaction

_log = logging.getLogger(__name__)

_COORDINATOR_EPOCH: Final = 0
"""Of a coordinator that has never moved, as on one node."""


class TransactionEnds:
    """Ends transactions that are decided."""

    def __init__(self, partitions: Partitions, groups: Groups, measures: Measures) -> None:
        self._partitions = partitions
        self._groups = groups
        self._measures = measures
        self._under_way: set[str] = set()

    async def finish(self, shard: TransactionShard, out: Effects) -> None:
        """Carry out what an event decided; what cannot be done now is left for later."""
        for ending in out.endings:
            await self._try(shard, ending)

    async def finish_all(self, shard: TransactionShard) -> None:
        """Carry out everything that a shard has decided and nobody is at work on."""
        for ending in shard.coordinator.unfinished():
            if ending.transactional_id not in self._under_way:
                await self._try(shard, ending)

    async def _try(self, shard: TransactionShard, ending: Ending) -> None:
        self._under_way.add(ending.transactional_id)
        try:
            await self._carry_out(ending, shard.state.epoch)
            _, out = shard.perform(lambda core, now_ms, out: core.completed(ending, now_ms, out))
            await shard.durable()
        except GoQueueError as error:
            _log.warning(
                "the transaction of %r is not ended everywhere yet: %s",
                ending.transactional_id,
                error,
            )
        else:
            self._measures.transactions_ended(out.durations_ms)
        finally:
            self._under_way.discard(ending.transactional_id)

    async def _carry_out(self, ending: Ending, coordinator_epoch: int) -> None:
        """Do what is left to do. Raises, when all that could be done is, what could not be."""
        refusal: GoQueueError | None = None
        unsynced: list[tuple[Partition, Placed]] = []
        for place in sorted(TopicPartition(*each) for each in ending.partitions):
            try:
                if place.topic == OFFSETS_TOPIC:
                    await self._end_offsets(place.partition, ending, coordinator_epoch)
                else:
                    self._end_at(place, ending, coordinator_epoch, unsynced)
            except GoQueueError as error:
                refusal = refusal or error
        if unsynced:
            await asyncio.gather(
                *(partition.committed(placed.end_offset) for partition, placed in unsynced)
            )
        if refusal is not None:
            raise refusal

    async def _end_offsets(self, number: int, ending: Ending, coordinator_epoch: int) -> None:
        commits = ending.marker is Marker.COMMIT
        producer_id = ending.identity.producer_id
        await self._groups.complete_transaction(
            number, producer_id, coordinator_epoch, commit=commits
        )

    def _end_at(
        self,
        place: TopicPartition,
        ending: Ending,
        coordinator_epoch: int,
        unsynced: list[tuple[Partition, Placed]],
    ) -> None:
        try:
            partition = self._partitions.partition(place)
        except NotLeaderError:
            raise
        except TopicError:
            return  # it was deleted meanwhile, with everything in it
        if partition.sequences.epoch_of(ending.identity.producer_id) > ending.identity.epoch:
            return  # this is late: the producer is in its next transaction there
        placed = partition.append_marker(ending.marker, *ending.identity, coordinator_epoch)
        if placed is not None and not partition.is_committed(placed.end_offset):
            unsynced.append((partition, placed))

    def repair(
        self, by_producer: Mapping[int, Transaction], is_damaged: Callable[[Transaction], bool]
    ) -> int:
        """End what the logs hold open and no coordinator knows of; returns how many.

        Only damage or a power cut leads there, under a policy that lets it take the last moments of
        a log: of a coordinator's, or the markers of a transaction that is done. Such records would
        keep readers of committed records waiting for ever.

        What is open in the epoch of a committed transaction is taken for a part of it, unless
        `is_damaged` says that its coordinator has lost entries: then it may be the next one, which
        nobody has committed.
        """
        count = 0
        for partition in self._partitions:
            if not partition.is_leading:
                continue
            for producer_id in partition.transactions.open_producers():
                known = by_producer.get(producer_id)
                if known is not None and known.state.is_open and partition.id in known.partitions:
                    continue
                commits = known is not None and known.state is TransactionState.COMPLETE_COMMIT
                if known is not None and partition.sequences.epoch_of(producer_id) >= known.epoch:
                    commits = commits and not is_damaged(known)
                marker = Marker.COMMIT if commits else Marker.ABORT
                epoch = max(known.epoch if known else 0, 0)
                try:
                    partition.append_marker(marker, producer_id, epoch, _COORDINATOR_EPOCH)
                except GoQueueError as error:
                    _log.warning(
                        "%s: an open transaction could not be ended: %s", partition.id, error
                    )
                    continue
                _log.warning(
                    "%s: producer %d had a transaction open that its coordinator does not know: %s",
                    partition.id,
                    producer_id,
                    "committed" if commits else "aborted",
                )
                count += 1
        return count
