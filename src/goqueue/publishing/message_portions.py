"""The messages of a request for one partition, and what becomes of those that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.model.errors import InvalidTimestampError, SchemaValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.model.errors import GoQueueError
    from goqueue.publishing.delivery_headers import Later
    from goqueue.records import Record

BY_RECORD: Final = (SchemaValidationError, InvalidTimestampError)
"""Refusals that name the messages that they are about: the others of a batch are stored."""


class MessageResult(NamedTuple):
    """What became of one message: its place, or the error that says why it has none."""

    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    error: GoQueueError | None = None
    delayed_id: int | None = None
    """Set for a message that waits until it is due: it has no offset yet, and can be cancelled."""
    deliver_at_ms: int | None = None


NOWHERE: Final = MessageResult()


class Portion(NamedTuple):
    """The messages of one partition."""

    indexes: Sequence[int]
    """Their places in the request."""
    records: list[Record]
    """What is stored of them."""
    delivery: bool = False
    """Records say how they are to be delivered."""
    later: list[Later] | None = None
    """Which of them are due later; None when that is not known."""


def smaller(results: list[MessageResult], portion: Portion, error: GoQueueError) -> list[Portion]:
    """What is left to be tried of a portion; what is refused for good has its result after this."""
    if isinstance(error, BY_RECORD) and error.refused:
        return _fitting(results, portion, error)
    if len(portion.records) == 1:
        fail(results, portion.indexes, error)
        return []
    return _halves(portion)


def _fitting(results: list[MessageResult], portion: Portion, error: GoQueueError) -> list[Portion]:
    """The messages that are not refused; the others are told why they are."""
    for at, reason in error.refused.items():
        misfit = type(error)(reason).of_records({0: reason})
        results[portion.indexes[at]] = MessageResult(error=misfit)
    kept = [at for at in range(len(portion.records)) if at not in error.refused]
    records = [portion.records[at]._replace(offset=number) for number, at in enumerate(kept)]
    indexes = [portion.indexes[at] for at in kept]
    smaller = portion._replace(indexes=indexes, records=records, later=None)
    return [smaller] if kept else []


def _halves(portion: Portion) -> list[Portion]:
    """Two batches in place of one, each counting its records from 0."""
    indexes, records, delivery, _ = portion
    middle = len(records) // 2
    second = [record._replace(offset=at) for at, record in enumerate(records[middle:])]
    return [
        Portion(indexes[:middle], records[:middle], delivery),
        Portion(indexes[middle:], second, delivery),
    ]


def fail(results: list[MessageResult], indexes: Iterable[int], error: GoQueueError) -> None:
    """All of these messages are refused."""
    for index in indexes:
        results[index] = MessageResult(error=error)
