"""A stored message as JSON shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec

from goqueue.model.delivery import Priority, delivery_of
from goqueue.model.errors import DeliveryHeaderError, PriorityError
from goqueue.model.limits import MAX_PUBLISHED_MESSAGES
from goqueue.protocols.http.api.codecs import Duration, Encoding, Time, to_text
from goqueue.protocols.http.api.shapes import LANES, Milliseconds, Offset, PartitionNumber, doc
from goqueue.protocols.http.limits import MAX_READ_MESSAGES

if TYPE_CHECKING:
    from goqueue.queues.acquired_batch import Delivery
    from goqueue.reading.stored_messages import StoredMessage
    from goqueue.records import Headers

_NORMAL: Final = Priority.NORMAL.label

Limit: TypeAlias = Annotated[
    int, doc("The most messages to return.", 100, ge=1, le=MAX_READ_MESSAGES)
]
OutEncoding: TypeAlias = Annotated[
    Literal["auto", "base64"],
    doc("`auto` writes what is UTF-8 as text and the rest as base64.", "auto"),
]


class HeaderOut(msgspec.Struct, omit_defaults=True):
    """A header of a message."""

    name: str
    value: str | None
    encoding: Annotated[Encoding, doc("`base64` where `value` is not UTF-8.", "text")] = "text"


Decode: TypeAlias = Annotated[
    Literal["auto", "none"],
    doc("`auto` adds `decoded` to each message whose value names a registered schema.", "none"),
]


class DecodedOut(msgspec.Struct):
    """A value decoded with its schema."""

    schema_id: int
    subject: str | None
    version: int | None
    format: Annotated[str, doc("AVRO, JSON or PROTOBUF.", "AVRO")]
    json: Annotated[str, doc("The value as JSON.", '{"id": 1}')]


class MessageOut(msgspec.Struct):
    """A message."""

    topic: str
    partition: PartitionNumber
    offset: Offset
    timestamp: Milliseconds
    key: Annotated[str | None, doc("Null if there is none.", "customer-7")]
    value: Annotated[str | None, doc("Null for a tombstone.", '{"id": 1}')]
    headers: list[HeaderOut]
    encoding: Annotated[Encoding, doc("Encoding of `value`.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("Encoding of `key`.", "text")] = "text"
    priority: Annotated[str, doc("The priority lane.", "normal")] = "normal"
    decoded: DecodedOut | msgspec.UnsetType | None = msgspec.UNSET
    decode_error: Annotated[
        str | msgspec.UnsetType | None, doc("Why the value could not be decoded.")
    ] = msgspec.UNSET


class PolledMessage(MessageOut):
    """A message delivered to a member of a group.

    In a queue group it has a receipt, and a visibility timeout.
    """

    delivery_count: Annotated[int | None, doc("The delivery count.", 1)] = None
    receipt_handle: Annotated[
        str | None,
        doc("The handle for acknowledgements.", "orders:0:42:1:00c0ffee00c0ffee"),
    ] = None
    visible_until: Annotated[Milliseconds | None, doc("End of the visibility timeout.")] = None


class PurgedPartition(msgspec.Struct):
    """The new log start offset of a partition."""

    partition: int
    earliest_offset: int
    removed: Annotated[int, doc("Deleted offsets.", 40)]


class PurgedTopic(msgspec.Struct):
    """What was deleted."""

    topic: str
    removed: int
    partitions: list[PurgedPartition]


class ReadAnswer(msgspec.Struct):
    """Messages in order, and the next offset."""

    messages: list[MessageOut]
    next_offset: Annotated[int, doc("The offset of the next request.", 43)]
    high_watermark: Annotated[int, doc("High watermark.", 120)]
    earliest_offset: Annotated[int, doc("Log start offset.", 0)]


class RangeAnswer(msgspec.Struct):
    """Messages of all partitions, merged by time."""

    messages: list[MessageOut]
    next: Annotated[str | None, doc("The `cursor` of the next request; null at the end.")]


def message_out(message: StoredMessage, *, force_base64: bool = False) -> MessageOut:
    """A stored message, its bytes as text where they are text."""
    return MessageOut(**_fields(message, force_base64=force_base64))


def polled_message(message: StoredMessage, *, force_base64: bool = False) -> PolledMessage:
    """A message that a log group was handed."""
    return PolledMessage(**_fields(message, force_base64=force_base64))


def delivered_message(delivery: Delivery, *, force_base64: bool = False) -> PolledMessage:
    """A message that a queue group was handed."""
    fields = _fields(delivery, force_base64=force_base64)
    fields["priority"] = LANES[delivery.priority]
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


class HeaderIn(msgspec.Struct, forbid_unknown_fields=True):
    """A header of a message to be published."""

    name: Annotated[str, doc("A name may occur several times.", "source")]
    value: Annotated[str | None, doc("Null for a header without a value.", "web")]
    encoding: Annotated[Encoding, doc("Encoding of `value`.", "text")] = "text"


class MessageIn(msgspec.Struct, forbid_unknown_fields=True):
    """A message to be published."""

    value: Annotated[str | None, doc("Null for a tombstone.", '{"id": 1}')]
    key: Annotated[
        str | None, doc("Messages with the same key go to one partition, in order.", "customer-7")
    ] = None
    headers: Annotated[
        dict[str, str] | list[HeaderIn], doc("An object of texts, or a list.", {"source": "web"})
    ] = []
    partition: Annotated[int | None, doc("By key hash, or round-robin, if omitted.")] = None
    timestamp: Annotated[Time | None, doc("The current time if omitted.")] = None
    encoding: Annotated[Encoding, doc("Encoding of `value`.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("Encoding of `key`.", "text")] = "text"
    delay: Annotated[Duration | None, doc("The message is delivered after this delay.", "15m")] = (
        None
    )
    deliver_at: Annotated[
        Time | None, doc("The same as a point in time; a past one means now.")
    ] = None
    deliver_at_camel: Annotated[Time | None, doc("Another name for `deliver_at`.")] = msgspec.field(
        name="deliverAt", default=None
    )
    priority: Annotated[
        str | int | None,
        doc("critical, high, normal, low or background, or 0 to 4.", "high"),
    ] = None
    ttl: Annotated[
        Duration | None, doc("TTL: queue groups do not deliver the message after it.", "1h")
    ] = None


class PublishBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages for one topic."""

    messages: Annotated[
        list[MessageIn], msgspec.Meta(min_length=1, max_length=MAX_PUBLISHED_MESSAGES)
    ]
    acks: Annotated[
        Literal["all", "leader", "none"],
        doc("Which replicas must store a message before the response.", "all"),
    ] = "all"


