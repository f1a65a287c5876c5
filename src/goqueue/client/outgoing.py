"""One message on its way out: what it is made of, where it goes, how it looks on the wire."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from goqueue.client.accumulator import Batch, Identity
from goqueue.model.delivery import Priority
from goqueue.model.errors import BatchTooLargeError, UnknownPartitionError
from goqueue.model.partitioning import key_hash
from goqueue.wire.grpc.limits import MAX_MESSAGE_BYTES
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.client.types import Content, Headers, Receipt, Time

NOBODY: Final = Identity(-1, -1)
"""Of a producer that does not want to be recognised."""

_MARGIN_BYTES: Final = 4096
_PER_MESSAGE_BYTES: Final = 32
_ACKS: Final = {"all": pb.ACKS_ALL, "leader": pb.ACKS_LEADER, "none": pb.ACKS_NONE}


class Delivery(Protocol):
    """What is told of a message's fate: a future of asyncio, or one for threads."""

    def done(self) -> bool:
        """Whether it was told."""

    def set_result(self, result: Receipt, /) -> None:
        """It is stored there."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It failed."""

    def exception(self) -> BaseException | None:
        """Why it failed."""


class Handling(NamedTuple):
    """How a message wants to be delivered, as the fields that say so."""

    delay_ms: int
    deliver_at_ms: int
    priority: pb.Priority.ValueType
    ttl_ms: int

    @classmethod
    def of(
        cls,
        delay: Time | None,
        deliver_at: datetime | None,
        priority: Priority | str | None,
        ttl: Time | None,
    ) -> Handling | None:
        """What the publisher said; None when that is nothing.

        Raises:
            ValueError: it contradicts itself, or a time makes no sense.
            PriorityError: there is no such priority.
        """
        if delay is None and deliver_at is None and priority is None and ttl is None:
            return None
        if delay is not None and deliver_at is not None:
            raise ValueError("a message has a delay or a time of delivery, not both")
        ttl_ms = to_ms(ttl)
        if ttl_ms == 0:
            raise ValueError("ttl: a message lives for a millisecond or more")
        if isinstance(priority, str):
            priority = Priority.parse(priority)
        return cls(
            to_ms(delay) or 0,
            max(round(deliver_at.timestamp() * 1000), 1) if deliver_at is not None else 0,
            pb.PRIORITY_UNSPECIFIED if priority is None else pb.Priority.ValueType(priority + 1),
            ttl_ms or 0,
        )


class Item(NamedTuple):
    """One message, and who waits for it."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None
    delivery: Delivery
    handling: Handling | None = None

    @classmethod
    def of(
        cls,
        delivery: Delivery,
        value: Content,
        key: Content,
        headers: Headers | None,
        timestamp_ms: int | None,
        *,
        handling: Handling | None = None,
    ) -> Item:
        """A message as its publisher gave it."""
        return cls(
            to_bytes(value), to_bytes(key), to_headers(headers), timestamp_ms, delivery, handling
        )

    def size_bytes(self) -> int:
        """About what it takes on the wire.

        Raises:
            BatchTooLargeError: more than gRPC carries.
        """
        size = _PER_MESSAGE_BYTES + len(self.value or b"") + len(self.key or b"")
        for name, value in self.headers:
            size += len(name) + len(value or b"") + _PER_MESSAGE_BYTES
        if size > MAX_MESSAGE_BYTES - _MARGIN_BYTES:
            raise BatchTooLargeError(
                f"a message of {size} bytes; gRPC carries {MAX_MESSAGE_BYTES - _MARGIN_BYTES}"
            )
        return size


class KnownTopic(NamedTuple):
    """What is remembered of a topic, for a while."""

    name: str
    partition_count: int
    until_s: float
    turns: Iterator[int]

    def partition(self, key: bytes | None, named: int | None) -> int:
        """The same choice as the broker's: the one named, the key's, or the next in turn."""
        if named is not None:
            if not 0 <= named < self.partition_count:
                raise UnknownPartitionError(
                    f"topic {self.name!r} has partitions 0 to {self.partition_count - 1}, not "
                    f"{named}"
                )
            return named
        if key is None:
            return next(self.turns) % self.partition_count
        return key_hash(key) % self.partition_count


def to_ms(time: Time | None) -> int | None:
    """A length of time in the milliseconds that the contract speaks."""
    if time is None:
        return None
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if seconds < 0:
        raise ValueError(f"{seconds} s is less than 0")
    return round(seconds * 1000)


def to_bytes(content: Content) -> bytes | None:
    """Text as UTF-8."""
    return content.encode() if isinstance(content, str) else content


def to_headers(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    """Headers in their order, whichever way they were given."""
    if not headers:
        return ()
    pairs = headers if not hasattr(headers, "items") else headers.items()
    return tuple((name, to_bytes(value)) for name, value in pairs)


def _fill_columns(columns: pb.NewColumns, partition: int, items: list[Item]) -> bool:
    """Write messages in columns; False when there is more to say of one than columns hold."""
    values: list[bytes] = []
    keys: list[bytes] = []
    for value, key, headers, timestamp_ms, _, handling in items:
        if value is None or headers or timestamp_ms is not None or handling is not None:
            return False
        values.append(value)
        if key is not None:
            keys.append(key)
    if keys and len(keys) != len(values):
        return False
    columns.partition = partition
    columns.values.extend(values)
    columns.keys.extend(keys)
    return True


def to_request(number: int, batch: Batch[Item], acks: str) -> pb.PublishRequest:
    """A batch as the contract has it."""
    topic, partition = batch.place
    request = pb.PublishRequest(topic=topic, correlation_id=number, acks=_ACKS[acks])
    identity = batch.identity
    if identity is not None and identity is not NOBODY:
        request.producer.producer_id = identity.producer_id
        request.producer.epoch = identity.epoch
        request.producer.first_sequence = batch.first_sequence
    if _fill_columns(request.columns, partition, batch.items):
        return request
    request.ClearField("columns")
    add = request.messages.add
    for value, key, headers, timestamp_ms, _, handling in batch.items:
        message = add(value=value, key=key, partition=partition, timestamp_ms=timestamp_ms)
        for name, content in headers:
            message.headers.add(name=name, value=content)
        if handling is not None:
            message.delay_ms, message.deliver_at_ms, message.priority, message.ttl_ms = handling
    return request
