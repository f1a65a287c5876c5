"""A message to be published, and the headers that it is stored with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.model.delivery import (
    DELIVER_AT_HEADER,
    DELIVERY_HEADERS,
    delivery_headers,
    delivery_of,
)
from goqueue.model.errors import MalformedHeadersError
from goqueue.model.limits import MAX_HEADERS_BYTES
from goqueue.publishing.delivery_headers import check_due

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.model.delivery import Priority
    from goqueue.records import Headers, Record
    from goqueue.topics.catalogue import Topic

_SMALL_HEADER: Final = 1024


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


_UNSAID: Final = NewMessage(None)[5:]
"""The end of a message that says nothing about its delivery."""
_BARE: Final = _UNSAID[1:]
"""The end of one that says nothing but when it is due."""


def speak_of_delivery(messages: Sequence[NewMessage]) -> bool:
    """Whether one of the messages says how it is to be delivered, in a field or in a header."""
    return any(
        message[5:] != _UNSAID
        or (message.headers and any(name in DELIVERY_HEADERS for name, _ in message.headers))
        for message in messages
    )


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


def check_headers(records: Iterable[Record]) -> None:
    """Refuse headers that are larger than a record may have; most have none, or one small one."""
    for number, record in enumerate(records):
        headers = record.headers
        if not headers:
            continue
        name, value = headers[0]
        if len(headers) == 1 and len(name) + len(value or b"") <= _SMALL_HEADER:
            continue
        size = sum(
            len(each.encode("utf-8", "surrogateescape")) + len(content or b"")
            for each, content in headers
        )
        if size > MAX_HEADERS_BYTES:
            raise MalformedHeadersError(
                f"record {number} has {size} bytes of headers, at most {MAX_HEADERS_BYTES}"
            )
