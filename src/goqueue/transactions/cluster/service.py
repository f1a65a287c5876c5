"""Transactions of a cluster: each id is coordinated by the node that leads its partition.

What this node coordinates it decides like a node on its own. Its producers write to partitions of
other nodes, which ask here whether they may; the ends go there; and offsets are staged where their
groups are coordinated.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.model.errors import (
    ClusterError,
    GoQueueError,
    TransactionCoordinatorUnavailableError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.storage.snapshot_kinds import SnapshotKind
from goqueue.transactions.cluster.calls import AddRequest, TransactionCalls
from goqueue.transactions.cluster.ends import ClusterEnds
from goqueue.transactions.cluster.finding import KnownProducer, ProducerFinder, ProducersFound
from goqueue.transactions.cluster.hanging import CHECK_S as HANGING_S, HangingTransactions
from goqueue.transactions.cluster.verification import Verification
from goqueue.transactions.marker_writer import MarkerWriter
from goqueue.transactions.registry import EVERYTHING
from goqueue.transactions.series import series_of
from goqueue.transactions.service import CHECK_S, Transactions
from goqueue.transactions.shard import TransactionShard, not_coordinator
from goqueue.transactions.shards import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from goqueue.groups.messages import CommitRequest, PartitionOutcomes
    from goqueue.groups.service import Groups
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.topic_changes import TopicChanges
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.state.logs import StateLogs
    from goqueue.topics.routes import Routes
    from goqueue.transactions.messages import Identity, TransactionFilter, TransactionView

_log = logging.getLogger(__name__)

_R = TypeVar("_R")


class ClusterTransactions(Transactions):
    """The transactional ids that this node coordinates, and the way to the others."""

    _ends: ClusterEnds

    def __init__(
        self,
        state_logs: StateLogs,
        changes: TopicChanges,
        partitions: Partitions,
        groups: Groups,
        *,
        routes: Routes,
        clock: Clock,
        measures: Measures,
        **common: Any,
    ) -> None:
        """`common` is what `Transactions` takes besides."""
        self._routes = routes
        self._partitions = partitions
        self._calls = TransactionCalls(routes)
        writer = MarkerWriter(partitions, groups)
        ends = ClusterEnds(
            partitions,
            groups,
            measures,
            topics=changes.topics,
            routes=routes,
            writer=writer,
            calls=self._calls,
        )
        super().__init__(state_logs, changes, groups=groups, ends=ends, measures=measures, **common)
        self.verification = Verification(partitions, self.ask_coordinator)
        self._finder = ProducerFinder(routes, self.find_here, lambda: self._family.partition_count)
        self._hanging = HangingTransactions(
            partitions,
            groups,
            self._finder,
            writer,
            now_s=clock.monotonic_s,
            longest_s=self.settings.max_timeout_ms / 1000,
        )
        self._taken_over: set[asyncio.Task[None]] = set()

    # --- Starting and stopping -------------------------------------------------------------------

    async def start(self) -> None:
        """Coordinate the ids whose partitions this node leads, from now on."""
        await self._state_logs.coordinators.start(self._family)
        self._tasks.start("transactions", CHECK_S, self.check)
        self._tasks.start("hanging transactions", HANGING_S, self._hanging.check)

    async def stop(self) -> None:
        """Leave what is open, and what is decided and not carried out, to the next coordinator."""
        await self._ends.stop()
        await self._calls.stop()
        await super().stop()

    async def _ensure_open(self) -> None:
        """The controller makes the topic; whoever leads a partition of it coordinates."""

    def _new_shard(self, number: int) -> TransactionShard:
        log = self._state_logs.log(TRANSACTIONS_TOPIC, number, SnapshotKind.TRANSACTIONS)
        shard = TransactionShard(
            log,
            self._new_coordinator,
            self._by_producer,
            self._executor,
            on_active=self._took_over,
        )
        shard.on_completed = lambda out: self._measures.transactions_ended(out.durations_ms)
        return shard

    def _took_over(self, shard: TransactionShard) -> None:
        """Finish what the last coordinator has decided."""
        task = asyncio.get_running_loop().create_task(self._ends.finish_all(shard))
        self._taken_over.add(task)
        task.add_done_callback(self._taken_over.discard)

    async def check(self) -> None:
        """As on one node, for what this one coordinates; a shard that moves is left alone."""
        for shard in self._family.opened():
            if not shard.state.is_active:
                continue
            try:
                await self._check(shard)
            except GoQueueError as error:
                _log.info("%s: not looked through: %s", shard.state.log.partition.id, error)

    # --- Who coordinates what --------------------------------------------------------------------

    def coordinator_of(self, transactional_id: str) -> int:
        """The node that coordinates an id: the leader of the partition that holds it.

        Raises:
            TransactionCoordinatorUnavailableError: there is none at the moment.
        """
        number = self._family.number_of(series_of(transactional_id))
        try:
            return self._routes.leader_of(TopicPartition(TRANSACTIONS_TOPIC, number))
        except GoQueueError as error:
            raise TransactionCoordinatorUnavailableError(str(error)) from error

    async def coordinator_of_producer(self, producer_id: int) -> int:
        """The node that coordinates the transactional id of a producer.

        Raises:
            UnknownProducerError: it has none.
            TransactionCoordinatorUnavailableError: nobody who may know it answers.
        """
        return self.coordinator_of(await self.find_id(producer_id))

    async def find_id(self, producer_id: int) -> str:
        """Which id a producer was initialised for. Raises like `coordinator_of_producer`."""
        known = self._by_producer.get(producer_id)
        if known is not None:
            return known.transactional_id
        return await self._finder.transactional_id(producer_id)

    def find_here(self, producer_ids: Iterable[int]) -> ProducersFound:
        """What the coordinators of this node know of producers."""
        shards = {
            number: shard for number, shard in self._family.shards.items() if _is_whole(shard)
        }
        found = (self._by_producer.get(each) for each in producer_ids)
        return ProducersFound(
            frozenset(shards),
            [
                KnownProducer(
                    each.transactional_id,
                    each.producer_id,
                    each.state.is_open,
                    frozenset(each.partitions),
                )
                for each in found
                if each is not None
                and self._family.number_of(series_of(each.transactional_id)) in shards
            ],
        )

    def _shard_of(self, transactional_id: str) -> TransactionShard:
        shard = self._family.find(series_of(transactional_id))
        if shard is None:
            raise not_coordinator()
        return shard

    # --- Looking ---------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionView:
        """One id. Raises `UnknownTransactionalIdError`, or the refusal if another node has it."""
        shard = self._shard_of(transactional_id)
        shard.state.check()
        shard.complete_now()
        return shard.coordinator.describe(transactional_id)

    def list(self, wanted: TransactionFilter = EVERYTHING) -> list[TransactionView]:
        """The ids of this node that a filter lets through."""
        for shard in self._family.opened():
            shard.complete_now()
        return super().list(wanted)

    async def listed(self, wanted: TransactionFilter = EVERYTHING) -> Sequence[TransactionView]:
        """The same, committed. Raises the refusal while some of the ids are being loaded."""

        def read() -> Sequence[TransactionView]:
            for shard in self._family.opened():
                if shard.state.is_led and not shard.state.is_built:
                    raise shard.state.refusal()
            return self.list(wanted)

        return await self.told(read)

    async def told(self, read: Callable[[], _R]) -> _R:
        """What `read` finds in the shards of this node, once that is committed."""
        while True:
            generations = [each.state.generation for each in self._family.opened()]
            found = read()
            if await self._settled() and generations == [
                each.state.generation for each in self._family.opened()
            ]:
                return found

    async def _settled(self) -> bool:
        for shard in self._family.opened():
            if _is_whole(shard):
                try:
                    await shard.durable()
                except GoQueueError:
                    return False
        return True

    # --- Writing ---------------------------------------------------------------------------------

    def verify_batch(self, info: BatchInfo, partition: TopicPartition) -> None:
        """Let a batch of a transaction into a partition, or raise like `verify`.

        Whoever is coordinated here and writes here, as HTTP producers do, needs no question.
        """
        known = self._by_producer.get(info.producer_id)
        if known is not None and self._shard_of(known.transactional_id).state.is_active:
            super().verify_batch(info, partition)
        else:
            self.verification.check(info, partition)

    def verify(
        self, identity: Identity, partition: TopicPartition, transactional_id: str | None = None
    ) -> None:
        """As on one node, for ids that this one coordinates; raises the refusal for any other."""
        if transactional_id is not None:
            self._shard_of(transactional_id).state.check()
        super().verify(identity, partition, transactional_id)

    async def ask_coordinator(self, request: AddRequest) -> None:
        """Ask the coordinator of an id about partitions, or let it add them.

        Raises:
            TransactionError: it refuses, or cannot be asked.
        """
        node_id = self.coordinator_of(request.transactional_id)
        if node_id != self._routes.node_id:
            try:
                await self._calls.add(node_id, request)
            except ClusterError as error:
                raise TransactionCoordinatorUnavailableError(str(error)) from error
            return
        transactional_id, identity, places, adds = request
        if adds:
            await self.add_partitions(transactional_id, identity, places)
            return
        for place in places:
            self.verify(identity, place, transactional_id)

    async def stage_offsets(
        self,
        transactional_id: str,
        identity: Identity,
        request: CommitRequest,
        *,
        adds: bool = False,
    ) -> PartitionOutcomes:
        """As on one node, of a group that this one coordinates; the other coordinator is asked."""
        number = self._groups.shard_number(request.group_id)
        place = TopicPartition(OFFSETS_TOPIC, number)
        fences = self._groups.coordinator(request.group_id).fences
        guard = fences.verify(identity.producer_id)
        try:
            await self.ask_coordinator(AddRequest(transactional_id, identity, (place,), adds))
        except GoQueueError:
            fences.not_verified(identity.producer_id, guard)
            raise
        return await self._groups.stage(identity.producer_id, request, guard)


def _is_whole(shard: TransactionShard) -> bool:
    """Whether a shard can be read: it is loaded, and this node leads it."""
    return shard.state.is_built and shard.state.is_led
