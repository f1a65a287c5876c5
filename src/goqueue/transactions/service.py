"""Transactions as a use case: find the coordinator of an id, let it decide, carry it out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.model.errors import (
    ConcurrentTransactionsError,
    TransactionCoordinatorUnavailableError,
    TransactionError,
    UnknownProducerError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.runtime.tasks import PeriodicTasks
from goqueue.storage.snapshot_kinds import SnapshotKind
from goqueue.transactions.commit_hold import CommitHold
from goqueue.transactions.registry import verify
from goqueue.transactions.settings import TRANSACTIONS_PARTITIONS
from goqueue.transactions.shard import TransactionShard
from goqueue.transactions.shards import TRANSACTIONS_TOPIC, TransactionShards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from goqueue.groups.messages import CommitRequest, PartitionOutcomes
    from goqueue.groups.service import Groups
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.partitions.topic_changes import TopicChanges
    from goqueue.records.batch import BatchInfo
    from goqueue.state.logs import StateLogs
    from goqueue.transactions.atomic_commit import SeriesCoordinator
    from goqueue.transactions.ends import TransactionEnds
    from goqueue.transactions.messages import Effects, EndRequest, Identity, InitRequest
    from goqueue.transactions.series import TogetherRequest
    from goqueue.transactions.settings import TransactionSettings

_log = logging.getLogger(__name__)

_R = TypeVar("_R")
_I = TypeVar("_I", bound="Identity | None")

CHECK_S: Final = 1.0
"""Between looks for transactions that took too long, and for ones that could not be ended."""

_INIT_TRIES: Final = 3


class Transactions(TransactionShards):
    """Every transactional id of this broker. Whatever refuses raises `TransactionError`."""

    def __init__(
        self,
        state_logs: StateLogs,
        changes: TopicChanges,
        producer_ids: ProducerIds,
        groups: Groups,
        executor: Executor,
        *,
        ends: TransactionEnds,
        measures: Measures,
        settings: TransactionSettings,
        partition_count: int = TRANSACTIONS_PARTITIONS,
    ) -> None:
        super().__init__(changes.topics, settings, partition_count, self._new_shard)
        self._state_logs = state_logs
        self._changes = changes
        self._producer_ids = producer_ids
        self._groups = groups
        self._executor = executor
        self._ends = ends
        self._measures = measures
        self._tasks = PeriodicTasks()
        self._opening = asyncio.Lock()
        self.now_ms = state_logs.clock.now_ms
        self.commit_hold = CommitHold()
        """Lets commits wait for the moment of a backup."""

    # --- Starting and stopping -------------------------------------------------------------------

    async def start(self) -> None:
        """Load every transaction that is stored, and carry out what was decided before."""
        await self._state_logs.coordinators.start(self._family)
        self._ends.repair(
            self._by_producer, lambda each: self._shard_of(each.transactional_id).has_lost_entries
        )
        await self._finish_decided()
        self._tasks.start("transactions", CHECK_S, self.check)

    async def stop(self) -> None:
        """Keep the state. What is open stays open, what is decided is ended by the next start."""
        await self._tasks.stop()
        for shard in self._family.opened():
            await shard.close()

    async def _ensure_open(self) -> None:
        """Make the topic for the first transactional id: most brokers never have one."""
        async with self._opening:
            await self._changes.create_internal(TRANSACTIONS_TOPIC, self._family.partition_count)

    def _new_shard(self, number: int) -> TransactionShard:
        log = self._state_logs.log(TRANSACTIONS_TOPIC, number, SnapshotKind.TRANSACTIONS)
        return TransactionShard(log, self._new_coordinator, self._by_producer, self._executor)

    async def _decide(
        self, transactional_id: str, event: Callable[[SeriesCoordinator, int, Effects], _R]
    ) -> _R:
        """Let the coordinator of an id decide.

        The decision is durable when this returns, and as a rule carried out.

        Raises:
            UnknownProducerError: there are no ids yet.
            TransactionCoordinatorUnavailableError: it may not act for a while.
        """
        shard = self._shard_of(transactional_id)
        await shard.ready()
        try:
            result, out = shard.perform(event)
        except TransactionCoordinatorUnavailableError:
            raise
        except TransactionError:
            await shard.durable()  # what it refuses for may not be committed yet
            raise
        self._measures.transactions_started.add(out.started)
        await shard.durable()
        await self._ends.finish(shard, out)
        return result

    # --- Producers -------------------------------------------------------------------------------

    async def init_producer(self, request: InitRequest) -> Identity:
        """Give an id to a producer; its predecessor is fenced, what that had open is aborted."""
        await self._ensure_open()
        for _ in range(_INIT_TRIES):
            identity = await self._with_fresh_id(
                request.transactional_id,
                lambda core, fresh_id, now_ms, out: core.init_producer(
                    request, fresh_id, now_ms, out
                ),
            )
            if identity is not None:
                return identity
        raise ConcurrentTransactionsError(
            f"the last transaction of {request.transactional_id!r} is still being ended"
        )

    async def _with_fresh_id(
        self,
        transactional_id: str,
        event: Callable[[SeriesCoordinator, int, int, Effects], _I],
    ) -> _I:
        """Let the coordinator of an id decide who its producer is; it may use a fresh id."""
        # Before the event, since nothing may be awaited in it; as a rule an id is reserved.
        shard = self._shard_of(transactional_id)
        await shard.ready()
        fresh_id = await self._producer_ids.peek()
        shard.state.check()  # nothing may be awaited from here on, or others get the same id

        def decide(core: SeriesCoordinator, now_ms: int, out: Effects) -> _I:
            identity = event(core, fresh_id, now_ms, out)
            if identity is not None and identity.producer_id == fresh_id:
                self._producer_ids.take(fresh_id)
            return identity

        return await self._decide(transactional_id, decide)

    def heartbeat(self, transactional_id: str, identity: Identity) -> None:
        """The producer is alive."""
        shard = self._shard_of(transactional_id)
        shard.perform(lambda core, now_ms, _: core.heartbeat(transactional_id, identity, now_ms))

    # --- One transaction -------------------------------------------------------------------------

    async def begin(self, transactional_id: str, identity: Identity) -> str:
        """Open a transaction; returns its id."""
        return await self._decide(
            transactional_id,
            lambda core, now_ms, out: core.begin(transactional_id, identity, now_ms, out),
        )

    async def add_partitions(
        self, transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]
    ) -> None:
        """Let a transaction write to partitions, which exist; opens it if need be."""
        await self._decide(
            transactional_id,
            lambda core, now_ms, out: core.add_partitions(
                transactional_id, identity, partitions, now_ms, out
            ),
        )

    def join(
        self, transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]
    ) -> bool:
        """Like `add_partitions`, for a request that writes to them, and without waiting.

        True when nothing may be written before `durable`: after a power cut the coordinator would
        not know of the partition, and the producer, which has its answer, would commit the rest.
        """
        shard = self._shard_of(transactional_id)
        known = self._by_producer.get(identity.producer_id)
        if known is None or not known.holds(transactional_id, identity, partitions):
            _, out = shard.perform(
                lambda core, now_ms, out: core.add_partitions(
                    transactional_id, identity, partitions, now_ms, out
                )
            )
            self._measures.transactions_started.add(out.started)
        return not shard.is_durable

    async def durable(self, transactional_id: str) -> None:
        """Return when what is stored of an id is as durable as its topic promises."""
        await self._shard_of(transactional_id).durable()

    async def add_offsets(self, transactional_id: str, identity: Identity, group_id: str) -> None:
        """Let a transaction commit offsets of a group."""
        number = self._groups.shard_number(group_id)
        place = TopicPartition(OFFSETS_TOPIC, number)
        await self.add_partitions(transactional_id, identity, [place])

    async def stage_offsets(
        self,
        transactional_id: str,
        identity: Identity,
        request: CommitRequest,
        *,
        adds: bool = False,
    ) -> PartitionOutcomes:
        """Note offsets that count when the transaction commits.

        The group has been added to it, or is now if the request `adds` it.
        """
        groups = self._groups
        if adds:
            await self.add_offsets(transactional_id, identity, request.group_id)
        place = TopicPartition(OFFSETS_TOPIC, groups.shard_number(request.group_id))
        self.verify(identity, place, transactional_id)
        return await groups.stage(identity.producer_id, request)

    async def end(self, transactional_id: str, identity: Identity, marker: Marker) -> None:
        """Commit or abort. The decision is durable when this returns, and as a rule carried out.

        Where a partition refuses its marker, it gets it later: nobody sees half of a transaction
        there, because the last stable offset stays before it.
        """
        hold = self.commit_hold
        if marker is Marker.COMMIT:
            await hold.over()

        def end(core: SeriesCoordinator, now_ms: int, out: Effects) -> None:
            if marker is Marker.COMMIT:
                hold.check()
            core.end(transactional_id, identity, marker, now_ms, out)

        await self._decide(transactional_id, end)

    async def end_and_renew(self, request: EndRequest) -> Identity:
        """Like `end`, and the producer goes on in the next epoch; returns who it is then."""
        hold = self.commit_hold
        if request.marker is Marker.COMMIT:
            await hold.over()

        def end(core: SeriesCoordinator, fresh_id: int, now_ms: int, out: Effects) -> Identity:
            if request.marker is Marker.COMMIT:
                hold.check()
            return core.end_and_renew(request, fresh_id, now_ms, out)

        return await self._with_fresh_id(request.transactional_id, end)

    async def abort(self, transactional_id: str) -> None:
        """Abort an open transaction for an administrator; its producer is fenced."""
        self.describe(transactional_id)
        await self._decide(
            transactional_id, lambda core, now_ms, out: core.abort(transactional_id, now_ms, out)
        )

    async def remove(self, is_chosen: Callable[[str], bool]) -> None:
        """Forget ids of this node with their producers; open transactions are aborted first.

        Those that are still being ended stay: ask again.
        """
        for shard in self._family.opened():
            await shard.ready()
            _, out = shard.perform(lambda core, now_ms, out: core.remove(is_chosen, now_ms, out))
            await shard.durable()
            await self._ends.finish(shard, out)

    # --- Many transactions -----------------------------------------------------------------------

    async def commit_together(self, request: TogetherRequest) -> bool:
        """Commit the transactions of a batch, all or none; False when that was done before.

        The decision is durable when this returns, whoever is killed then. Asked again, it answers
        the same and does nothing: whoever got no answer may ask until there is one.
        """
        await self._ensure_open()
        hold = self.commit_hold
        await hold.over()

        def commit(core: SeriesCoordinator, now_ms: int, out: Effects) -> bool:
            hold.check()
            return core.commit_together(request, now_ms, out)

        return await self._decide(request.series, commit)

    async def hold_commits(self, longest_s: float) -> None:
        """Decide no commit from now on; returns when those that were decided are stored."""
        self.commit_hold.begin(longest_s)
        for shard in self._family.opened():
            if shard.state.is_active:
                await shard.durable()

    async def abort_together(self, request: TogetherRequest) -> None:
        """Abort what a series has open, for a batch that was given up."""
        await self._ensure_open()
        await self._decide(
            request.series, lambda core, now_ms, out: core.abort_together(request, now_ms, out)
        )

    # --- Writing ---------------------------------------------------------------------------------

    def verify_batch(self, info: BatchInfo, partition: TopicPartition) -> None:
        """Let a batch of a transaction into a partition, or raise like `verify`."""
        now_ms = self.now_ms()
        verify(self._by_producer, info.producer_id, info.producer_epoch, partition, now_ms)

    def verify(
        self, identity: Identity, partition: TopicPartition, transactional_id: str | None = None
    ) -> None:
        """Let a producer's transaction, of this id if one is given, write to a partition, or raise.

        Raises:
            FencedProducerError: a newer instance has taken over.
            TransactionError: no transaction of the producer is open there.
        """
        if transactional_id is not None:
            self._check_owner(transactional_id, identity)
        verify(self._by_producer, *identity, partition, self.now_ms())

    def _check_owner(self, transactional_id: str, identity: Identity) -> None:
        if self.transactional_id_of(identity.producer_id) != transactional_id:
            raise UnknownProducerError(
                f"producer {identity.producer_id} is not the one of {transactional_id!r}"
            )

    # --- Time ------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Abort what took too long, forget old ids, and end what could not be ended before."""
        for shard in self._family.opened():
            await self._check(shard)

    async def _check(self, shard: TransactionShard) -> None:
        await shard.ready()
        _, out = shard.perform(lambda core, now_ms, out: core.tick(now_ms, out))
        for ending in out.endings:
            _log.info(
                "aborting the transaction of %r: transaction timeout", ending.transactional_id
            )
        await shard.durable()
        await self._ends.finish(shard, out)
        await self._ends.finish_all(shard)

    async def _finish_decided(self) -> None:
        for shard in self._family.opened():
            await self._ends.finish_all(shard)
