"""Queue groups: receipts, share sessions, redrives."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError
from goqueue.model.errors.groups import GroupError
from goqueue.model.errors.storage import StorageError


class ReceiptError(GoQueueError):
    """A receipt does not entitle to what was asked."""


class MalformedReceiptError(ReceiptError):
    """The text is no receipt."""


class UnknownReceiptError(ReceiptError):
    """No delivery has this receipt: it was used, never given, or expired before a restart."""

    is_done: int = 0
    """1: the message is acknowledged or dead-lettered. Otherwise it is not known to be, and whoever
    asks again because an answer was lost must not take the message for acknowledged."""


class ExpiredReceiptError(ReceiptError):
    """The delivery of this receipt is over: its time ran out, and somebody else may have it."""


class ForeignReceiptError(ReceiptError):
    """The receipt belongs to a delivery to somebody else."""


class RedriveError(GoQueueError):
    """Dead letters cannot be redriven as asked."""


class UnknownRedriveError(RedriveError):
    """There is no such redrive, or not any more."""


class TooManyRedrivesError(RedriveError):
    """As many redrives are under way as may be."""

    retriable = True


class ShareSessionError(GroupError):
    """A share consumer's session is not where its request says."""


class ShareSessionNotFoundError(ShareSessionError):
    """There is no such share session; open another one."""

    retriable = True


class InvalidShareSessionEpochError(ShareSessionError):
    """The request is not the next one of its share session."""

    retriable = True


class CorruptQueueStateError(StorageError):
    """A stored entry of a queue group does not decode."""
