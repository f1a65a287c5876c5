"""Errors that a node tells another by name, so that they are here what they were there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model import errors
from goqueue.model.errors import GoQueueError, LeaderUnavailableError, NotLeaderError

if TYPE_CHECKING:
    from goqueue.wire.kafka.reading import Struct


def check_told(answer: Struct) -> None:
    """Raise what an answer with the fields `error_name` and `error_message` tells, if anything.

    That the node asked does not lead a partition is an answer about a moment: whoever asked looks
    again who does.
    """
    if not answer.error_code:
        return
    kind = getattr(errors, answer.error_name, None)
    if not isinstance(kind, type) or not issubclass(kind, GoQueueError):
        kind = GoQueueError
    if issubclass(kind, NotLeaderError):
        kind = LeaderUnavailableError
    error = kind.__new__(kind)
    Exception.__init__(error, answer.error_message)
    raise error
