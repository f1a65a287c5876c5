"""A queue group: which members take how much of which queue, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.partitions.partition import Isolation
from goqueue.queues.delivery.decisions import release
from goqueue.queues.delivery.line import LANES, Reservation
from goqueue.queues.delivery.members import Members
from goqueue.queues.delivery.operations import LaneRange, Opened, Operation
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.scheduler import LaneStats, Scheduler, Weights
from goqueue.queues.delivery.settings import Mode, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition


MEMBER_GONE: Final = "its member is gone"
REDRIVE_GROUP: Final = "__goqueue_redrive"
"""Knows which dead letters went back to where they came from; nobody is a member of it."""
WEBHOOK_GROUP_PREFIX: Final = "__goqueue_webhook_"
"""Of the groups that deliver events to webhook endpoints, one each; nobody is a member of one."""


_NOTHING_YET: Final = LaneStats(0, 0, None, None)


def is_internal_group(group_id: str) -> bool:
    """Whether the broker keeps groups of that name for itself."""
    return group_id == REDRIVE_GROUP or group_id.startswith(WEBHOOK_GROUP_PREFIX)


class Source(NamedTuple):
    """A queue that a member may take from, and up to where it can be read."""

    key: TopicIdPartition
    until: int
    room: int | None = None
    """How many messages may be taken from it, whoever takes them; None: as many as are ready."""


class QueueGroup:
    """One group: its settings, its queues, and whose turn it is."""

    def __init__(self, group_id: str, settings: QueueSettings) -> None:
        self.group_id = group_id
        self.settings = settings
        self.settings_are_lost = False
        """What was stored of them is damaged; the first member to come brings them anew."""
        self.members = Members()
        """Of a shared group. Those of an exclusive one are members of a consumer group."""
        self.queues: dict[TopicIdPartition, PartitionQueue] = {}
        self.absent: dict[TopicIdPartition, bool] = {}
        """Partitions that could not be opened yet, and whether their topics were new then."""
        self.unacked: dict[str, int] = {}
        """How many messages each member has."""
        self.draining: set[str] = set()
        """Members that are about to leave, and are handed nothing more."""
        self._schedulers: dict[str, Scheduler] = {}
        self._past: tuple[LaneStats, ...] = (_NOTHING_YET,) * LANES
        """What members that are gone were handed."""
        self._served: dict[TopicIdPartition, int] = {}
        """Which take was the last that found something in a queue."""
        self._takes = 0
        self._reserved: dict[str, int] = {}
        """How many messages are on their way to each member."""

    @property
    def is_internal(self) -> bool:
        """The broker keeps it for itself: nobody joins it, and lists leave it out."""
        return is_internal_group(self.group_id)

    @property
    def is_dormant(self) -> bool:
        """Nobody has been a member of this group: it is settings that wait for one."""
        return not self.settings.was_joined and not self.queues and not len(self.members)

    @property
    def isolation(self) -> Isolation:
        """Which messages the group reads."""
        uncommitted = self.settings.reads_uncommitted
        return Isolation.READ_UNCOMMITTED if uncommitted else Isolation.READ_COMMITTED

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

    def apply(self, key: TopicIdPartition, operation: Operation) -> None:
        """Make an operation on one of the queues true; the first one opens the queue."""
        if isinstance(operation, Opened):
            self.close(key)
            queue = self.queues[key] = PartitionQueue(operation.start, self.unacked)
            queue.is_read = operation.is_set
        else:
            self.queues[key].apply(operation)

    def close(self, key: TopicIdPartition) -> None:
        """Read a partition no more; what members have of it is not theirs any longer."""
        self.absent.pop(key, None)
        queue = self.queues.pop(key, None)
        if queue is None:
            return
        queue.window.detach()
        self._served.pop(key, None)

    def release_member(
        self,
        member: str,
        now_ms: int,
        most_leases: int,
        keys: Collection[TopicIdPartition] | None = None,
    ) -> dict[TopicIdPartition, list[Operation]]:
        """What is to happen so that a member has nothing more, of so many leases in a queue.

        With `keys`, nothing more of these queues.
        """
        changes: dict[TopicIdPartition, list[Operation]] = {}
        queues = self.queues
        if keys is not None:
            queues = {key: queues[key] for key in keys if key in queues}
        if member in self._reserved:
            for queue in queues.values():
                for reservation in queue.reserved.values():
                    reservation.is_void |= reservation.member == member
        if member not in self.unacked:
            return changes
        for key, queue in queues.items():
            ranges = queue.held_by(member, most_leases)
            queue.expire(ranges)
            operations = release(queue, ranges, self.settings, now_ms, MEMBER_GONE)
            if operations:
                changes[key] = operations
        return changes

    def next_deadline_ms(self) -> int | None:
        """When something is next to be done in one of the queues, or a member's session ends."""
        found = [queue.next_deadline_ms() for queue in self.queues.values()]
        found.append(self.members.next_deadline_ms())
        return min((each for each in found if each is not None), default=None)

    def waits_for_acks(self, keys: Iterable[TopicIdPartition]) -> bool:
        """Whether somebody may be handed more once messages of these queues are acknowledged.

        A member has as much as it may have, share consumers have as much of a queue as they may
        have together, or order forbids more before others are through.
        """
        most = self.settings.max_unacked
        return (
            self.settings.mode is Mode.EXCLUSIVE
            or any(count >= most for count in self.unacked.values())
            or not all(map(self.room, keys))
        )

    def room(self, key: TopicIdPartition) -> int:
        """How many more messages of a queue share consumers may have together."""
        queue = self.queues[key]
        on_their_way = sum(each.count for each in queue.reserved.values())
        taken = queue.total(MessageState.IN_FLIGHT) + on_their_way
        return max(self.settings.partition_locks - taken, 0)

    def forget_member(self, member: str) -> None:
        """A member is gone; nothing is kept for it."""
        self.draining.discard(member)
        scheduler = self._schedulers.pop(member, None)
        if scheduler is not None:
            self._past = _together((self._past, scheduler.stats()))

    def lane_stats(self) -> tuple[LaneStats, ...]:
        """What each lane got since the start of this process, the most urgent first."""
        now = (scheduler.stats() for scheduler in self._schedulers.values())
        return _together((self._past, *now))

    def reserve(
        self, member: str, sources: Sequence[Source], limit: int, now_ms: int
    ) -> list[tuple[TopicIdPartition, PartitionQueue, Reservation]]:
        """Choose up to `limit` messages for a member, as many as it may have more.

        Nobody else is offered them until `end_reservation`, by when they are taken or given back.
        """
        has = self.unacked.get(member, 0) + self._reserved.get(member, 0)
        limit = min(limit, self.settings.max_unacked - has)
        if limit <= 0 or not sources:
            return []
        sources = sorted(sources, key=lambda source: self._served.get(source.key, 0))
        chosen: dict[TopicIdPartition, list[LaneRange]] = {}
        left = limit
        is_short = True
        while is_short and left:
            found, is_short = self._plan(member, sources, left, now_ms, chosen)
            left -= found
        reserved = []
        for key, ranges in chosen.items():
            queue = self.queues[key]
            reserved.append((key, queue, queue.reserve(ranges, member)))
            self._takes += 1
            self._served[key] = self._takes
        if limit > left:
            self._reserved[member] = self._reserved.get(member, 0) + limit - left
        return reserved

    def reserve_along(
        self, queue: PartitionQueue, reservation: Reservation, ranges: list[LaneRange]
    ) -> None:
        """Reserve messages beside those that `reserve` has chosen, whoever's turn it is."""
        reservation.ranges += ranges
        for lane, first, end in ranges:
            queue.line.taken(queue.window, lane, first, end)
            self.scheduler(reservation.member).served_beside(lane, end - first)
            self._reserved[reservation.member] += end - first

    def end_reservation(
        self, queue: PartitionQueue, reservation: Reservation, back: Iterable[Range]
    ) -> None:
        """What was reserved is taken, except for what is offered again."""
        queue.end_reservation(reservation, back)
        self._reserved[reservation.member] -= reservation.count
        if not self._reserved[reservation.member]:
            del self._reserved[reservation.member]

    def _plan(
        self,
        member: str,
        sources: Sequence[Source],
        limit: int,
        now_ms: int,
        chosen: dict[TopicIdPartition, list[LaneRange]],
    ) -> tuple[int, bool]:
        """Choose what a member gets, until a lane turns out to have less than it said.

        Says how many messages that is, and whether it is worth trying for more.

        Messages are counted as ready until somebody looks whether they still are; a lane in which
        somebody has looked without success says so the next time.
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
                return total, True
        return total, False

    def _ready(self, member: str, source: Source, limit: int) -> list[int]:
        queue = self.queues[source.key]
        counts = queue.line.ready(source.until, limit)
        if self.settings.mode is Mode.EXCLUSIVE:
            for lane in range(LANES):
                if counts[lane] and queue.is_blocked(lane, member):
                    counts[lane] = 0
        if source.room is not None:
            room = source.room
            for lane, count in enumerate(counts):
                counts[lane] = min(count, room)
                room -= counts[lane]
        return counts

    def _choose(
        self,
        lane: int,
        count: int,
        sources: Sequence[Source],
        ready: Sequence[list[int]],
        chosen: dict[TopicIdPartition, list[LaneRange]],
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


def _together(parts: Sequence[tuple[LaneStats, ...]]) -> tuple[LaneStats, ...]:
    """The same lanes of several schedulers as one."""
    return tuple(
        LaneStats(
            sum(lane.served for lane in lanes),
            sum(lane.boosts for lane in lanes),
            max(
                (each for lane in lanes if (each := lane.last_served_ms) is not None), default=None
            ),
            min(
                (each for lane in lanes if (each := lane.waiting_since_ms) is not None),
                default=None,
            ),
        )
        for lanes in zip(*parts, strict=True)
    )
