"""All transactional ids of one coordinator: finding, listing, loading, dumping, forgetting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import (
    FencedProducerError,
    InvalidTransactionStateError,
    InvariantError,
    TooManyTransactionalIdsError,
    UnknownProducerError,
    UnknownTransactionalIdError,
)
from goqueue.transactions.encoding import (
    StateRecord,
    decode,
    decode_series,
    is_series,
    remove,
    remove_series,
)
from goqueue.transactions.messages import Effects, TransactionFilter, TransactionView
from goqueue.transactions.series import Series, is_member, series_of
from goqueue.transactions.states import TransactionState
from goqueue.transactions.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.transactions.settings import TransactionSettings

EVERYTHING = TransactionFilter()


def unknown_producer(producer_id: int) -> UnknownProducerError:
    """What is said of a producer without a transactional id, also to whom its id is hidden."""
    return UnknownProducerError(
        f"producer {producer_id} has no transactional id: initialise the producer again"
    )


class TransactionRegistry:
    """Transactions by transactional id, and by producer id across all coordinators."""

    def __init__(self, settings: TransactionSettings, by_producer: dict[int, Transaction]) -> None:
        self.settings = settings
        self.by_id: dict[str, Transaction] = {}
        self._by_producer = by_producer
        self._open: dict[str, Transaction] = {}
        """Those that wait for an end: few, so that time passing costs little."""
        self.series: dict[str, Series] = {}
        self._members: dict[str, set[str]] = {}
        """The transactional ids of each series."""
        self._sweep_at_ms = 0

    def __len__(self) -> int:
        return len(self.by_id)

    # --- Finding ---------------------------------------------------------------------------------

    def known(self, transactional_id: str) -> Transaction:
        """The transaction of an id, or `UnknownTransactionalIdError`."""
        transaction = self.by_id.get(transactional_id)
        if transaction is None:
            raise UnknownTransactionalIdError(f"there is no transactional id {transactional_id!r}")
        return transaction

    def open(self) -> list[Transaction]:
        """The transactions that wait for an end."""
        return list(self._open.values())

    def members_of(self, series: str) -> list[Transaction]:
        """The transactions of a series, whatever their state."""
        return [self.by_id[name] for name in sorted(self._members.get(series, ()))]

    def check_room(self) -> None:
        """Raise `TooManyTransactionalIdsError` where a further id is one too many."""
        if max(len(self.by_id), len(self.series)) >= self.settings.max_ids:
            raise TooManyTransactionalIdsError(
                f"there are {len(self.by_id)} transactional ids and {len(self.series)} series, as "
                "many as the settings allow: use fewer, or wait until old ones expire"
            )

    def install(self, transaction: Transaction) -> None:
        """After every change of state: keep the transaction under everything it is found by."""
        name = transaction.transactional_id
        self.by_id[name] = transaction
        if is_member(name):
            self._members.setdefault(series_of(name), set()).add(name)
        self._by_producer[transaction.producer_id] = transaction
        if transaction.state.is_open:
            self._open[transaction.transactional_id] = transaction
        else:
            self._open.pop(transaction.transactional_id, None)

    def uninstall(self, transaction: Transaction) -> None:
        """Forget a transaction, or a producer id that it is about to lose."""
        name = transaction.transactional_id
        self.by_id.pop(name, None)
        if is_member(name):
            members = self._members.get(series_of(name), set())
            members.discard(name)
            if not members:
                self._members.pop(series_of(name), None)
        self._by_producer.pop(transaction.producer_id, None)
        self._open.pop(transaction.transactional_id, None)

    def share(self, by_producer: dict[int, Transaction]) -> None:
        """Let others find these transactions in a map that several coordinators share."""
        by_producer.update(self._by_producer)
        self._by_producer = by_producer

    def clear(self) -> None:
        """Forget everything, also what others find by producer id."""
        for transaction in list(self.by_id.values()):
            self.uninstall(transaction)
        self.series.clear()

    # --- Listing ---------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionView:
        """One id, or `UnknownTransactionalIdError`."""
        return view(self.known(transactional_id))

    def list(self, wanted: TransactionFilter, now_ms: int) -> list[TransactionView]:
        """The ids that a filter lets through."""
        return [
            view(each)
            for each in self.by_id.values()
            if (not wanted.states or each.state in wanted.states)
            and (not wanted.producer_ids or each.producer_id in wanted.producer_ids)
            and (wanted.min_duration_ms < 0 or _open_for_ms(each, now_ms) > wanted.min_duration_ms)
            and wanted.matches(each.transactional_id)
        ]

    # --- Time ------------------------------------------------------------------------------------

    def expire_ids(self, now_ms: int, out: Effects) -> None:
        """Forget the ids that nobody has used for long; all are looked at once in a while."""
        if now_ms < self._sweep_at_ms:
            return
        self._sweep_at_ms = now_ms + self.settings.id_check_interval_ms
        for transaction in list(self.by_id.values()):
            kept_ms = self._kept_ms(transaction.transactional_id)
            if transaction.state.is_open or now_ms - transaction.updated_ms < kept_ms:
                continue
            self._forget(transaction, now_ms, out)
        for series in list(self.series.values()):
            if now_ms - series.updated_ms >= series.keep_ms:
                self._forget_series(series, out)

    def forget_ids(self, is_chosen: Callable[[str], bool], now_ms: int, out: Effects) -> None:
        """Forget these ids and series; what is open stays."""
        for transaction in list(self.by_id.values()):
            if is_chosen(transaction.transactional_id) and not transaction.state.is_open:
                self._forget(transaction, now_ms, out)
        for series in list(self.series.values()):
            if is_chosen(series.name):
                self._forget_series(series, out)

    def _forget(self, transaction: Transaction, now_ms: int, out: Effects) -> None:
        transaction.move_to(TransactionState.DEAD, now_ms)
        self.uninstall(transaction)
        out.persist.append(remove(transaction.transactional_id))

    def _forget_series(self, series: Series, out: Effects) -> None:
        del self.series[series.name]
        out.persist.append(remove_series(series.name))

    def _kept_ms(self, transactional_id: str) -> int:
        settings = self.settings
        return (
            settings.member_expiration_ms
            if is_member(transactional_id)
            else settings.id_expiration_ms
        )

    # --- Loading and dumping ---------------------------------------------------------------------

    def load(self, entries: Iterable[StateRecord]) -> None:
        """Replay entries in the order of the log; `resume` follows the last one.

        Raises:
            StorageError: an entry cannot be read; its message names the id.
        """
        for entry in entries:
            if is_series(entry):
                self._load_series(entry)
                continue
            transactional_id, value = decode(entry)
            known = self.by_id.get(transactional_id)
            if known is not None:
                self.uninstall(known)
            if value is not None:
                self.install(Transaction.load(transactional_id, value))

    def _load_series(self, entry: StateRecord) -> None:
        name, value = decode_series(entry)
        if value is None:
            self.series.pop(name, None)
        else:
            self.series[name] = Series(name, value.last_number, value.updated_ms, value.keep_ms)

    def resume(self, now_ms: int) -> None:
        """Loading is over: everyone's session begins anew."""
        for transaction in self.by_id.values():
            transaction.heard_ms = now_ms

    def dump(self) -> Iterator[StateRecord]:
        """Everything that the log holds after compaction: a snapshot, to be loaded like a log."""
        yield from (each.stored() for each in list(self.by_id.values()))
        yield from (each.stored() for each in list(self.series.values()))

    def check_invariants(self) -> None:
        """Raise `InvariantError` where an id is not found by what it should be found by."""
        for transactional_id, transaction in self.by_id.items():
            if self._by_producer.get(transaction.producer_id) is not transaction:
                raise InvariantError(f"{transactional_id!r} is not found by its producer id")
            if transaction.state.is_open != (transactional_id in self._open):
                raise InvariantError(f"{transactional_id!r} is open and not listed, or listed")
            if transaction.partitions and not transaction.state.is_open:
                raise InvariantError(f"{transactional_id!r} is done and has partitions left")
        members = {name for names in self._members.values() for name in names}
        if members != set(filter(is_member, self.by_id)):
            raise InvariantError("a transaction of a series is not found by it")


