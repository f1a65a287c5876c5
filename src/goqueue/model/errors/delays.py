"""Delayed messages."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError
from goqueue.model.errors.storage import StorageError


class DelayError(GoQueueError):
    """A message cannot be delayed as asked, or there is no such delayed message."""


class DelayTooLongError(DelayError):
    """A message is to be delivered later than the settings allow."""


class DelayDisabledError(DelayError):
    """The topic does not take delayed messages."""


class DelaysUnavailableError(DelayError):
    """Delayed messages are being loaded, or their state could not be stored; try again."""

    retriable = True


class TooManyDelayedError(DelayError):
    """The topic has as many delayed messages waiting as the settings allow."""

    retriable = True


class UnknownDelayedError(DelayError):
    """There is no delayed message of that id in that topic."""


class DelayedNotPendingError(DelayError):
    """The delayed message was delivered or cancelled already."""


class CorruptDelayStateError(StorageError):
    """A stored change of delayed messages does not decode."""
