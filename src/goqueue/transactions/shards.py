"""The shards of transactional ids: which partition holds an id, and what can be read of it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model import internal_topics
from goqueue.model.errors import TransactionCoordinatorUnavailableError, UnknownProducerError
from goqueue.state.coordinators import Family
from goqueue.transactions.atomic_commit import SeriesCoordinator
from goqueue.transactions.registry import EVERYTHING, unknown_producer
from goqueue.transactions.series import series_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from goqueue.topics.catalogue import Topics
    from goqueue.transactions.cluster.finding import ProducersFound
    from goqueue.transactions.messages import TransactionFilter, TransactionView
    from goqueue.transactions.settings import TransactionSettings
    from goqueue.transactions.shard import TransactionShard
    from goqueue.transactions.transaction import Transaction

_R = TypeVar("_R")

TRANSACTIONS_TOPIC: Final = internal_topics.TRANSACTION_STATE


class TransactionShards:
    """One shard for each partition of the transactions' topic that this node leads."""

    def __init__(
        self,
        topics: Topics,
        settings: TransactionSettings,
        partition_count: int,
        new_shard: Callable[[int], TransactionShard],
    ) -> None:
        self._topics = topics
        self.settings = settings
        self._family = Family(TRANSACTIONS_TOPIC, partition_count, new_shard)
        self._by_producer: dict[int, Transaction] = {}
        """Of all shards that are loaded here."""

    def _new_coordinator(self) -> SeriesCoordinator:
        return SeriesCoordinator(self.settings, {}, _new_transaction_id)

    def _shard_of(self, transactional_id: str) -> TransactionShard:
        """The shard of an id. Raises like `_decide`, if there are no ids or another node has it."""
        shard = self._family.find(series_of(transactional_id))
        if shard is not None:
            return shard
        if TRANSACTIONS_TOPIC not in self._topics.catalogue.by_name:
            raise UnknownProducerError(f"no producer has been initialised for {transactional_id!r}")
        raise TransactionCoordinatorUnavailableError("this node does not coordinate it; try again")

    def transactional_id_of(self, producer_id: int) -> str:
        """Which id a producer was initialised for.

        Raises:
            UnknownProducerError: none.
        """
        transaction = self._by_producer.get(producer_id)
        if transaction is None:
            raise unknown_producer(producer_id)
        return transaction.transactional_id

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
        return [
            line
            for shard in self._family.opened()
            for line in shard.coordinator.list(wanted, shard.now_ms())
        ]

    async def listed(self, wanted: TransactionFilter = EVERYTHING) -> Sequence[TransactionView]:
        """The same, once it is committed."""
        return self.list(wanted)

    def coordinator_of(self, transactional_id: str) -> int:
        """The node that coordinates an id, in a cluster."""
        raise NotImplementedError(transactional_id)

    def find_here(self, producer_ids: Iterable[int]) -> ProducersFound:
        """What this node of a cluster knows of producers."""
        raise NotImplementedError(producer_ids)

    async def told(self, read: Callable[[], _R]) -> _R:
        """What `read` finds, once it is committed. On one node everything that is there is."""
        return read()

    async def find_id(self, producer_id: int) -> str:
        """Like `transactional_id_of`; in a cluster of any producer, whoever coordinates it."""
        return self.transactional_id_of(producer_id)

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


def _new_transaction_id(now_ms: int) -> str:
    return f"txn-{now_ms}-{secrets.token_hex(8)}"
