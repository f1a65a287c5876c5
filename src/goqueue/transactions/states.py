"""The states of a transaction, and which may follow which."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TransactionState(StrEnum):
    """Where a transactional id stands; the names are Kafka's."""

    EMPTY = "Empty"
    """It has a producer, and nothing was ever begun, or a new producer has taken over."""
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    """Decided. From here on nothing but the commit can come of it, whatever fails."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    """Every partition has its marker, and staged offsets count."""
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """Its id has expired; it is removed in the same breath."""

    @property
    def is_prepared(self) -> bool:
        """Decided, and not yet carried out everywhere."""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def is_open(self) -> bool:
        """Somebody is waiting for its end: records of it may be undecided."""
        return self is TransactionState.ONGOING or self.is_prepared


_S = TransactionState

MOVES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.DEAD: frozenset(),
}
"""Legal moves. A decision is never taken back, and nothing ends without one. What was never begun
can be aborted: a producer whose first record was refused gives up and takes the next epoch."""
