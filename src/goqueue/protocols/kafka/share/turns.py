"""Turns of share consumers on one node, which leads every partition and coordinates every group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.model.tuples import NamedTuple
from goqueue.queues.share.turns import Closing, ShareTurns
from goqueue.queues.whole_batches import acquired, batches
from goqueue.wire.kafka.share_fetch import SharedPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.broker.broker import Broker
    from goqueue.model.errors import GoQueueError
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.queues.acquired_batch import Portion
    from goqueue.queues.share.turns import Grant, ShareTurn


class Taken(NamedTuple):
    """What came of a turn, with what goes to the consumer."""

    lock_ms: int
    outcomes: Mapping[TopicPartition, GoQueueError | None]
    """Why the acknowledgements in a partition do not count, where they do not."""
    found: Mapping[TopicIdPartition, SharedPartition]
    """The messages."""


class Turns(Protocol):
    """Asks the group of a share consumer, wherever it is coordinated."""

    def check_led(self, partition: TopicPartition) -> None:
        """Raise `NotLeaderError` for a partition whose messages another node sends."""

    def closing(self, places: Iterable[TopicIdPartition]) -> Closing:
        """What ends with a session of these partitions."""

    async def take(self, turn: ShareTurn, grant: Grant) -> Taken:
        """Take a turn. Raises like `ShareTurns.take`."""


class LocalTurns:
    """See `Turns`."""

    def __init__(self, broker: Broker) -> None:
        self._node_id = broker.settings.node_id
        self._turns = ShareTurns(broker)

    def check_led(self, partition: TopicPartition) -> None:
        """Every partition is led here."""

    def closing(self, _places: Iterable[TopicIdPartition]) -> Closing:
        """The member has one session: nothing is left to it."""
        return Closing()

    async def take(self, turn: ShareTurn, grant: Grant) -> Taken:
        """Take a turn."""
        lock_ms, outcomes, portions = await self._turns.take(turn, grant)
        batch_size = 1 if turn.acquiring is None else turn.acquiring.batch_size
        found = {portion.key: self._shared(portion, batch_size) for portion in portions}
        return Taken(lock_ms, outcomes, found)

    def _shared(self, portion: Portion, batch_size: int) -> SharedPartition:
        return SharedPartition(
            portion.key[1],
            leader=(self._node_id, portion.partition.leader_epoch),
            records=batches(portion),
            acquired=list(acquired(portion, batch_size)),
        )
