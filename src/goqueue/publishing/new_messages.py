"""A message to be published, and the headers that it is stored with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.model.delivery import DELIVER_AT_HEADER, delivery_headers, delivery_of
from goqueue.publishing.delivery_headers import check_due

if TYPE_CHECKING:
    from goqueue.model.delivery import Priority
    from goqueue.records import Headers
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
