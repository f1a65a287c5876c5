"""Between the contract's messages and the broker's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.broker.messages import NewMessage
from goqueue.broker.positions import EARLIEST, LATEST, Anchor, Position
from goqueue.broker.publish import Acks
from goqueue.model.errors import BatchTooLargeError
from goqueue.protocols.grpc.errors import InvalidRequestError, to_error
from goqueue.protocols.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    from goqueue.broker.messages import MessageResult, StoredMessage
    from goqueue.broker.partition import PartitionId
    from goqueue.model.errors import GoQueueError
    from goqueue.records import Headers

ACKS: Final = {pb.ACKS_ALL: Acks.ALL, pb.ACKS_LEADER: Acks.LEADER, pb.ACKS_NONE: Acks.NONE}

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Of one gRPC message, either way. A larger one fails its call with RESOURCE_EXHAUSTED."""

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


def new_messages(request: pb.PublishRequest) -> list[NewMessage]:
    """The messages of a request.

    A field that is there and empty is told from one that is missing, and asked for only where it
    can make a difference: this runs once a message.
    """
    return [
        NewMessage(
            each.value or (b"" if each.HasField("value") else None),
            each.key or (b"" if each.HasField("key") else None),
            _headers(each.headers) if each.headers else (),
            each.partition or (0 if each.HasField("partition") else None),
            each.timestamp_ms or (0 if each.HasField("timestamp_ms") else None),
        )
        for each in request.messages
    ]


def _headers(headers: RepeatedCompositeFieldContainer[pb.Header]) -> Headers:
    return tuple(
        (header.name, header.value if header.HasField("value") else None) for header in headers
    )


def publish_response(correlation_id: int, results: Iterable[MessageResult]) -> pb.PublishResponse:
    """One result a message, in order."""
    response = pb.PublishResponse(correlation_id=correlation_id)
    add = response.results.add
    for partition, offset, timestamp_ms, error in results:
        if error is None:
            add(partition=partition, offset=offset, timestamp_ms=timestamp_ms)
        else:
            add(error=to_error(error))
    return response


def to_message(stored: StoredMessage) -> pb.Message:
    """A message on its way out."""
    topic, partition, record = stored
    message = pb.Message(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
    )
    for name, value in record.headers:
        message.headers.add(name=_utf8(name), value=value)
    return message


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
        message_bytes = _size_bytes(stored)
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


def _size_bytes(stored: StoredMessage) -> int:
    record = stored.record
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


def outcome(partition: PartitionId, error: GoQueueError | None) -> pb.PartitionOutcome:
    """What became of one partition of a request."""
    told = None if error is None else to_error(error)
    return pb.PartitionOutcome(topic=partition.topic, partition=partition.number, error=told)


def bounded(name: str, value: int, default: int, lowest: int, highest: int) -> int:
    """A number of a request: the default for 0, an error outside of what is allowed."""
    if value == 0:
        return default
    if not lowest <= value <= highest:
        raise InvalidRequestError(f"{name}: {value} is not {lowest} to {highest}")
    return value
