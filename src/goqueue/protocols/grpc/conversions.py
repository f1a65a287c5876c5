"""Between the contract's messages and the broker's values."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from goqueue.model.delivery import PRIORITY_HEADER, Priority, delivery_of
from goqueue.model.errors import (
    BatchTooLargeError,
    DeliveryHeaderError,
    GoQueueError,
    PriorityError,
)
from goqueue.protocols.grpc.errors import InvalidRequestError, to_error
from goqueue.publishing.new_messages import MessageResult, NewMessage
from goqueue.publishing.requests import Acks
from goqueue.reading.positions import EARLIEST, LATEST, Anchor, Position
from goqueue.wire.grpc.limits import MAX_MESSAGE_BYTES
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.reading.stored_messages import StoredMessage
    from goqueue.records import Headers, Record

ACKS: Final = {pb.ACKS_ALL: Acks.ALL, pb.ACKS_LEADER: Acks.LEADER, pb.ACKS_NONE: Acks.NONE}

RESPONSE_BYTES: Final = 2 * 1024 * 1024
"""Of the messages in one response, unless a single one is larger; well under what gRPC takes."""

_PER_MESSAGE_BYTES: Final = 64
"""For the fields of a message that are neither key nor value nor headers."""


def acks_of(request: pb.PublishRequest) -> Acks:
    """What the publisher waits for."""
    acks = ACKS.get(request.acks)
    if acks is None:
        raise InvalidRequestError(f"acks: {request.acks} is none of {pb.Acks.keys()}")
    return acks


def new_messages(sent: Sequence[pb.NewMessage], now_ms: int) -> list[NewMessage]:
    """Messages of a request.

    A field that is there and empty is told from one that is missing, and asked for only where it
    can make a difference: this runs once a message.

    Raises:
        InvalidRequestError: a message says when it is due in two ways, or a number makes no sense.
    """
    messages = [
        NewMessage(
            each.value or (b"" if each.HasField("value") else None),
            each.key or (b"" if each.HasField("key") else None),
            _headers(each.headers) if each.headers else (),
            each.partition or (0 if each.HasField("partition") else None),
            each.timestamp_ms or (0 if each.HasField("timestamp_ms") else None),
        )
        for each in sent
    ]
    for at, each in enumerate(sent):
        if each.priority or each.delay_ms or each.deliver_at_ms or each.ttl_ms:
            messages[at] = _with_delivery(messages[at], each, now_ms)
    return messages


def new_row(columns: pb.NewColumns) -> list[NewMessage]:
    """The messages of columns."""
    partition = columns.partition
    if not columns.keys:
        return [NewMessage(value, None, (), partition) for value in columns.values]
    if len(columns.keys) != len(columns.values):
        raise InvalidRequestError(
            f"columns: {len(columns.keys)} keys for {len(columns.values)} values"
        )
    return [
        NewMessage(value, key, (), partition)
        for value, key in zip(columns.values, columns.keys, strict=True)
    ]


def _with_delivery(message: NewMessage, sent: pb.NewMessage, now_ms: int) -> NewMessage:
    """Add when a message is due, how urgent it is, and how long it lives."""
    if sent.delay_ms and sent.deliver_at_ms:
        raise InvalidRequestError("a message has delay_ms or deliver_at_ms, not both")
    for name in ("delay_ms", "deliver_at_ms", "ttl_ms"):
        if getattr(sent, name) < 0:
            raise InvalidRequestError(f"{name}: {getattr(sent, name)} is less than 0")
    due_ms = now_ms + sent.delay_ms if sent.delay_ms else sent.deliver_at_ms
    if not 0 <= sent.priority <= len(Priority):
        # As a header, of which the broker says what is wrong with it, to this message alone.
        header = (PRIORITY_HEADER, b"%d" % (sent.priority - 1))
        return message._replace(headers=(*message.headers, header))
    return message._replace(
        deliver_at_ms=due_ms or None,
        priority=Priority(sent.priority - 1) if sent.priority else None,
        ttl_ms=sent.ttl_ms or None,
    )


def _headers(headers: RepeatedCompositeFieldContainer[pb.Header]) -> Headers:
    return tuple(
        (header.name, header.value if header.HasField("value") else None) for header in headers
    )


def publish_row(correlation_id: int, results: Sequence[MessageResult]) -> pb.PublishResponse:
    """One result for all messages, where they are stored in a row."""
    if not results:
        return pb.PublishResponse(correlation_id=correlation_id)
    partition, first_offset, timestamp_ms = results[0][:3]
    if partition is None or first_offset is None or timestamp_ms is None:
        return publish_response(correlation_id, results)
    if any(
        offset != expected or at_ms != timestamp_ms
        for expected, (_, offset, at_ms, _, _, _) in enumerate(results, first_offset)
    ):
        return publish_response(correlation_id, results)
    stored = pb.StoredRow(partition=partition, first_offset=first_offset, timestamp_ms=timestamp_ms)
    return pb.PublishResponse(correlation_id=correlation_id, stored=stored)


def publish_response(correlation_id: int, results: Iterable[MessageResult]) -> pb.PublishResponse:
    """One result a message, in order."""
    response = pb.PublishResponse(correlation_id=correlation_id)
    add = response.results.add
    for partition, offset, timestamp_ms, error, delayed_id, deliver_at_ms in results:
        if error is not None:
            add(error=to_error(error))
        elif deliver_at_ms is None:
            add(partition=partition, offset=offset, timestamp_ms=timestamp_ms)
        else:
            add(
                partition=partition,
                timestamp_ms=timestamp_ms,
                delayed_id=delayed_id,
                deliver_at_ms=deliver_at_ms,
            )
    return response


def to_message(topic: str, partition: int, record: Record, trace_id: str = "") -> pb.Message:
    """A message on its way out."""
    message = pb.Message(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        trace_id=trace_id,
    )
    if record.headers:
        message.headers.extend(header_fields(record.headers))
        _add_delivery(message, record.headers)
    return message


def _add_delivery(message: pb.Message, headers: Headers) -> None:
    """Show what the headers say about the delivery, as far as it makes sense."""
    with suppress(PriorityError, DeliveryHeaderError):
        said = delivery_of(headers)
        if said is not None:
            message.priority = pb.Priority.ValueType(said.priority + 1)
            message.deliver_at_ms = said.deliver_at_ms or 0


def header_fields(headers: Headers) -> list[pb.Header]:
    """Headers as they travel."""
    return [pb.Header(name=_utf8(name), value=value) for name, value in headers]


def _utf8(name: str) -> str:
    """A header's name as gRPC can carry it: bytes that are no UTF-8 show as replacements."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def split(messages: Iterable[StoredMessage], limit: int) -> Iterator[list[StoredMessage]]:
    """The messages in portions of so many, and of what one response can hold.

    Raises:
        BatchTooLargeError: at a message that no response can hold, after those before it.
    """
    portion: list[StoredMessage] = []
    size_bytes = 0
    for stored in messages:
        message_bytes = record_bytes(stored.record)
        if message_bytes > MAX_MESSAGE_BYTES:
            if portion:
                yield portion
            raise BatchTooLargeError(
                f"the message at offset {stored.record.offset} of {stored.topic}-"
                f"{stored.partition} has {message_bytes} bytes, and gRPC carries "
                f"{MAX_MESSAGE_BYTES}: read it with a Kafka client, or go on behind it"
            )
        if portion and (len(portion) == limit or size_bytes + message_bytes > RESPONSE_BYTES):
            yield portion
            portion, size_bytes = [], 0
        portion.append(stored)
        size_bytes += message_bytes
    if portion:
        yield portion


