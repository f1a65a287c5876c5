"""The partitions that messages of a unit are handed over to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from goqueue.delays.destination import Destination, Outcomes, Place
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.delays.deltas import Intent
    from goqueue.publishing.local_target import LocalTarget
    from goqueue.publishing.remote_target import RemoteTarget
    from goqueue.publishing.targets import Targets
    from goqueue.topics.catalogue import Topic, Topics

_MAX_IDLE: Final = 10_000
"""Partitions that are remembered while nothing is on its way there; of more, those are forgotten
and asked again where their next batches go."""


class Destinations:
    """Each partition, with what is on its way there."""

    def __init__(self, topics: Topics, targets: Targets) -> None:
        self._topics = topics
        self._targets = targets
        self.outcomes = Outcomes(fences=targets.is_cluster)
        self._known: dict[Place, Destination] = {}
        """Those that something is on its way to, and up to `_MAX_IDLE` others."""
        self.is_unsettled = False
        """Something was appended here of which it is not known whether it is there to stay."""

    def target(self, place: Place) -> tuple[Topic, LocalTarget | RemoteTarget]:
        """The topic of a partition, and the way to its leader.

        Raises:
            UnknownTopicIdError, UnknownPartitionError: it is deleted.
            NotLeaderError, LeaderUnavailableError: it is being moved.
        """
        topic_id, number = place
        topic = self._topics.catalogue.topic_with_id(UUID(bytes=topic_id))
        return topic, self._targets.of(TopicPartition(topic.name, number))

    def of(self, place: Place) -> Destination:
        """A partition, which need not be there any more."""
        known = self._known.get(place)
        if known is None:
            if len(self._known) > _MAX_IDLE:
                self._known = {key: each for key, each in self._known.items() if not each.is_idle}
            known = Destination(*place, self.outcomes, lambda place: self.target(place)[1])
            self._known[place] = known
        return known

    def look(self) -> None:
        """See which batches that were appended here are there to stay."""
        if self.is_unsettled:
            for destination in self._known.values():
                destination.look()
            self.is_unsettled = any(each.is_unsettled for each in self._known.values())

    def resume(self, intents: Iterable[Intent]) -> None:
        """Take up intentions from before the start; `start` finds out what became of them.

        Without a producer to look for, as when that entry is damaged, all are taken for not
        appended: better twice than never.
        """
        if self.outcomes.handover is None:
            self.outcomes.released += intents
            return
        for intent in intents:
            self.of((intent.topic_id, intent.partition)).unresolved.append(intent)

    async def resolve_here(self) -> None:
        """Find out what became of them on a node that is alone, which needs nobody else to tell."""
        if not self._targets.is_cluster:
            for destination in self._known.values():
                await destination.resolve()

    def start(self) -> None:
        """Go on with what was under way."""
        for destination in self._known.values():
            destination.resume()

    def stop(self) -> None:
        """End what is under way: whoever leads the unit next finds out what became of it."""
        for destination in self._known.values():
            destination.cancel()
