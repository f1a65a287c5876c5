"""One transactional id: its producer, and how far its transaction is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import InvariantError
from goqueue.model.topic_partition import TopicPartition, numbers_by_topic
from goqueue.transactions.encoding import Places, StateRecord, TransactionValue, put
from goqueue.transactions.messages import Identity
from goqueue.transactions.states import MOVES, TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterable


NO_EPOCH: Final = -1
NO_PRODUCER: Final = -1
LAST_EPOCH: Final = (1 << 15) - 1
"""Of the 16 bits that an epoch has on the wire. The last one is kept for fencing: a producer is
given a new id before it would get it."""


class Transaction(msgspec.Struct):
    """The state of one transactional id. Whoever changes it stores it before telling anyone."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    last_producer_id: int = NO_PRODUCER
    last_epoch: int = NO_EPOCH
    """What the producer had before it was given its epoch by a re-initialisation or at the end of
    a transaction, so that a repeated request can be told from a zombie's; none after another
    instance has taken over, or once the producer has begun something in its new epoch."""
    state: TransactionState = TransactionState.EMPTY
    partitions: set[TopicPartition] = msgspec.field(default_factory=set)
    """Where the open transaction may have written; offsets of groups count as their topic's."""
    started_ms: int = -1
    updated_ms: int = -1
    transaction_id: str = ""
    """Of the open transaction, or of the last one: for people, and for protocols that name it."""
    session_timeout_ms: int | None = None
    """Set for producers that have promised to be heard of."""
    next_producer_id: int = NO_PRODUCER
    """Of a decided transaction whose producer has used up its epochs: who it is when it is over."""
    heard_ms: int = 0
    """Time of the last request of the producer; not stored, a start begins its session anew."""

    @property
    def is_exhausted(self) -> bool:
        """The producer needs a new id: there is no epoch left to give."""
        return self.epoch >= LAST_EPOCH - 1

    @property
    def current(self) -> Identity:
        """Who the producer is now."""
        return Identity(self.producer_id, self.epoch)

    @property
    def upcoming(self) -> Identity:
        """Who the producer goes on as when a decided transaction is over."""
        if self.next_producer_id != NO_PRODUCER:
            return Identity(self.next_producer_id, 0)
        return self.current

    @property
    def previous(self) -> Identity | None:
        """Who the producer was when it asked for its current epoch to go on; None: it did not."""
        if self.last_epoch == NO_EPOCH:
            return None
        is_first = self.epoch == 0 and self.last_producer_id != NO_PRODUCER
        return Identity(self.last_producer_id if is_first else self.producer_id, self.last_epoch)

    def holds(
        self, transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]
    ) -> bool:
        """Whether it is this producer's, open, and has the partitions already."""
        return (
            self.state is TransactionState.ONGOING
            and self.transactional_id == transactional_id
            and self.current == identity
            and self.partitions.issuperset(partitions)
        )

    def move_to(self, state: TransactionState, now_ms: int) -> None:
        """The one gate for every change of state."""
        if state not in MOVES[self.state]:
            raise InvariantError(
                f"the transaction of {self.transactional_id!r} cannot go from {self.state} to "
                f"{state}"
            )
        self.state = state
        self.updated_ms = now_ms

    def deadline_ms(self) -> int | None:
        """When it is aborted if nothing happens; None when it is not open, or decided."""
        if self.state is not TransactionState.ONGOING:
            return None
        deadline_ms = self.started_ms + self.timeout_ms
        if self.session_timeout_ms is not None:
            deadline_ms = min(deadline_ms, self.heard_ms + self.session_timeout_ms)
        return deadline_ms

    # --- Storing ---------------------------------------------------------------------------------

    def stored(self) -> StateRecord:
        """The entry that loads it as it is now."""
        value = TransactionValue(
            self.producer_id,
            self.epoch,
            self.last_producer_id,
            self.last_epoch,
            self.timeout_ms,
            self.state,
            by_topic(self.partitions),
            self.started_ms,
            self.updated_ms,
            self.transaction_id,
            self.session_timeout_ms,
            self.next_producer_id,
        )
        return put(self.transactional_id, value)

    @classmethod
    def load(cls, transactional_id: str, value: TransactionValue) -> Transaction:
        """A transaction as it was stored."""
        return cls(
            transactional_id,
            value.producer_id,
            value.epoch,
            value.timeout_ms,
            value.last_producer_id,
            value.last_epoch,
            value.state,
            {
                TopicPartition(topic, number)
                for topic, numbers in value.partitions
                for number in numbers
            },
            value.started_ms,
            value.updated_ms,
            value.transaction_id,
            value.session_timeout_ms,
            value.next_producer_id,
        )


def by_topic(partitions: Iterable[TopicPartition]) -> Places:
    """Group and sort a set of partitions."""
    return tuple((topic, tuple(found)) for topic, found in numbers_by_topic(partitions).items())
