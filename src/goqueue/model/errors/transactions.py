"""Idempotent producers and transactions."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError
from goqueue.model.errors.cluster import ClusterError
from goqueue.model.errors.storage import StorageError


class ProducerError(GoQueueError):
    """An idempotent producer's batch cannot be taken."""


class OutOfOrderSequenceError(ProducerError):
    """A batch does not follow the last one of its producer."""


class FencedProducerError(ProducerError):
    """A newer instance of the producer has taken over."""


class TransactionError(ProducerError):
    """A transaction cannot do what was asked of it."""


class InvalidTransactionRequestError(TransactionError):
    """A request to a transaction contradicts itself or lacks a field."""


class InvalidTransactionTimeoutError(TransactionError):
    """A transaction is to be left open for longer than the settings allow, or for no time."""


class InvalidTransactionStateError(TransactionError):
    """The transaction is not open, not for this partition, or decided already."""


class TransactionOpenError(InvalidTransactionStateError):
    """The producer has a transaction open already; it can have one at a time."""


class ConcurrentTransactionsError(TransactionError):
    """The producer's last transaction is still being ended; ask again in a moment."""

    retriable = True


class FencedTransactionError(TransactionError, FencedProducerError):
    """A newer instance with the same transactional id has taken over, or the broker has."""


class UnknownProducerError(TransactionError):
    """The transactional id has no such producer id: it expired, or was never initialised."""


class UnknownTransactionalIdError(TransactionError):
    """There is no such transactional id."""


class TooManyTransactionalIdsError(TransactionError):
    """The coordinator holds as many transactional ids as the settings allow."""


class TransactionCoordinatorUnavailableError(TransactionError):
    """The transaction's state could not be stored, or is still being read; try again."""

    retriable = True


class NotTransactionCoordinatorError(ClusterError, TransactionCoordinatorUnavailableError):
    """Another node coordinates the transactional id: find the coordinator and ask it."""

    retriable = True


class TransactionCoordinatorLoadingError(ClusterError, TransactionCoordinatorUnavailableError):
    """This node coordinates the transactional id and is still loading its state."""

    retriable = True


class FencedCoordinatorError(TransactionError):
    """A marker comes from a coordinator whose successor has ended a transaction there already."""


class CorruptTransactionStateError(StorageError):
    """A stored entry of a transaction does not decode."""
