"""A stored message as JSON shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from goqueue.model.delivery import Priority, delivery_of
from goqueue.model.errors import DeliveryHeaderError, PriorityError
from goqueue.protocols.http.codecs import Encoding, to_text
from goqueue.protocols.http.shapes import Milliseconds, Offset, PartitionNumber, doc

if TYPE_CHECKING:
    from goqueue.broker.portions import Delivery
    from goqueue.reading.stored_messages import StoredMessage
    from goqueue.records import Headers

_LABELS: Final = [priority.label for priority in Priority]
_NORMAL: Final = Priority.NORMAL.label


class HeaderOut(msgspec.Struct, omit_defaults=True):
    """A header of a message."""

    name: str
    value: str | None
    encoding: Annotated[Encoding, doc("`base64` where `value` is not UTF-8.", "text")] = "text"


class MessageOut(msgspec.Struct):
    """A message that was read."""

    topic: str
    partition: PartitionNumber
    offset: Offset
    timestamp: Milliseconds
    key: Annotated[str | None, doc("Null if it has none.", "customer-7")]
    value: Annotated[str | None, doc("Null is a tombstone.", '{"id": 1}')]
    headers: list[HeaderOut]
    encoding: Annotated[Encoding, doc("How `value` is written.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("How `key` is written.", "text")] = "text"
    priority: Annotated[str, doc("The lane that it waits in.", "normal")] = "normal"


class PolledMessage(MessageOut):
    """A message that a member of a group was handed.

    In a log group nothing more is said of it; in a queue group it is the member's for a while.
    """

    delivery_count: Annotated[int | None, doc("How often it was handed out.", 1)] = None
    receipt_handle: Annotated[
        str | None,
        doc("What to acknowledge it with.", "orders:0:42:1:00c0ffee00c0ffee"),
    ] = None
    visible_until: Annotated[
        Milliseconds | None, doc("From then on somebody else may be handed it.")
    ] = None


def message_out(message: StoredMessage, *, force_base64: bool = False) -> MessageOut:
    """A stored message, its bytes as text where they are text."""
    return MessageOut(**_fields(message, force_base64=force_base64))


def polled_message(message: StoredMessage, *, force_base64: bool = False) -> PolledMessage:
    """A message that a log group was handed."""
    return PolledMessage(**_fields(message, force_base64=force_base64))


def delivered_message(delivery: Delivery, *, force_base64: bool = False) -> PolledMessage:
    """A message that a queue group was handed."""
    fields = _fields(delivery, force_base64=force_base64)
    fields["priority"] = _LABELS[delivery.priority]
    return PolledMessage(
        **fields,
        delivery_count=delivery.delivery_count,
        receipt_handle=str(delivery.receipt),
        visible_until=delivery.deadline_ms,
    )


def _fields(message: StoredMessage | Delivery, *, force_base64: bool) -> dict[str, Any]:
    record = message.record
    key, key_encoding = text_of(record.key, force_base64=force_base64)
    value, encoding = text_of(record.value, force_base64=force_base64)
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": key,
        "value": value,
        "headers": headers_out(record.headers, force_base64=force_base64),
        "encoding": encoding,
        "key_encoding": key_encoding,
        "priority": priority_label(record.headers) if record.headers else _NORMAL,
    }


def headers_out(headers: Headers, *, force_base64: bool = False) -> list[HeaderOut]:
    """The headers of a record as JSON shows them."""
    return [
        HeaderOut(_name(name), *text_of(data, force_base64=force_base64)) for name, data in headers
    ]


def priority_label(headers: Headers) -> str:
    """The priority that a record's headers name; normal where they name none that there is."""
    try:
        delivery = delivery_of(headers)
    except (PriorityError, DeliveryHeaderError):
        return _NORMAL
    return _NORMAL if delivery is None else delivery.priority.label


def text_of(data: bytes | None, *, force_base64: bool = False) -> tuple[str | None, Encoding]:
    """Bytes as text where they are text, and how they are written."""
    return (None, "text") if data is None else to_text(data, force_base64=force_base64)


def _name(name: str) -> str:
    """A header's name, with what is not UTF-8 in it shown as such."""
    if name.isascii():
        return name
    return name.encode(errors="surrogateescape").decode(errors="replace")
