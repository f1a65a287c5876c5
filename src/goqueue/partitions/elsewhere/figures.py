"""How large partitions are and where they end, wherever they are led: for views, which never wait.

Of what is led here the log says it. A replica here that is in sync has all that was acknowledged,
so that its own figures serve. Of the rest its leaders tell, once a second, what has changed.
Whoever has to be exact asks for the figures of a topic, or for single offsets (`positions`).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, Final
from uuid import UUID

from goqueue.model.errors import GoQueueError, LeaderUnavailableError
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.partitions.elsewhere.leaders import Leaders
    from goqueue.partitions.partition import Partition
    from goqueue.topics.catalogue import Topic, Topics

_log = logging.getLogger(__name__)

ASK_S: Final = 1.0
"""Between questions to the leaders of what this node has no replica of."""
ROW: Final = struct.Struct(">16siqqqqq")
"""A partition on the wire: the id of its topic, its number, and its figures."""


class Figures(NamedTuple):
    """What is told of one partition."""

    log_start: int
    high_watermark: int
    log_end: int
    size_bytes: int
    message_count: int
    """Offsets that hold a message; what compaction has removed counts along."""


def figures_of(partition: Partition) -> Figures:
    """The figures of a replica that is here."""
    return Figures(
        partition.log_start,
        partition.high_watermark,
        partition.log_end,
        partition.size_bytes,
        partition.message_count,
    )


class _Told(NamedTuple):
    """How far the leader on one node has told of what it leads."""

    run: int = 0
    """Of that node: it counts anew after a start."""
    version: int = 0


class PartitionFigures:
    """The figures of all partitions of the cluster, as far as this node knows them."""

    def __init__(self, topics: Topics, leaders: Leaders) -> None:
        self._topics = topics
        self._leaders = leaders
        self._told: dict[tuple[UUID, int], Figures] = {}
        """Of partitions without a replica here; those of deleted topics go with the next answer."""
        self._heard: dict[int, _Told] = {}
        """By node: as many as there are."""
        self._asking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask the other nodes from now on, if there may be some."""
        if self._leaders.routes.is_cluster:
            self._asking = asyncio.get_running_loop().create_task(self._ask_on())

    async def stop(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    # --- Looking ---------------------------------------------------------------------------------

    def of(self, place: TopicPartition) -> Figures | None:
        """The figures of a partition; None when it does not exist, or nothing was told of it."""
        replica = self._leaders.replica(place)
        if replica is not None:
            return figures_of(replica)
        topic = self._topics.catalogue.by_name.get(place.topic)
        if topic is None:
            return None
        return self._told.get((topic.topic_id, place.partition))

    def known(self, place: TopicPartition) -> Figures:
        """The figures of a partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such partition.
            LeaderUnavailableError: it has no leader that has told of it.
        """
        figures = self.of(place)
        if figures is None:
            self._topics.catalogue.require(place)
            raise LeaderUnavailableError(
                f"{place}: its leader has not reported its state yet; try again"
            )
        return figures

    def of_topic(self, topic: Topic) -> list[Figures | None]:
        """The same of all partitions of a topic, by their numbers."""
        return [
            self.of(TopicPartition(topic.name, number)) for number in range(topic.partition_count)
        ]

    async def exact(self, topic: Topic) -> list[Figures | None]:
        """The same, as their leaders say at this moment; of those that do not answer, as known."""
        found = self.of_topic(topic)
        routes = self._leaders.routes
        if not routes.is_cluster:
            return found
        others = {each for each in self._leaders_of(topic) if each != routes.node_id}
        answers = await asyncio.gather(
            *(self._ask(each, _Told(), [topic.topic_id]) for each in others),
            return_exceptions=True,
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                continue
            for (topic_id, number), figures in answer[1]:
                if topic_id == topic.topic_id and number < len(found):
                    found[number] = figures
        return found

    def _leaders_of(self, topic: Topic) -> Iterable[int]:
        for number in range(topic.partition_count):
            try:
                yield self._leaders.routes.leader_of(TopicPartition(topic.name, number))
            except GoQueueError:
                continue  # nobody can tell at the moment

    # --- Asking ----------------------------------------------------------------------------------

    async def _ask_on(self) -> None:
        while True:
            await asyncio.sleep(ASK_S)
            try:
                others = self._leaders.routes.others()
                await asyncio.gather(*(self._follow(each) for each in others))
                self._forget_deleted()
            except GoQueueError as error:
                _log.info("figures of partitions of other nodes are not known: %s", error)

    async def _follow(self, node_id: int) -> None:
        """Take in what a node tells of what it leads since the last time."""
        try:
            heard, rows = await self._ask(node_id, self._heard.get(node_id, _Told()), [])
        except GoQueueError:
            return  # it is asked again
        self._told.update(rows)
        self._heard[node_id] = heard

    async def _ask(
        self, node_id: int, heard: _Told, topic_ids: Sequence[UUID]
    ) -> tuple[_Told, list[tuple[tuple[UUID, int], Figures]]]:
        answer = await self._leaders.routes.peers.ask(
            node_id,
            ApiKey.PARTITION_FIGURES,
            0,
            run=heard.run,
            version=heard.version,
            topic_ids=[{"topic_id": each} for each in topic_ids],
        )
        rows = [
            ((UUID(bytes=raw), number), Figures(*figures))
            for raw, number, *figures in ROW.iter_unpack(answer.partitions)
        ]
        return _Told(answer.run, answer.version), rows

    def _forget_deleted(self) -> None:
        by_id = self._topics.catalogue.by_id
        gone = [each for each in self._told if each[0] not in by_id]
        for each in gone:
            del self._told[each]