def record_bytes(record: Record) -> int:
    """About what a message takes on the wire."""
    size = _PER_MESSAGE_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + _PER_MESSAGE_BYTES
    return size


def position_of(start: pb.StartAt.ValueType, offset: int, timestamp_ms: int) -> Position:
    """Where to begin."""
    match start:
        case pb.START_EARLIEST:
            return EARLIEST
        case pb.START_LATEST:
            return LATEST
        case pb.START_OFFSET:
            return Position(Anchor.OFFSET, offset)
        case pb.START_TIMESTAMP:
            return Position(Anchor.TIMESTAMP, timestamp_ms)
    raise InvalidRequestError(f"start: {start} is none of {pb.StartAt.keys()}")


def places(partitions: Iterable[TopicPartition]) -> list[pb.TopicPartition]:
    """Partitions in their order."""
    ordered = sorted(partitions, key=lambda each: (each.topic, each.partition))
    return [pb.TopicPartition(topic=each.topic, partition=each.partition) for each in ordered]


def outcome(partition: TopicPartition, error: GoQueueError | None) -> pb.PartitionOutcome:
    """What became of one partition of a request."""
    found = None if error is None else to_error(error)
    return pb.PartitionOutcome(topic=partition.topic, partition=partition.partition, error=found)


def bounded(name: str, value: int, default: int, lowest: int, highest: int) -> int:
    """A number of a request: the default for 0, an error outside of what is allowed."""
    if value == 0:
        return default
    if not lowest <= value <= highest:
        raise InvalidRequestError(f"{name}: {value} is not {lowest} to {highest}")
    return value
