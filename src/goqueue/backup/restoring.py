"""Restoring on one node: the partitions that it leads, and the end of open transactions."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.backup.batches import filler, portions
from goqueue.backup.restoring_state import StateRestore
from goqueue.model.errors import (
    GoQueueError,
    RestoreConflictError,
    UnknownTransactionalIdError,
)
from goqueue.model.internal_topics import TRANSACTION_STATE
from goqueue.partitions.markers import Marker
from goqueue.transactions.states import TransactionState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.backup.copying import CopyProgress
    from goqueue.backup.manifest import PartitionCopy, TopicCopy
    from goqueue.backup.repository import Repository
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.state.logs import StateLogs
    from goqueue.topics.catalogue import Topics
    from goqueue.transactions.service import Transactions

_log = logging.getLogger(__name__)

_SETTLE_S: Final = 30.0
_LOOK_S: Final = 0.1


class RestoreServices(Protocol):
    """What restoring needs of a broker."""

    topics: Topics
    partitions: Partitions
    producer_ids: ProducerIds
    state_logs: StateLogs
    transactions: Transactions


class NodeRestore:
    """Restores what this node leads."""

    def __init__(self, services: RestoreServices, repository: Repository) -> None:
        self._services = services
        self._repository = repository
        self.done: set[TopicPartition] = set()
        """The partitions that were restored."""
        self.state = StateRestore(
            services.state_logs, services.partitions, repository, self._messages
        )

    # --- Data ------------------------------------------------------------------------------------

    async def data(
        self, topics: Mapping[str, TopicCopy], until_ms: int | None, progress: CopyProgress
    ) -> None:
        """Restore the partitions of topics that are led here; by the names that they get.

        Those that this has restored before are left out.

        Raises:
            GoQueueError: a file is damaged, this node leads no more, or the disk refused.
        """
        for name, copy in topics.items():
            topic = self._services.topics.catalogue.topic(name)
            copies = {each.number: each for each in copy.partitions}
            for partition in self._services.partitions.local_of(topic):
                found = copies.get(partition.id.partition)
                if found is not None and partition.is_leading and partition.id not in self.done:
                    await self._partition(partition, found, until_ms, progress)
                    self.done.add(partition.id)

    async def _partition(
        self,
        partition: Partition,
        copy: PartitionCopy,
        until_ms: int | None,
        progress: CopyProgress,
    ) -> None:
        if partition.log_end:
            raise RestoreConflictError(
                f"{partition.id} has messages already: a backup is restored into an empty partition"
            )
        is_begun = is_cut = False
        for part in copy.parts:
            data = await asyncio.to_thread(self._repository.read, part.file)
            found = await asyncio.to_thread(portions, data, until_ms)
            for portion in found.portions:
                first = int.from_bytes(portion[:8], "big")
                if first and not is_begun:
                    await partition.begin_at(first)
                is_begun = True
                await partition.adopt(portion)
                await asyncio.sleep(0)
            await asyncio.to_thread(progress.copied, part.log_bytes)
            if is_cut := found.is_cut:
                break
        await self._end(partition, copy, is_begun=is_begun, is_cut=is_cut)

    async def _end(
        self, partition: Partition, copy: PartitionCopy, *, is_begun: bool, is_cut: bool
    ) -> None:
        """Let the log start and end where it did, durably."""
        end = partition.log_end if is_cut else copy.end_offset
        if not is_begun and end:
            await partition.begin_at(end)
        elif partition.log_end < end:
            await partition.adopt(filler(partition.log_end, end))
        if not is_begun:
            return
        await partition.committed(end)
        if copy.log_start > partition.log_start:
            await partition.delete_before(min(copy.log_start, end))
        await partition.checkpoint()

    # --- State -----------------------------------------------------------------------------------

    async def _messages(
        self, partition: Partition, copy: PartitionCopy, progress: CopyProgress
    ) -> None:
        """Restore a partition that belongs to the state of a coordinator, whole."""
        await self._partition(partition, copy, None, progress)

    # --- The end ---------------------------------------------------------------------------------

    def forget_ids(self) -> None:
        """Give out no producer id that a restored producer may have."""
        self._services.producer_ids.discard()

    async def settle(self, names: Sequence[str]) -> int:
        """End the transactions that were open at the moment of the backup; returns how many.

        What was decided then is carried out by its coordinator; all else is aborted, in the
        partitions that are led here.
        """
        await self._abort_known()
        await self._carried_out()
        count = 0
        for name in names:
            topic = self._services.topics.catalogue.by_name.get(name)
            for partition in () if topic is None else self._services.partitions.local_of(topic):
                if not partition.is_leading:
                    continue
                for producer_id in partition.transactions.open_producers():
                    epoch = partition.sequences.epoch_of(producer_id)
                    known = max(partition.sequences.coordinator_epoch_of(producer_id), 0)
                    partition.append_marker(Marker.ABORT, producer_id, max(epoch, 0), known)
                    count += 1
                if not partition.is_committed(partition.log_end):
                    await partition.committed(partition.log_end)
        return count

    async def _abort_known(self) -> None:
        transactions = self._services.transactions
        if TRANSACTION_STATE not in self._services.topics.catalogue.by_name:
            return
        for view in transactions.list():
            if view.state == TransactionState.ONGOING:
                try:
                    await transactions.abort(view.transactional_id)
                except UnknownTransactionalIdError:
                    continue
                except GoQueueError as error:
                    _log.warning("%s is not aborted yet: %s", view.transactional_id, error)

    async def _carried_out(self) -> None:
        """Wait for the markers of what was decided, for a while; coordinators go on later."""
        transactions = self._services.transactions
        for _ in range(int(_SETTLE_S / _LOOK_S)):
            await transactions.check()
            if not any(TransactionState(view.state).is_prepared for view in transactions.list()):
                return
            await asyncio.sleep(_LOOK_S)
