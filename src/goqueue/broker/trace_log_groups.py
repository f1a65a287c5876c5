"""What log groups do with sampled messages: a fetch hands them out, a commit completes them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from goqueue.broker.trace_verdicts import TraceVerdicts
from goqueue.tracing.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.partitions.partition import PartitionId
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topics
    from goqueue.tracing.context import TraceContext
    from goqueue.tracing.notes import Parts, Place
    from goqueue.tracing.store import TraceStore

MAX_NOTED_PARTS: Final = 1000
"""Ranges that one fetch or commit notes. A first commit may pass all that is traced: the rest of it
is left out."""
MAX_READERS: Final = 10_000
"""Readers whose last fetch is remembered; at the bound all are forgotten, and one fetch of each may
be noted a second time."""


class TraceLogGroups(TraceVerdicts):
    """Notes reads and commits of sampled messages by log groups, and reads without a group."""

    def __init__(self, store: TraceStore, topics: Topics, clock: Clock, node: str) -> None:
        super().__init__(store, topics, clock, node)
        self._noted_to: dict[tuple[str, str, str], int] = {}
        """The end of what was noted last, by place, group and consumer: a reader that goes back and
        reads the same messages again adds nothing to their traces."""

    def log_fetched(
        self, partition: PartitionId, first: int, end: int, *, group: str = "", consumer: str = ""
    ) -> None:
        """A reader of the log has fetched [first, end)."""
        place = self._known_place(partition)
        if place is None:
            return
        reader = (place.id, group, consumer)
        first = max(first, self._noted_to.get(reader, 0))
        if first >= end:
            return
        if len(self._noted_to) >= MAX_READERS:
            self._noted_to.clear()
        self._noted_to[reader] = end
        self._note_range(Event.FETCHED, place, first, end, group=group, consumer=consumer)

    def log_committed(self, partition: PartitionId, first: int, end: int, group: str) -> None:
        """A log group has committed the messages in [first, end)."""
        place = self._known_place(partition)
        if place is not None:
            self._note_range(Event.ACKED, place, first, end, group=group)

    def _known_place(self, partition: PartitionId) -> Place | None:
        """The place of a partition; None when none of its messages is traced."""
        topic = self._topics.catalogue.by_name.get(partition.topic)
        if topic is None:
            return None
        place = self.place(topic, partition.number)
        return place if self.index.knows(place.id) else None

    def _note_range(self, event: Event, place: Place, first: int, end: int, **said: str) -> None:
        parts = _joined(islice(self.index.within(place.id, first, end), MAX_NOTED_PARTS))
        if parts:
            self._note(event, place, parts, self._clock.now_ns(), **said)


def _joined(parts: Iterable[tuple[TraceContext | None, int, int]]) -> Parts:
    """The same messages in fewer ranges: neighbours that name no trace become one."""
    joined: Parts = []
    for context, first, end in parts:
        if context is None and joined and joined[-1][0] is None and joined[-1][2] == first:
            joined[-1] = (None, joined[-1][1], end)
        else:
            joined.append((context, first, end))
    return joined
