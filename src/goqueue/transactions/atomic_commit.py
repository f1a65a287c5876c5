"""Deciding many transactions at once, and never twice: the batches of a series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import InvalidTransactionRequestError, InvalidTransactionStateError
from goqueue.model.limits import MAX_SERIES_PARTITIONS, MAX_SERIES_TRANSACTIONS
from goqueue.partitions.markers import Marker
from goqueue.transactions.coordinator import TransactionCoordinator
from goqueue.transactions.encoding import remove
from goqueue.transactions.series import (
    SEPARATOR,
    Member,
    Series,
    TogetherRequest,
    is_member,
    series_of,
)
from goqueue.transactions.states import TransactionState

if TYPE_CHECKING:
    from goqueue.transactions.messages import Effects
    from goqueue.transactions.transaction import Transaction


class SeriesCoordinator(TransactionCoordinator):
    """A coordinator whose transactions may also be ended by the batch.

    One batch is decided by one event, and the entries of one event are stored all or none. So
    there is no moment at which some of its transactions are decided and others are not, whatever
    is killed: those that are decided are carried out by the next start, like any other.
    """

    def commit_together(self, request: TogetherRequest, now_ms: int, out: Effects) -> bool:
        """Commit the transactions of a batch, and abort whatever else the series has open.

        The caller knows the winners: what is open beside them are attempts that were given up,
        and would hold back readers until their timeout. False when this batch or a later one was
        committed before: then only the transactions that are named are aborted, since they say
        again what is there already.

        Raises:
            InvalidTransactionRequestError: the request contradicts itself.
            InvalidTransactionStateError: a member has no open transaction.
            TransactionError: a member is fenced, as one is whose transaction took too long.
        """
        self._check_request(request)
        series = self.series.get(request.series)
        if series is not None and request.number <= series.last_number:
            self._give_up_named(request.members, now_ms, out)
            return False
        winners = [self._winner(member) for member in request.members]
        if sum(len(each.partitions) for each in winners) > MAX_SERIES_PARTITIONS:
            raise InvalidTransactionRequestError(
                f"the transactions of one batch touch more than {MAX_SERIES_PARTITIONS} partitions"
            )
        if series is None:
            self.check_room()
            series = Series(request.series, -1, now_ms, request.keep_ms)
        self._advance(series.advanced(request, now_ms), out)
        for winner in winners:
            self._decide(winner, Marker.COMMIT, now_ms, out)
        self._give_up_others(request.series, now_ms, out)
        return True

    def abort_together(self, request: TogetherRequest, now_ms: int, out: Effects) -> None:
        """Abort whatever a series has open, unless a later batch is under way.

        Raises:
            InvalidTransactionRequestError: the request contradicts itself.
        """
        self._check_request(request)
        self._give_up_named(request.members, now_ms, out)
        series = self.series.get(request.series)
        if series is None or request.number > series.last_number:
            self._give_up_others(request.series, now_ms, out)

    def _check_request(self, request: TogetherRequest) -> None:
        if not request.series or is_member(request.series):
            raise InvalidTransactionRequestError(
                f"{request.series!r} cannot name a series: it is empty, or has a {SEPARATOR!r}"
            )
        if request.number < 0:
            raise InvalidTransactionRequestError(f"batch {request.number}: they count from 0")
        if not 0 < request.keep_ms <= self.settings.max_series_keep_ms:
            raise InvalidTransactionRequestError(
                f"a series cannot be kept for {request.keep_ms} ms; 1 to "
                f"{self.settings.max_series_keep_ms} ms are allowed"
            )
        names = [member.transactional_id for member in request.members]
        if len(names) > MAX_SERIES_TRANSACTIONS:
            raise InvalidTransactionRequestError(
                f"{len(names)} transactions in one batch; {MAX_SERIES_TRANSACTIONS} are allowed"
            )
        if len(set(names)) < len(names):
            raise InvalidTransactionRequestError("a transaction is named twice")
        for name in names:
            if not is_member(name) or series_of(name) != request.series:
                raise InvalidTransactionRequestError(
                    f"{name!r} is no transaction of the series {request.series!r}: its name has "
                    f"to start with {request.series + SEPARATOR!r}"
                )

    def _winner(self, member: Member) -> Transaction:
        transaction = self._owned(*member)
        if transaction.state is not TransactionState.ONGOING:
            raise InvalidTransactionStateError(
                f"the transaction of {member.transactional_id!r} is {transaction.state}: there is "
                "nothing to commit"
            )
        return transaction

    def _advance(self, series: Series, out: Effects) -> None:
        self.series[series.name] = series
        out.persist.append(series.stored())

    def _give_up_named(self, members: tuple[Member, ...], now_ms: int, out: Effects) -> None:
        for name, identity in members:
            transaction = self.by_id.get(name)
            if (
                transaction is not None
                and transaction.current == identity
                and transaction.state is TransactionState.ONGOING
            ):
                self._fence_and_abort(transaction, now_ms, out)

    def _give_up_others(self, series: str, now_ms: int, out: Effects) -> None:
        """Abort what is open, and forget what is over: nobody goes on under those ids."""
        for transaction in self.members_of(series):
            if transaction.state is TransactionState.ONGOING:
                self._fence_and_abort(transaction, now_ms, out)
            elif not transaction.state.is_open:
                transaction.move_to(TransactionState.DEAD, now_ms)
                self.uninstall(transaction)
                out.persist.append(remove(transaction.transactional_id))
