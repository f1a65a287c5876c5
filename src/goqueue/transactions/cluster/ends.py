"""Carrying out what was decided, wherever in the cluster its partitions are led.

The markers go to whoever leads each partition, with the epoch of this coordinator. What cannot be
reached is tried again until it is: by this node, or by the next that coordinates the id.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    ClusterError,
    FencedProducerError,
    GoQueueError,
    MetadataError,
    TopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.transactions.cluster.calls import EndingPart
from goqueue.transactions.ends import TransactionEnds
from goqueue.transactions.marker_writer import MarkerRequest
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from goqueue.groups.service import Groups
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partitions import Partitions
    from goqueue.topics.catalogue import Topics
    from goqueue.topics.routes import Routes
    from goqueue.transactions.cluster.calls import TransactionCalls
    from goqueue.transactions.marker_writer import MarkerWriter
    from goqueue.transactions.messages import Effects, Ending
    from goqueue.transactions.shard import TransactionShard

_log = logging.getLogger(__name__)

_TOLD_S: Final = 1.0
"""How long a producer waits for the end to be carried out. It is decided: after that it is told
so, and what it begins next is refused until the rest is done, as by Kafka."""
_FIRST_BACKOFF_S: Final = 0.02
_LAST_BACKOFF_S: Final = 0.5
_DONE: Final = frozenset({ErrorCode.none, ErrorCode.invalid_producer_epoch})
"""An end that is late is one that was there before: the producer is in its next transaction."""


class ClusterEnds(TransactionEnds):
    """Ends transactions that the coordinators of this node have decided."""

    def __init__(
        self,
        partitions: Partitions,
        groups: Groups,
        measures: Measures,
        *,
        topics: Topics,
        routes: Routes,
        writer: MarkerWriter,
        calls: TransactionCalls,
    ) -> None:
        super().__init__(partitions, groups, measures)
        self._topics = topics
        self._routes = routes
        self._writer = writer
        self._calls = calls
        self._ending: dict[str, asyncio.Task[None]] = {}
        """By transactional id; one for each transaction that is decided and not carried out."""

    async def finish(self, shard: TransactionShard, out: Effects) -> None:
        """Carry out what an event decided; after a while it goes on without whoever waits.

        Nobody waits for the last word on it to be stored: whatever the producer does next is stored
        behind it, and answered when both are committed.
        """
        tasks = [self._begin(shard, ending) for ending in out.endings]
        if tasks:
            await asyncio.wait(tasks, timeout=_TOLD_S)

    async def finish_all(self, shard: TransactionShard) -> None:
        """Begin to carry out everything that a shard has decided and nobody is at work on."""
        for ending in shard.coordinator.unfinished():
            if ending.transactional_id not in self._ending:
                self._begin(shard, ending)

    async def stop(self) -> None:
        """Leave what is not carried out to the next coordinator."""
        tasks = list(self._ending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, shard: TransactionShard, ending: Ending) -> asyncio.Task[None]:
        name = ending.transactional_id
        task = asyncio.get_running_loop().create_task(self._to_the_end(shard, ending))
        self._ending[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))
        return task

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._ending.get(name) is task:
            del self._ending[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the transaction of %r is not ended everywhere", name, exc_info=error)

    async def _to_the_end(self, shard: TransactionShard, ending: Ending) -> None:
        """Carry out one end, however long that takes, while this node coordinates it."""
        epoch, backoff_s = shard.state.epoch, _FIRST_BACKOFF_S
        left: Collection[TopicPartition] = {TopicPartition(*each) for each in ending.partitions}
        while left:
            left = await self._attempt(ending, left, epoch)
            if not shard.state.is_led or shard.state.epoch != epoch:
                return  # whoever coordinates it now has read the decision
            if left:
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, _LAST_BACKOFF_S)
        shard.complete_soon(ending)

    async def _attempt(
        self, ending: Ending, places: Collection[TopicPartition], epoch: int
    ) -> set[TopicPartition]:
        """Write the markers that are left to write; returns where that has failed."""
        by_node: dict[int, list[TopicPartition]] = {}
        failed: set[TopicPartition] = set()
        for place in sorted(places):
            try:
                by_node.setdefault(self._routes.leader_of(place), []).append(place)
            except ClusterError:
                failed.add(place)
            except TopicError:
                if not await self._is_gone(place):
                    failed.add(place)
        found = await asyncio.gather(
            *(
                self._end_on(node, EndingPart(ending, tuple(some), epoch))
                for node, some in by_node.items()
            )
        )
        return failed.union(*found)

    async def _is_gone(self, place: TopicPartition) -> bool:
        """Whether a topic was deleted, with everything in it; a new one may not be known here."""
        try:
            return await self._topics.is_gone(place.topic)
        except MetadataError:
            return False

    async def _end_on(self, node_id: int, part: EndingPart) -> set[TopicPartition]:
        """End the transaction in partitions of one node; returns those where that has failed."""
        if node_id == self._routes.node_id:
            return await self._end_here(part)
        try:
            codes = await self._calls.end(node_id, part)
        except GoQueueError as error:
            _log.debug("the markers of %r: %s", part.ending.transactional_id, error)
            return set(part.places)
        return {place for place in part.places if codes.get(place, -1) not in _DONE}

    async def _end_here(self, part: EndingPart) -> set[TopicPartition]:
        ending = part.ending
        outcomes = await self._writer.write(
            [
                MarkerRequest(place, *ending.identity, ending.marker, part.coordinator_epoch)
                for place in part.places
            ]
        )
        return {
            place
            for place, outcome in zip(part.places, outcomes, strict=True)
            if outcome is not None and not isinstance(outcome, FencedProducerError)
        }
