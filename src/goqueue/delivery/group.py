"""A queue group: which members take how much of which queue, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from uuid import UUID

from goqueue.delivery.decisions import release
from goqueue.delivery.line import LANES
from goqueue.delivery.members import Members
from goqueue.delivery.operations import Opened
from goqueue.delivery.queue import PartitionQueue
from goqueue.delivery.scheduler import Scheduler, Weights
from goqueue.delivery.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.delivery.lane_index import LaneIndex
    from goqueue.delivery.operations import Operation, Taken
    from goqueue.delivery.settings import QueueSettings

QueueKey: TypeAlias = tuple[UUID, int]
"""A topic's id and the number of one of its partitions."""


MEMBER_GONE: Final = "its member is gone"


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
            scheduler.configure(Weights.of(settings.weights), settings.starvation_ms)

    def scheduler(self, member: str) -> Scheduler:
        """Who chooses the lanes: one for all, or one for each owner of partitions."""
        name = "" if self.settings.mode is Mode.SHARED else member
        found = self._schedulers.get(name)
        if found is None:
            settings = self.settings
            found = Scheduler(Weights.of(settings.weights), settings.starvation_ms)
            self._schedulers[name] = found
        return found

    def apply(self, key: QueueKey, operation: Operation, lanes: LaneIndex) -> None:
        """Make an operation on one of the queues true; the first one opens the queue."""
        if isinstance(operation, Opened):
            self.close(key)
            self.queues[key] = PartitionQueue(operation.start, lanes, self.unacked)
        else:
            self.queues[key].apply(operation)

    def close(self, key: QueueKey) -> None:
        """Read a partition no more; what members have of it is not theirs any longer."""
        queue = self.queues.pop(key, None)
        if queue is None:
            return
        for lease in queue.window.leases.values():
            left = self.unacked.get(lease.member, 0) - lease.left
            if left > 0:
                self.unacked[lease.member] = left
            else:
                self.unacked.pop(lease.member, None)

    def release_member(self, member: str, now_ms: int) -> dict[QueueKey, list[Operation]]:
        """Take back everything that a member has, at once; returns what that was."""
        changes: dict[QueueKey, list[Operation]] = {}
        if member not in self.unacked:
            return changes
        for key, queue in self.queues.items():
            ranges = queue.held_by(member)
            operations = release(queue, ranges, self.settings, now_ms, MEMBER_GONE)
            for operation in operations:
                queue.apply(operation)
            if operations:
                changes[key] = operations
        return changes

    def next_deadline_ms(self) -> int | None:
        """When something is next to be done in one of the queues, or a member's session ends."""
        found = [queue.next_deadline_ms() for queue in self.queues.values()]
        found.append(self.members.next_deadline_ms())
        return min((each for each in found if each is not None), default=None)

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
        chosen: dict[QueueKey, list[tuple[int, int, int]]] = {}
        while self._plan(member, sources, limit, now_ms, chosen):
            pass
        taken = []
        for key, ranges in chosen.items():
            queue = self.queues[key]
            operation = queue.taken(ranges, member, now_ms, visibility_ms, draw())
            queue.apply(operation)
            taken.append((key, operation))
        return taken

    def _plan(
        self,
        member: str,
        sources: Sequence[Source],
        limit: int,
        now_ms: int,
        chosen: dict[QueueKey, list[tuple[int, int, int]]],
    ) -> bool:
        """Choose what a member gets; says whether to try again, since a lane had less than said.

        Messages that came back are counted as ready until somebody looks whether they still are.
        """
        ready = [self._ready(member, source, limit) for source in sources]
        together = [min(sum(counts), limit) for counts in zip(*ready, strict=True)]
        scheduler = self.scheduler(member)
        total = 0
        for lane, count in scheduler.plan(together, limit, now_ms):
            missing = self._choose(lane, count, sources, ready, chosen)
            total += count - missing
            if missing:
                scheduler.took(total)
                return not total
        return False

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
