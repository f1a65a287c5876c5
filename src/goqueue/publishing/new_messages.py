"""Messages to be published: the headers that they are stored with, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.delivery import DELIVER_AT_HEADER, Priority, delivery_headers, delivery_of
from goqueue.model.errors import GoQueueError, InvalidTimestampError, SchemaValidationError
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.delivery_headers import Later, check_due

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.records import Headers, Record
    from goqueue.topics.catalogue import Topic


class NewMessage(NamedTuple):
    """A message to be published. Without a partition, its key chooses one, or its turn does."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    deliver_at_ms: int | None = None
    """When it is due; a moment that has passed means now."""
    priority: Priority | None = None
    ttl_ms: int | None = None
    """For how long after its time stamp it is worth delivering to queue groups."""


UNSAID: Final = NewMessage(None)[5:]
"""The end of a message that says nothing about its delivery."""
_BARE: Final = UNSAID[1:]
"""The end of one that says nothing but when it is due."""


def headers_of(topic: Topic, message: NewMessage, now_ms: int) -> tuple[Headers, bool, int]:
    """The headers that a message is stored with, whether they speak of its delivery, and its time.

    What its fields say stands in headers too, and counts more than a header of that name.

    Raises:
        PriorityError, DeliveryHeaderError, DelayError: it cannot be delivered so.
    """
    due_ms = message.deliver_at_ms
    if due_ms is not None and due_ms > now_ms and not message.headers and message[6:] == _BARE:
        check_due(topic.settings, due_ms, now_ms)  # as most have that wait
        return ((DELIVER_AT_HEADER, b"%d" % due_ms),), True, due_ms
    said = delivery_headers(message.priority, message.deliver_at_ms, message.ttl_ms)
    if not message.headers:  # so there is nothing to understand
        if message.deliver_at_ms is not None:
            check_due(topic.settings, message.deliver_at_ms, now_ms)
        return said, bool(said), message.deliver_at_ms or 0
    names = {name for name, _ in said}
    headers = (*(header for header in message.headers if header[0] not in names), *said)
    delivery = delivery_of(headers)
    if delivery is None:
        return headers, False, 0
    if delivery.deliver_at_ms is not None:
        check_due(topic.settings, delivery.deliver_at_ms, now_ms)
    return headers, True, delivery.deliver_at_ms or 0


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