class PublishResult(msgspec.Struct, omit_defaults=True):
    """The result of one message: its offset, or an error."""

    status: Annotated[
        int, doc("200, or the status that a request with this message alone would have.", 200)
    ]
    partition: Annotated[int | None, doc("Where it is.", 0)] = None
    offset: Annotated[int | None, doc("The offset.", 42)] = None
    timestamp: Annotated[int | None, doc("The timestamp, in ms.", 1767225600000)] = None
    priority: Annotated[str | None, doc("The priority lane.", "normal")] = None
    delayed: Annotated[bool | None, doc("Whether the message is delayed.")] = None
    deliver_at: Annotated[int | None, doc("When a delayed message is due, in ms.")] = msgspec.field(
        name="deliverAt", default=None
    )
    id: Annotated[
        int | None,
        doc("Delayed messages: their id, which is also in `offset`; they have no log offset yet."),
    ] = None
    code: Annotated[str | None, doc("The error code, if it was refused.")] = None
    error: Annotated[str | None, doc("The error message, if it was refused.")] = None
    field: Annotated[str | None, doc("The invalid field.")] = None
    retriable: Annotated[bool | None, doc("Whether a retry may succeed.")] = None


class PublishAnswer(msgspec.Struct):
    """One result per message, in the order of the request."""

    results: list[PublishResult]
