"""Transactions that hang: open in a partition or a group, and known to no coordinator.

Readers of committed records would wait for them for ever. One node alone cannot tell: what its own
coordinators do not know, those of other nodes may. So the leader of the partition waits for longer
than any transaction may take, asks every coordinator, and aborts only what all of them disown.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.markers import Marker
from goqueue.transactions.marker_writer import MarkerRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from goqueue.groups.service import Groups
    from goqueue.partitions.partitions import Partitions
    from goqueue.transactions.cluster.finding import ProducerFinder
    from goqueue.transactions.marker_writer import MarkerWriter

_log = logging.getLogger(__name__)

CHECK_S: Final = 5.0
"""Between looks for transactions that have been open for too long."""


class _Open(NamedTuple):
    """A transaction that is open somewhere, as long as nothing happens in it."""

    place: TopicPartition
    producer_id: int
    content: Hashable
    """Changes with whatever the transaction writes there."""


class HangingTransactions:
    """Watches what is open in the partitions and groups that this node leads."""

    def __init__(
        self,
        partitions: Partitions,
        groups: Groups,
        finder: ProducerFinder,
        writer: MarkerWriter,
        *,
        now_s: Callable[[], float],
        longest_s: float,
    ) -> None:
        """`longest_s` is how long a transaction may be open at most."""
        self._partitions = partitions
        self._groups = groups
        self._finder = finder
        self._writer = writer
        self._now_s = now_s
        self._longest_s = longest_s
        self._seen_s: dict[_Open, float] = {}
        """Since when each has been seen here. As many as there are open transactions."""

    async def check(self) -> int:
        """Abort what hangs; returns how many."""
        now_s = self._now_s()
        self._seen_s = {each: self._seen_s.get(each, now_s) for each in self._open()}
        old = {each for each, since_s in self._seen_s.items() if now_s - since_s > self._longest_s}
        if not old:
            return 0
        asked: dict[int, set[TopicPartition]] = {}
        for each in old:
            asked.setdefault(each.producer_id, set()).add(each.place)
        unknown = await self._finder.is_unknown(asked)
        # What has changed since they were asked may belong to a transaction that has begun since.
        still = old.intersection(self._open())
        requests = [
            self._abort(each.place, each.producer_id) for each in still if unknown[each.producer_id]
        ]
        outcomes = await self._writer.write(requests)
        for request, outcome in zip(requests, outcomes, strict=True):
            _log.warning(
                "%s: producer %d had a transaction open that no coordinator knows: %s",
                request.place,
                request.producer_id,
                "aborted" if outcome is None else outcome,
            )
        return sum(outcome is None for outcome in outcomes)

    def _open(self) -> Iterator[_Open]:
        for partition in self._partitions:
            if not partition.is_leading or not len(partition.transactions):
                continue
            for producer_id in partition.transactions.open_producers():
                epoch = partition.sequences.epoch_of(producer_id)
                last = partition.sequences.last_sequence(producer_id, epoch)
                first = partition.transactions.first_of(producer_id)
                yield _Open(partition.id, producer_id, (first, epoch, last))
        for number, producer_id, staged in self._groups.staged():
            yield _Open(TopicPartition(OFFSETS_TOPIC, number), producer_id, staged)

    def _abort(self, place: TopicPartition, producer_id: int) -> MarkerRequest:
        """In the name of the last coordinator that was heard of: none comes after it."""
        partition = self._partitions.find(place)
        epoch, coordinator_epoch = 0, 0
        if partition is not None and place.topic != OFFSETS_TOPIC:
            epoch = max(partition.sequences.epoch_of(producer_id), 0)
            coordinator_epoch = max(partition.sequences.coordinator_epoch_of(producer_id), 0)
        else:
            coordinator_epoch = self._groups.newest_coordinator(place.partition, producer_id)
        return MarkerRequest(place, producer_id, epoch, Marker.ABORT, coordinator_epoch)
