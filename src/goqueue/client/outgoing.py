"""One message on its way out: what it is made of, where it goes, how it looks on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import mmh3

from goqueue.client.accumulator import Identity
from goqueue.client.channels import MAX_MESSAGE_BYTES
from goqueue.model.errors import BatchTooLargeError, UnknownPartitionError
from goqueue.protocols.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.client.accumulator import Batch
    from goqueue.client.types import Content, Headers, Receipt

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


class Item(NamedTuple):
    """One message, and who waits for it."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None
    delivery: Delivery

    @classmethod
    def of(
        cls,
        delivery: Delivery,
        value: Content,
        key: Content,
        headers: Headers | None,
        timestamp_ms: int | None,
    ) -> Item:
        """A message as its publisher gave it."""
        return cls(to_bytes(value), to_bytes(key), to_headers(headers), timestamp_ms, delivery)

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
        number: int = mmh3.hash(key, signed=False)
        return number % self.partition_count


def to_bytes(content: Content) -> bytes | None:
    """Text as UTF-8."""
    return content.encode() if isinstance(content, str) else content


def to_headers(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    """Headers in their order, whichever way they were given."""
    if not headers:
        return ()
    pairs = headers if not hasattr(headers, "items") else headers.items()
    return tuple((name, to_bytes(value)) for name, value in pairs)


def to_request(number: int, batch: Batch[Item], acks: str) -> pb.PublishRequest:
    """A batch as the contract has it."""
    topic, partition = batch.place
    request = pb.PublishRequest(topic=topic, correlation_id=number, acks=_ACKS[acks])
    identity = batch.identity
    if identity is not None and identity is not NOBODY:
        request.producer.producer_id = identity.producer_id
        request.producer.epoch = identity.epoch
        request.producer.first_sequence = batch.first_sequence
    add = request.messages.add
    for value, key, headers, timestamp_ms, _ in batch.items:
        message = add(value=value, key=key, partition=partition, timestamp_ms=timestamp_ms)
        for name, content in headers:
            message.headers.add(name=name, value=content)
    return request
