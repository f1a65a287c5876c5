"""A queue group: which members take how much of which queue, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from goqueue.delivery.line import LANES
from goqueue.delivery.members import Members
from goqueue.delivery.scheduler import Scheduler, Weights
from goqueue.delivery.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.delivery.operations import Taken
    from goqueue.delivery.queue import PartitionQueue
    from goqueue.delivery.settings import QueueSettings

QueueKey: TypeAlias = tuple[UUID, int]
"""A topic's id and the number of one of its partitions."""


class Source(NamedTuple):
    """A queue that a member may take from, and up to where it can be read."""

    key: QueueKey
    until: int


class QueueGroup:
    """One group: its settings, its queues, and whose turn it is."""

    def __init__(self, group_id: str, settings: QueueSettings) -> None:
        self.group_id = group_id
        self.settings = settings
        self.members = Members()
        """Of a shared group. Those of an exclusive one are members of a consumer group."""
        self.queues: dict[QueueKey, PartitionQueue] = {}
        self.unacked: dict[str, int] = {}
        """How many messages each member has."""
        self._schedulers: dict[str, Scheduler] = {}
        self._turn = 0

    def configure(self, settings: QueueSettings) -> None:
        """Follow other settings from now on."""
        self.settings = settings
        for scheduler in self._schedulers.values():
            scheduler.configure(Weights(settings.weights), settings.starvation_ms)

    def scheduler(self, member: str) -> Scheduler:
        """Who chooses the lanes: one for all, or one for each owner of partitions."""
        name = "" if self.settings.mode is Mode.SHARED else member
        found = self._schedulers.get(name)
        if found is None:
            settings = self.settings
            found = Scheduler(Weights(settings.weights), settings.starvation_ms)
            self._schedulers[name] = found
        return found

    def forget_member(self, member: str) -> None:
        """A member is gone; nothing is kept for it."""
        self._schedulers.pop(member, None)

    def take(
        self,
        member: str,
        sources: Sequence[Source],
        limit: int,
        *,
        now_ms: int,
        visibility_ms: int,
        draw: Callable[[], bytes],
    ) -> list[tuple[QueueKey, Taken]]:
        """Hand a member up to `limit` messages, as many as it may have more.

        What it is handed is taken when this returns. `draw` gives random bytes, from which the
        nonces of receipts are made.
        """
        limit = min(limit, self.settings.max_unacked - self.unacked.get(member, 0))
        if limit <= 0 or not sources:
            return []
        self._turn = (self._turn + 1) % len(sources)
        sources = [*sources[self._turn :], *sources[: self._turn]]
        ready = [self._ready(member, source, limit) for source in sources]
        together = [min(sum(counts), limit) for counts in zip(*ready, strict=True)]
        chosen: dict[QueueKey, list[tuple[int, int, int]]] = {}
        scheduler = self.scheduler(member)
        for lane, count in scheduler.plan(together, limit, now_ms):
            missing = self._choose(lane, count, sources, ready, chosen)
            if missing:
                scheduler.give_back(lane, missing)
        taken = []
        for key, ranges in chosen.items():
            queue = self.queues[key]
            operation = queue.taken(ranges, member, now_ms, visibility_ms, draw())
            queue.apply(operation)
            taken.append((key, operation))
        return taken

    def _ready(self, member: str, source: Source, limit: int) -> list[int]:
        queue = self.queues[source.key]
        counts = queue.line.ready(source.until, limit)
        if self.settings.mode is Mode.EXCLUSIVE:
            for lane in range(LANES):
                if counts[lane] and queue.is_blocked(lane, member):
                    counts[lane] = 0
        return counts

    def _choose(
        self,
        lane: int,
        count: int,
        sources: Sequence[Source],
        ready: Sequence[list[int]],
        chosen: dict[QueueKey, list[tuple[int, int, int]]],
    ) -> int:
        """Choose messages of one lane from one queue after the other; says how many are missing."""
        for source, counts in zip(sources, ready, strict=True):
            if not count:
                break
            if not counts[lane]:
                continue
            queue = self.queues[source.key]
            for first, end in queue.line.choose(queue.window, lane, count, source.until):
                chosen.setdefault(source.key, []).append((lane, first, end))
                count -= end - first
                counts[lane] -= end - first
        return count
