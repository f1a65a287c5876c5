"""The transaction coordinator: every event of every transactional id comes in, effects come out.

No event awaits, reads a clock or touches a disk. Each checks, changes the state of one id, and says
in `Effects` what must be stored before anyone is told, and which decided transactions are to be
carried out. `now_ms` is the shell's: milliseconds since the Unix epoch that never go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import (
    ConcurrentTransactionsError,
    FencedTransactionError,
    InvalidTransactionRequestError,
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    TransactionOpenError,
    UnknownProducerError,
)
from goqueue.model.limits import MAX_ID_CHARS
from goqueue.partitions.markers import Marker
from goqueue.transactions.messages import Effects, Ending, EndRequest, Identity, InitRequest
from goqueue.transactions.registry import TransactionRegistry
from goqueue.transactions.states import TransactionState
from goqueue.transactions.transaction import NO_EPOCH, NO_PRODUCER, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.transactions.settings import TransactionSettings

_DECISIONS = {
    Marker.COMMIT: (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
    Marker.ABORT: (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
}


class TransactionCoordinator(TransactionRegistry):
    """Producers and their transactions; `TransactionRegistry` keeps, lists and loads them."""

    def __init__(
        self,
        settings: TransactionSettings,
        by_producer: dict[int, Transaction],
        new_transaction_id: Callable[[int], str],
    ) -> None:
        super().__init__(settings, by_producer)
        self._new_transaction_id = new_transaction_id

    # --- Producers -------------------------------------------------------------------------------

    def init_producer(
        self, request: InitRequest, fresh_id: int, now_ms: int, out: Effects
    ) -> Identity | None:
        """Give a transactional id to a producer, and fence whoever had it.

        None when its open transaction has to be aborted first, which the effects do: ask again
        when they are done. `fresh_id` is used for a new id, and when the epochs of the old one
        are used up.

        Raises:
            TransactionError: the request makes no sense, its sender is fenced, or the last
                transaction of the id is still being ended.
        """
        self._check_init(request)
        transaction = self.by_id.get(request.transactional_id)
        if transaction is None:
            self.check_room()
            transaction = Transaction(
                request.transactional_id, fresh_id, 0, request.timeout_ms, updated_ms=now_ms
            )
        else:
            expected = request.expected
            if expected not in {None, transaction.current, transaction.previous}:
                raise self._fenced(transaction, expected)
            if transaction.state.is_prepared:
                raise self._still_ending(transaction)
            if transaction.state is TransactionState.ONGOING:
                self._fence_and_abort(transaction, now_ms, out)
                return None
            self._renew(transaction, expected, fresh_id)
        transaction.move_to(TransactionState.EMPTY, now_ms)
        transaction.timeout_ms = request.timeout_ms
        transaction.session_timeout_ms = request.session_timeout_ms
        transaction.heard_ms = now_ms
        transaction.started_ms = -1
        self.install(transaction)
        out.persist.append(transaction.stored())
        return transaction.current

    def _check_init(self, request: InitRequest) -> None:
        if not request.transactional_id:
            raise InvalidTransactionRequestError("the transactional id is empty")
        if len(request.transactional_id) > MAX_ID_CHARS:
            raise InvalidTransactionRequestError(
                f"the transactional id has {len(request.transactional_id)} characters; "
                f"{MAX_ID_CHARS} are allowed"
            )
        longest = self.settings.max_timeout_ms
        if not 0 < request.timeout_ms <= longest:
            raise InvalidTransactionTimeoutError(
                f"a transaction timeout of {request.timeout_ms} ms; 1 to {longest} ms are allowed "
                "(transaction.max.timeout.ms)"
            )

    def _renew(self, transaction: Transaction, expected: Identity | None, fresh_id: int) -> None:
        """Give the next epoch, or a fresh producer id when there are no more epochs."""
        if expected is not None and expected == transaction.previous:
            return  # the answer to an earlier request got lost: nothing is to be given again
        transaction.last_epoch = NO_EPOCH if expected is None else transaction.epoch
        if transaction.is_exhausted:
            self._change_producer(transaction, fresh_id)
        else:
            transaction.epoch += 1

    def _change_producer(self, transaction: Transaction, producer_id: int) -> None:
        """Go on under a producer id that has all its epochs before it."""
        self.uninstall(transaction)
        transaction.last_producer_id = transaction.producer_id
        transaction.producer_id, transaction.epoch = producer_id, 0
        transaction.next_producer_id = NO_PRODUCER

    def heartbeat(self, transactional_id: str, identity: Identity, now_ms: int) -> None:
        """The producer is alive. Raises `TransactionError` when it is not the id's producer."""
        self._owned(transactional_id, identity).heard_ms = now_ms

    # --- One transaction -------------------------------------------------------------------------

    def begin(self, transactional_id: str, identity: Identity, now_ms: int, out: Effects) -> str:
        """Open a transaction for a protocol that says so; returns its id.

        Raises:
            TransactionOpenError: there is one open already.
            TransactionError: the producer is fenced or unknown, or its last one is being ended.
        """
        transaction = self._ready(transactional_id, identity, now_ms)
        if transaction.state is TransactionState.ONGOING:
            raise TransactionOpenError(
                f"{transactional_id!r} has the transaction {transaction.transaction_id} open: "
                "commit or abort it first"
            )
        self._start(transaction, now_ms, out)
        out.persist.append(transaction.stored())
        return transaction.transaction_id

    def add_partitions(
        self,
        transactional_id: str,
        identity: Identity,
        partitions: Iterable[TopicPartition],
        now_ms: int,
        out: Effects,
    ) -> None:
        """Note, before anything is written there, that partitions belong to the transaction.

        The first ones open it. Raises `TransactionError` like `begin`.
        """
        transaction = self._ready(transactional_id, identity, now_ms)
        wanted = set(partitions)
        if transaction.state is TransactionState.ONGOING:
            if wanted <= transaction.partitions:
                return
        else:
            self._start(transaction, now_ms, out)
        transaction.partitions |= wanted
        transaction.updated_ms = now_ms
        out.persist.append(transaction.stored())

    def _start(self, transaction: Transaction, now_ms: int, out: Effects) -> None:
        transaction.move_to(TransactionState.ONGOING, now_ms)
        transaction.started_ms = now_ms
        transaction.last_epoch = NO_EPOCH  # the producer has got its epoch, and uses it
        transaction.partitions = set()
        transaction.transaction_id = self._new_transaction_id(now_ms)
        self.install(transaction)
        out.started += 1

    def end(
        self,
        transactional_id: str,
        identity: Identity,
        marker: Marker,
        now_ms: int,
        out: Effects,
    ) -> None:
        """Decide a transaction. One that ended in the same way already is left as it is.

        Raises:
            InvalidTransactionStateError: there is none open, or it was decided otherwise.
            TransactionError: the producer is fenced or unknown, or it is being ended already.
        """
        transaction = self._owned(transactional_id, identity)
        transaction.heard_ms = now_ms
        prepared, complete = _DECISIONS[marker]
        if transaction.state is TransactionState.ONGOING:
            self._decide(transaction, marker, now_ms, out)
        elif transaction.state is prepared:
            raise self._still_ending(transaction)
        elif transaction.state is not complete:
            raise self._nothing_to(marker, transaction)

    def end_and_renew(
        self, request: EndRequest, fresh_id: int, now_ms: int, out: Effects
    ) -> Identity:
        """Decide a transaction, and give its producer the next epoch; returns who it is then.

        The markers carry the new epoch, so whatever of the transaction is still on its way comes
        too late everywhere (KIP-890). Asked again as who the producer was, the answer is the same.
        A producer whose first record was refused may abort what was never begun. `fresh_id` is
        used when the epochs of the producer are used up.

        Raises: like `end`.
        """
        transactional_id, identity, marker = request
        transaction = self.by_id.get(transactional_id)
        prepared, complete = _DECISIONS[marker]
        if transaction is not None and self._is_repeated(transaction, identity):
            if transaction.state is prepared:
                raise self._still_ending(transaction)
            if transaction.state is complete:
                return transaction.current
            raise self._nothing_to(marker, transaction)
        transaction = self._ready(transactional_id, identity, now_ms)
        if transaction.state is not TransactionState.ONGOING and marker is Marker.COMMIT:
            raise self._nothing_to(marker, transaction)
        if transaction.is_exhausted:
            transaction.next_producer_id = fresh_id
        transaction.last_epoch = transaction.epoch
        transaction.epoch += 1
        self._decide(transaction, marker, now_ms, out)
        return transaction.upcoming

    @staticmethod
    def _is_repeated(transaction: Transaction, identity: Identity) -> bool:
        """Whether somebody asks again for an end that has given the producer its epoch."""
        return identity == transaction.previous and transaction.state not in {
            TransactionState.EMPTY,
            TransactionState.ONGOING,
        }

    def _decide(self, transaction: Transaction, marker: Marker, now_ms: int, out: Effects) -> None:
        """The line that decides: once it is stored, nothing else can come of the transaction."""
        transaction.move_to(_DECISIONS[marker][0], now_ms)
        self.install(transaction)
        out.persist.append(transaction.stored())
        out.endings.append(_ending_of(transaction))

    def _fence_and_abort(self, transaction: Transaction, now_ms: int, out: Effects) -> None:
        """Abort for somebody else than the producer, which must not go on as if nothing was."""
        transaction.epoch += 1
        transaction.last_epoch = NO_EPOCH
        self._decide(transaction, Marker.ABORT, now_ms, out)

    def completed(self, ending: Ending, now_ms: int, out: Effects) -> None:
        """Every partition of a decided transaction has its marker."""
        transaction = self.by_id.get(ending.transactional_id)
        if (
            transaction is None
            or not transaction.state.is_prepared
            or _ending_of(transaction) != ending
        ):
            return  # it was completed by somebody else
        transaction.move_to(_DECISIONS[ending.marker][1], now_ms)
        if transaction.started_ms >= 0:  # one that was never begun is nobody's duration
            out.durations_ms.append((ending.marker, max(now_ms - transaction.started_ms, 0)))
        transaction.partitions = set()
        transaction.started_ms = -1
        if transaction.next_producer_id != NO_PRODUCER:
            self._change_producer(transaction, transaction.next_producer_id)
        self.install(transaction)
        out.persist.append(transaction.stored())

    # --- Whoever is not the producer -------------------------------------------------------------

    def abort(self, transactional_id: str, now_ms: int, out: Effects) -> None:
        """Abort an open transaction for an administrator; its producer is fenced.

        Raises:
            UnknownTransactionalIdError: there is no such id.
            InvalidTransactionStateError: it has no open transaction.
            ConcurrentTransactionsError: it is being ended already.
        """
        transaction = self.known(transactional_id)
        if transaction.state.is_prepared:
            raise self._still_ending(transaction)
        if transaction.state is not TransactionState.ONGOING:
            raise self._nothing_to(Marker.ABORT, transaction)
        self._fence_and_abort(transaction, now_ms, out)

    def tick(self, now_ms: int, out: Effects) -> None:
        """Abort what has been open for too long, or whose producer is silent; forget old ids."""
        for transaction in self.open():
            deadline_ms = transaction.deadline_ms()
            if deadline_ms is not None and deadline_ms <= now_ms:
                self._fence_and_abort(transaction, now_ms, out)
        self.expire_ids(now_ms, out)

    def remove(self, is_chosen: Callable[[str], bool], now_ms: int, out: Effects) -> None:
        """Abort what is open of these ids, and forget those of which nothing is."""
        for transaction in self.open():
            if is_chosen(transaction.transactional_id) and not transaction.state.is_prepared:
                self._fence_and_abort(transaction, now_ms, out)
        self.forget_ids(is_chosen, now_ms, out)

    def unfinished(self) -> list[Ending]:
        """What a start finds decided and not carried out everywhere."""
        return [_ending_of(each) for each in self.open() if each.state.is_prepared]

    # --- Who may do what -------------------------------------------------------------------------

    def _owned(self, transactional_id: str, identity: Identity) -> Transaction:
        """The transaction, if the identity is that of its newest producer."""
        if not transactional_id:
            raise InvalidTransactionRequestError("the transactional id is empty")
        transaction = self.by_id.get(transactional_id)
        if transaction is not None and identity == transaction.upcoming != transaction.current:
            raise self._still_ending(transaction)
        if transaction is None or transaction.producer_id != identity.producer_id:
            raise UnknownProducerError(
                f"producer {identity.producer_id} is not the one of {transactional_id!r}: "
                "initialise the producer again"
            )
        if transaction.epoch != identity.epoch:
            raise self._fenced(transaction, identity)
        return transaction

    def _ready(self, transactional_id: str, identity: Identity, now_ms: int) -> Transaction:
        """The transaction, if its producer may add to it or begin the next one."""
        transaction = self._owned(transactional_id, identity)
        if transaction.state.is_prepared:
            raise self._still_ending(transaction)
        transaction.heard_ms = now_ms
        return transaction

    @staticmethod
    def _fenced(transaction: Transaction, identity: Identity | None) -> FencedTransactionError:
        return FencedTransactionError(
            f"the producer of {transaction.transactional_id!r} is {transaction.current}, not "
            f"{identity}: another instance has taken over, or its transaction took too long"
        )

    @staticmethod
    def _nothing_to(marker: Marker, transaction: Transaction) -> InvalidTransactionStateError:
        return InvalidTransactionStateError(
            f"the transaction of {transaction.transactional_id!r} is {transaction.state}: there is "
            f"nothing to {marker.name.lower()}"
        )

    @staticmethod
    def _still_ending(transaction: Transaction) -> ConcurrentTransactionsError:
        return ConcurrentTransactionsError(
            f"the last transaction of {transaction.transactional_id!r} is still being ended"
        )


def _ending_of(transaction: Transaction) -> Ending:
    """What is to be done for a decided transaction."""
    commits = transaction.state is TransactionState.PREPARE_COMMIT
    return Ending(
        transaction.transactional_id,
        transaction.current,
        Marker.COMMIT if commits else Marker.ABORT,
        frozenset(transaction.partitions),
    )
