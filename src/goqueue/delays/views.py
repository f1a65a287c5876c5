"""What is told of delayed messages to those who ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from goqueue.delays.due.wheel import WheelStats
from goqueue.delays.entries import DelayedState, Waiting, decode_waiting, make_id
from goqueue.model.delivery import Priority, delivery_of
from goqueue.model.errors import DelayError, DeliveryHeaderError, PriorityError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from goqueue.delays.book import DelayBook, Range
    from goqueue.delays.store import DelayStore
    from goqueue.records import Headers, Record
    from goqueue.topics.catalogue import Topic


class DelayedMessage(NamedTuple):
    """One delayed message."""

    delayed_id: int
    topic: str
    topic_id: UUID
    partition: int
    state: DelayedState
    deliver_at_ms: int
    published_at_ms: int
    priority: Priority
    key: bytes | None
    value: bytes | None
    headers: Headers
    """As the producer gave them."""


class DelayStats(msgspec.Struct, frozen=True, kw_only=True):
    """How many delayed messages there were and are."""

    scheduled: int
    delivered: int
    cancelled: int
    expired: int
    pending: int
    pending_by_topic: Mapping[str, int] = msgspec.field(default_factory=dict)
    wheel: WheelStats


def message_of(
    topic: Topic, delayed_id: int, record: Record, state: DelayedState
) -> DelayedMessage | None:
    """What is stored of a message; None when it belongs to another topic."""
    try:
        waiting = decode_waiting(record.headers)
    except DelayError:
        return None
    if waiting.topic_id != topic.topic_id.bytes:
        return None
    return _message(topic, delayed_id, record, waiting, state)


def _message(
    topic: Topic, delayed_id: int, record: Record, waiting: Waiting, state: DelayedState
) -> DelayedMessage:
    headers = record.headers[1:]
    try:
        delivery = delivery_of(headers)
    except (PriorityError, DeliveryHeaderError):
        delivery = None  # it was checked when it came; whoever looks is not to blame
    return DelayedMessage(
        delayed_id,
        topic.name,
        topic.topic_id,
        waiting.partition,
        state,
        waiting.due_ms,
        record.timestamp_ms,
        Priority.NORMAL if delivery is None else delivery.priority,
        record.key,
        record.value,
        headers,
    )


def ids_in(store: DelayStore, topic_id: bytes, place: Range) -> list[int]:
    """The messages of a topic at a place of the logs, whatever became of them. Reads too."""
    class_number, first, end, _ = place
    return [
        make_id(class_number, record.offset)
        for record, waiting in store.scan(class_number, first, end)
        if waiting.topic_id == topic_id
    ]


def found_in(
    store: DelayStore,
    book: DelayBook,
    topic: Topic,
    ranges: Iterable[Range],
    *,
    limit: int,
    skip: int,
) -> list[DelayedMessage]:
    """The messages of a topic that wait, from these places of the logs. Reads: in a thread."""
    messages: list[DelayedMessage] = []
    for class_number, first, end, waiting_count in ranges:
        if skip >= waiting_count:
            skip -= waiting_count
            continue
        for record, waiting in store.scan(class_number, first, end):
            if len(messages) >= limit:
                return messages
            delayed_id = make_id(class_number, record.offset)
            if waiting.topic_id != topic.topic_id.bytes or not book.is_pending(delayed_id):
                continue
            if skip:
                skip -= 1
                continue
            messages.append(_message(topic, delayed_id, record, waiting, DelayedState.PENDING))
    return messages
