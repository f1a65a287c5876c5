"""Requests to the transaction coordinator and what comes of them, as plain values."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.markers import Marker
from goqueue.transactions.encoding import StateRecord


class Identity(NamedTuple):
    """What a producer is known by: its id, and which of its instances it is."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id} of epoch {self.epoch}"


class InitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A producer wants to use a transactional id; whoever used it before is fenced."""

    transactional_id: str
    timeout_ms: int
    expected: Identity | None = None
    """What the producer believes to be, when it goes on after an error rather than starts."""
    session_timeout_ms: int | None = None
    """It promises to be heard of at least so often."""


class EndRequest(NamedTuple):
    """A producer ends its transaction."""

    transactional_id: str
    identity: Identity
    marker: Marker


class Ending(NamedTuple):
    """A decided transaction that must be carried out: a marker for each partition."""

    transactional_id: str
    identity: Identity
    """Whose epoch the markers carry; newer than the producer's when it is fenced by them."""
    marker: Marker
    partitions: frozenset[TopicPartition]


class Effects(msgspec.Struct):
    """Everything that one event causes, in the order in which it must be done.

    `persist` first; then whoever asked may be told, and the endings carried out. When an append
    fails, the core knows more than the log does: it is loaded again from the log.
    """

    persist: list[StateRecord] = msgspec.field(default_factory=list)
    endings: list[Ending] = msgspec.field(default_factory=list)
    started: int = 0
    """Transactions that began."""
    durations_ms: list[tuple[Marker, int]] = msgspec.field(default_factory=list)
    """How transactions ended whose last step this was, and how long each was open."""


class TransactionView(msgspec.Struct, frozen=True):
    """One transactional id as others see it."""

    transactional_id: str
    transaction_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    """-1 when no transaction is open."""
    updated_ms: int
    partitions: tuple[TopicPartition, ...]


class TransactionFilter(msgspec.Struct, frozen=True):
    """Which transactional ids a listing is about; what is not given does not matter."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    min_duration_ms: int = -1
    matches: Callable[[str], bool] = lambda _: True
