"""What a client hands out and takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Message

__all__ = [
    "Content",
    "Group",
    "GroupOffset",
    "Headers",
    "Member",
    "Message",
    "Moment",
    "OffsetChange",
    "Partition",
    "Place",
    "Receipt",
    "SendStats",
    "Start",
    "Time",
    "Topic",
    "TopicPartition",
    "TransactionInfo",
]

Content: TypeAlias = bytes | str | None
"""Of a key or a value; text is sent as UTF-8, None as nothing (a value of None is a tombstone)."""

Headers: TypeAlias = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
Start: TypeAlias = Literal["earliest", "latest"] | int | datetime
"""An end of a partition, an offset, or a moment."""


Moment: TypeAlias = datetime | int
"""A point in time; a number is of milliseconds since the epoch."""

Time: TypeAlias = float | timedelta
"""A length of time; a number is of seconds."""


class Receipt(NamedTuple):
    """Where a message was stored."""

    topic: str
    partition: int
    offset: int
    """-1 while it waits until it is due."""
    timestamp_ms: int
    delayed_id: int | None = None
    """Of a message that waits: by it the message can be looked at, and cancelled."""
    deliver_at_ms: int | None = None


Place = TopicPartition
"""The name that `TopicPartition` had at first."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as it is now."""

    number: int
    log_start: int
    log_end: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as it is now."""

    name: str
    topic_id: str
    is_internal: bool
    settings: Mapping[str, str]
    """Those that were said for this topic; for others the broker's defaults count."""
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group."""

    member_id: str
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How far a group has read one partition; the offset is None where it has committed none."""

    topic: str
    partition: int
    offset: int | None
    log_end: int
    lag: int


@dataclass(frozen=True, slots=True)
class Group:
    """One group; a list of groups leaves members and offsets out."""

    name: str
    protocol: str
    state: str
    generation: int
    member_count: int
    members: tuple[Member, ...]
    offsets: tuple[GroupOffset, ...]


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """Where a group goes on reading one partition, before and after a reset."""

    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """One transactional id, and where its transaction stands."""

    transactional_id: str
    transaction_id: str
    state: str
    """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort."""
    producer_id: int
    epoch: int
    timeout_ms: int
    started_at_ms: int | None
    updated_at_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class SendStats:
    """What became of the messages that were published."""

    published: int = 0
    acknowledged: int = 0
    failed: int = 0
    batches: int = 0
    bytes: int = 0
    last_error: Exception | None = None

    @property
    def average_batch(self) -> float:
        """Messages in a batch."""
        return self.acknowledged / self.batches if self.batches else 0.0