def verify(
    by_producer: dict[int, Transaction],
    producer_id: int,
    epoch: int,
    partition: TopicPartition,
    now_ms: int,
) -> None:
    """Let a producer's transaction write to a partition, or raise.

    Raises:
        UnknownProducerError: nobody was given this producer id for transactions.
        FencedProducerError: a newer instance has taken over.
        InvalidTransactionStateError: no transaction is open, or not for this partition.
    """
    transaction = by_producer.get(producer_id)
    if transaction is None:
        raise unknown_producer(producer_id)
    if transaction.epoch != epoch:
        raise FencedProducerError(
            f"producer {producer_id} writes with epoch {epoch}, and epoch {transaction.epoch} has "
            "taken over"
        )
    if transaction.state is not TransactionState.ONGOING or (
        partition not in transaction.partitions
    ):
        raise InvalidTransactionStateError(
            f"producer {producer_id} has no open transaction in {partition[0]}-{partition[1]}: "
            "add the partition first"
        )
    transaction.heard_ms = now_ms


def view(transaction: Transaction) -> TransactionView:
    """A transaction as others see it."""
    return TransactionView(
        transaction.transactional_id,
        transaction.transaction_id,
        transaction.producer_id,
        transaction.epoch,
        transaction.state.value,
        transaction.timeout_ms,
        transaction.started_ms,
        transaction.updated_ms,
        tuple(sorted(transaction.partitions)),
    )


def _open_for_ms(transaction: Transaction, now_ms: int) -> int:
    return now_ms - transaction.started_ms if transaction.started_ms >= 0 else -1
