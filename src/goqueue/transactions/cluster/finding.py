"""Which coordinator knows a producer, asked of every node: its id alone leads to no partition."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import ClusterError, TransactionCoordinatorUnavailableError
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.transactions.registry import unknown_producer
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from goqueue.topics.routes import Routes

_MAX_REMEMBERED: Final = 10_000
"""Producers whose transactional ids are remembered; beyond it the one asked about longest ago is
asked about again."""


class KnownProducer(NamedTuple):
    """What a coordinator knows of a producer."""

    transactional_id: str
    producer_id: int
    is_open: bool
    partitions: frozenset[TopicPartition]


class ProducersFound(NamedTuple):
    """What one node, or all of them together, answer."""

    shards: frozenset[int]
    """The partitions of the transactions' topic that were answered for."""
    producers: Sequence[KnownProducer]


class ProducerFinder:
    """Asks every node about producers."""

    def __init__(
        self,
        routes: Routes,
        here: Callable[[Iterable[int]], ProducersFound],
        shard_count: Callable[[], int],
    ) -> None:
        """`here` answers for the coordinators of this node."""
        self._routes = routes
        self._here = here
        self._shard_count = shard_count
        self._ids: OrderedDict[int, str] = OrderedDict()

    async def transactional_id(self, producer_id: int) -> str:
        """The transactional id of a producer.

        Raises:
            UnknownProducerError: every coordinator says that it has none.
            TransactionCoordinatorUnavailableError: one that may know it has not answered.
        """
        known = self._ids.get(producer_id)
        if known is not None:
            self._ids.move_to_end(producer_id)
            return known
        found = await self.find([producer_id])
        for each in found.producers:
            self._ids[producer_id] = each.transactional_id
            if len(self._ids) > _MAX_REMEMBERED:
                self._ids.popitem(last=False)
            return each.transactional_id
        if len(found.shards) < self._shard_count():
            raise TransactionCoordinatorUnavailableError(
                f"the coordinator of producer {producer_id} was not found: not every one has "
                "answered; try again"
            )
        raise unknown_producer(producer_id)

    async def is_unknown(self, open_in: dict[int, set[TopicPartition]]) -> dict[int, bool]:
        """Of producers with open transactions in partitions, whether no coordinator knows them.

        Only when every partition of the transactions' topic was answered for, by the node that
        leads it, is one unknown: false says nothing.
        """
        found = await self.find(open_in)
        if len(found.shards) < self._shard_count():
            return dict.fromkeys(open_in, False)
        known = {
            each.producer_id
            for each in found.producers
            if each.is_open and not each.partitions.isdisjoint(open_in[each.producer_id])
        }
        return {producer_id: producer_id not in known for producer_id in open_in}

    async def find(self, producer_ids: Iterable[int]) -> ProducersFound:
        """What the coordinators know of producers; nodes that do not answer are left out."""
        asked = list(producer_ids)
        found = await asyncio.gather(*(self._ask(node, asked) for node in self._routes.others()))
        found.append(self._here(asked))
        return ProducersFound(
            frozenset().union(*(each.shards for each in found)),
            [producer for each in found for producer in each.producers],
        )

    async def _ask(self, node_id: int, producer_ids: list[int]) -> ProducersFound:
        try:
            answer = await self._routes.peers.ask(
                node_id,
                ApiKey.FIND_PRODUCERS,
                0,
                producers=[{"producer_id": each} for each in producer_ids],
            )
        except ClusterError:
            return ProducersFound(frozenset(), ())
        return ProducersFound(
            frozenset(each.number for each in answer.shards),
            [
                KnownProducer(
                    each.transactional_id,
                    each.producer_id,
                    each.is_open,
                    frozenset(
                        TopicPartition(place.topic, place.partition_index)
                        for place in each.partitions
                    ),
                )
                for each in answer.producers
            ],
        )
