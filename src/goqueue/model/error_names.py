"""Errors that another node has told by the name of their class: the same class here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model import errors
from goqueue.model.errors import ClusterError, GoQueueError

if TYPE_CHECKING:
    from collections.abc import Mapping


def named_error(
    name: str | None, text: str | None, refused: Mapping[int, str] | None = None
) -> GoQueueError:
    """An error as the class that it had on the node that told it, with the same text.

    `refused` are the records that it is about. A class that is not known here, as a later version
    may have, becomes a `ClusterError`. What a class carries beside its text is not there.
    """
    kind = getattr(errors, name or "", None)
    if not isinstance(kind, type) or not issubclass(kind, GoQueueError):
        kind = ClusterError
    made = kind.__new__(kind)  # some ask for more than a sentence
    Exception.__init__(made, text or name or "another node refuses, and does not say why")
    return made.of_records(refused) if refused else made
