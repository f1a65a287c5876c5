"""Transactions as a use case: find the coordinator of an id, let it decide, carry it out."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.model import internal_topics
from goqueue.model.errors import (
    ConcurrentTransactionsError,
    TransactionCoordinatorUnavailableError,
    UnknownProducerError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.runtime.tasks import PeriodicTasks
from goqueue.state.coordinators import Family
from goqueue.storage.snapshot_kinds import SnapshotKind
from goqueue.transactions.atomic_commit import SeriesCoordinator
from goqueue.transactions.registry import EVERYTHING, verify
from goqueue.transactions.series import TogetherRequest, series_of
from goqueue.transactions.settings import TRANSACTIONS_PARTITIONS, TransactionSettings
from goqueue.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from goqueue.groups.messages import CommitRequest, PartitionOutcomes
    from goqueue.groups.service import Groups
    from goqueue.partitions.markers import Marker
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.partitions.topic_changes import TopicChanges
    from goqueue.records.batch import BatchInfo
    from goqueue.state.logs import StateLogs
    from goqueue.transactions.ends import TransactionEnds
    from goqueue.transactions.messages import (
        Effects,
        EndRequest,
        Identity,
        InitRequest,
        TransactionFilter,
        TransactionView,
    )
    from goqueue.transactions.transaction import Transaction

_log = logging.getLogger(__name__)

_R = TypeVar("_R")
_I = TypeVar("_I", bound="Identity | None")

TRANSACTIONS_TOPIC: Final = internal_topics.TRANSACTION_STATE

CHECK_S: Final = 1.0
"""Between looks for transactions that took too long, and for ones that could not be ended."""

_INIT_TRIES: Final = 3


class Transactions:
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
        self._state_logs = state_logs
        self._changes = changes
        self._producer_ids = producer_ids
        self._groups = groups
        self._executor = executor
        self._ends = ends
        self._measures = measures
        self.settings = settings
        self._family = Family(TRANSACTIONS_TOPIC, partition_count, self._new_shard)
        self._by_producer: dict[int, Transaction] = {}
        self._tasks = PeriodicTasks()
        self._opening = asyncio.Lock()
        self.now_ms = state_logs.clock.now_ms

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
        return TransactionShard(
            log, self._new_coordinator, self._by_producer, self.now_ms, self._executor
        )

    def _new_coordinator(self) -> SeriesCoordinator:
        return SeriesCoordinator(self.settings, {}, _new_transaction_id)

    def _shard_of(self, transactional_id: str) -> TransactionShard:
        """The shard of an id. Raises like `_decide`, if there are no ids or another node has it."""
        shard = self._family.find(series_of(transactional_id))
        if shard is not None:
            return shard
        if TRANSACTIONS_TOPIC not in self._changes.topics.catalogue.by_name:
            raise UnknownProducerError(f"no producer has been initialised for {transactional_id!r}")
        raise TransactionCoordinatorUnavailableError("this node does not coordinate it; try again")

    async def _decide(
        self, transactional_id: str, event: Callable[[SeriesCoordinator, Effects], _R]
    ) -> _R:
        """Let the coordinator of an id decide.

        The decision is durable when this returns, and as a rule carried out.

        Raises:
            UnknownProducerError: there are no ids yet.
            TransactionCoordinatorUnavailableError: it may not act for a while.
        """
        shard = self._shard_of(transactional_id)
        await shard.state.active()
        result, out = shard.perform(event)
        self._measures.transactions_started.add(out.started)
        await shard.durable()
        await self._ends.finish(shard, out, self.now_ms)
        return result

    # --- Producers -------------------------------------------------------------------------------

    async def init_producer(self, request: InitRequest) -> Identity:
        """Give an id to a producer; its predecessor is fenced, what that had open is aborted."""
        await self._ensure_open()
        for _ in range(_INIT_TRIES):
            identity = await self._with_fresh_id(
                request.transactional_id,
                lambda core, out, fresh_id: core.init_producer(
                    request, fresh_id, self.now_ms(), out
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
        event: Callable[[SeriesCoordinator, Effects, int], _I],
    ) -> _I:
        """Let the coordinator of an id decide who its producer is; it may use a fresh id."""
        # Before the event, since nothing may be awaited in it; as a rule an id is reserved.
        state = self._shard_of(transactional_id).state
        await state.active()
        fresh_id = await self._producer_ids.peek()
        state.check()  # nothing may be awaited from here on, or others get the same id

        def decide(core: SeriesCoordinator, out: Effects) -> _I:
            identity = event(core, out, fresh_id)
            if identity is not None and identity.producer_id == fresh_id:
                self._producer_ids.take(fresh_id)
            return identity

        return await self._decide(transactional_id, decide)

    def heartbeat(self, transactional_id: str, identity: Identity) -> None:
        """The producer is alive."""
        shard = self._shard_of(transactional_id)
        shard.perform(lambda core, _: core.heartbeat(transactional_id, identity, self.now_ms()))

    def transactional_id_of(self, producer_id: int) -> str:
        """Which id a producer was initialised for.

        Raises:
            UnknownProducerError: none.
        """
        transaction = self._by_producer.get(producer_id)
        if transaction is None:
            raise UnknownProducerError(
                f"producer {producer_id} has no transactional id: initialise the producer again"
            )
        return transaction.transactional_id

    # --- One transaction -------------------------------------------------------------------------

    async def begin(self, transactional_id: str, identity: Identity) -> str:
        """Open a transaction; returns its id."""
        return await self._decide(
            transactional_id,
            lambda core, out: core.begin(transactional_id, identity, self.now_ms(), out),
        )

    async def add_partitions(
        self, transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]
    ) -> None:
        """Let a transaction write to partitions, which exist; opens it if need be."""
        await self._decide(
            transactional_id,
            lambda core, out: core.add_partitions(
                transactional_id, identity, partitions, self.now_ms(), out
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
                lambda core, out: core.add_partitions(
                    transactional_id, identity, partitions, self.now_ms(), out
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
        self, transactional_id: str, identity: Identity, request: CommitRequest
    ) -> PartitionOutcomes:
        """Note offsets that count when the transaction commits; the group must be added to it."""
        groups = self._groups
        place = TopicPartition(OFFSETS_TOPIC, groups.shard_number(request.group_id))
        self.verify(identity, place, transactional_id)
        return await groups.stage(identity.producer_id, request)

    async def end(self, transactional_id: str, identity: Identity, marker: Marker) -> None:
        """Commit or abort. The decision is durable when this returns, and as a rule carried out.

        Where a partition refuses its marker, it gets it later: nobody sees half of a transaction
        there, because the last stable offset stays before it.
        """
        await self._decide(
            transactional_id,
            lambda core, out: core.end(transactional_id, identity, marker, self.now_ms(), out),
        )

    async def end_and_renew(self, request: EndRequest) -> Identity:
        """Like `end`, and the producer goes on in the next epoch; returns who it is then."""
        return await self._with_fresh_id(
            request.transactional_id,
            lambda core, out, fresh_id: core.end_and_renew(request, fresh_id, self.now_ms(), out),
        )

    async def abort(self, transactional_id: str) -> None:
        """Abort an open transaction for an administrator; its producer is fenced."""
        self.describe(transactional_id)
        await self._decide(
            transactional_id, lambda core, out: core.abort(transactional_id, self.now_ms(), out)
        )

    # --- Many transactions -----------------------------------------------------------------------

    async def commit_together(self, request: TogetherRequest) -> bool:
        """Commit the transactions of a batch, all or none; False when that was done before.

        The decision is durable when this returns, whoever is killed then. Asked again, it answers
        the same and does nothing: whoever got no answer may ask until there is one.
        """
        await self._ensure_open()
        return await self._decide(
            request.series, lambda core, out: core.commit_together(request, self.now_ms(), out)
        )

    async def abort_together(self, request: TogetherRequest) -> None:
        """Abort what a series has open, for a batch that was given up."""
        await self._ensure_open()
        await self._decide(
            request.series, lambda core, out: core.abort_together(request, self.now_ms(), out)
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

    # --- Looking ---------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionView:
        """One id. Raises `UnknownTransactionalIdError`, or the refusal if another node has it."""
        for coordinator in self.coordinators():
            if transactional_id in coordinator.by_id:
                return coordinator.describe(transactional_id)
        if self._family.shards and not (state := self._shard_of(transactional_id).state).is_open:
            raise state.refusal()
        return self._new_coordinator().describe(transactional_id)

    def list(self, wanted: TransactionFilter = EVERYTHING) -> list[TransactionView]:
        """The ids that a filter lets through."""
        now_ms = self.now_ms()
        return [line for core in self.coordinators() for line in core.list(wanted, now_ms)]

    def coordinators(self) -> Iterator[SeriesCoordinator]:
        """Every coordinator that has ids, for reading."""
        return (shard.coordinator for shard in self._family.opened())

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshots of all coordinators."""
        return self._family.snapshot_bytes

    @property
    def records_since_snapshot(self) -> int:
        """What a start would have to replay."""
        return sum(shard.state.log.records_since_snapshot for shard in self._family.opened())

    @property
    def log_bytes(self) -> int:
        """The size of the logs of all coordinators."""
        return sum(shard.state.log.partition.size_bytes for shard in self._family.opened())

    # --- Time ------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Abort what took too long, forget old ids, and end what could not be ended before."""
        for shard in self._family.opened():
            await shard.state.active()
            _, out = shard.perform(lambda core, out: core.tick(self.now_ms(), out))
            for ending in out.endings:
                _log.info(
                    "aborting the transaction of %r: transaction timeout", ending.transactional_id
                )
            await shard.durable()
            await self._ends.finish(shard, out, self.now_ms)
        await self._finish_decided()

    async def _finish_decided(self) -> None:
        for shard in self._family.opened():
            await self._ends.finish_all(shard, self.now_ms)


def _new_transaction_id(now_ms: int) -> str:
    return f"txn-{now_ms}-{secrets.token_hex(8)}"
