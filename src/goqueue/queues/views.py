"""What people see of queue groups: how many messages are where, by partition and by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.delivery import Priority
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.partition import Isolation
from goqueue.queues.delivery.operations import joined
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.reading.record_reader import RecordSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.service import Queues

_MAX_COUNTED: Final = 100_000
"""Messages that are ready are counted up to here: further on every run of a lane would have to be
looked at, however many there are."""
_STEP: Final = 1024
_STEPS: Final = 64
"""How far the oldest message of a lane is looked for; behind that, nobody says which it is."""


class QueueView(msgspec.Struct, frozen=True):
    """One partition of one queue group."""

    partition: RecordSource
    queue: PartitionQueue
    isolation: Isolation

    @property
    def committed(self) -> int:
        """The lowest offset that the group is not done with."""
        return max(self.queue.start, self.partition.log_start)

    @property
    def in_flight(self) -> int:
        """Messages that members have."""
        return self.queue.total(MessageState.IN_FLIGHT)

    @property
    def waiting(self) -> int:
        """Messages that wait for a retry."""
        return self.queue.waiting

    @property
    def dead(self) -> int:
        """Messages on their way to the dead-letter topic."""
        return self.queue.total(MessageState.DOOMED)

    @property
    def readable_to(self) -> int:
        """Where what can be handed out ends."""
        return self.partition.readable_to(self.isolation)

    @property
    def ready(self) -> int:
        """Messages that somebody could be handed now, up to `_MAX_COUNTED` of each lane."""
        return sum(self.queue.line.ready(self.readable_to, _MAX_COUNTED))


def queue_views(queues: Queues, group: QueueGroup) -> list[QueueView]:
    """Every partition that a queue group reads and that still exists, in order."""
    isolation = group.isolation
    found: list[QueueView] = []
    for key, queue in group.queues.items():
        partition = queues.sources.find(key)
        if partition is not None:
            queue.follow(partition.lanes)
            found.append(QueueView(partition, queue, isolation))
    return sorted(found, key=lambda each: each.partition.id)


class LaneView(NamedTuple):
    """One lane of one partition, for one group."""

    ready: int
    in_flight: int
    oldest: int | None
    """The offset of the first message that could be handed out."""


def lane_views(view: QueueView) -> list[LaneView]:
    """The lanes of one partition, the most urgent first."""
    until = view.readable_to
    flying = _in_flight(view)
    ready = view.queue.line.ready(until, _MAX_COUNTED)
    return [
        LaneView(count, flying[lane], _oldest(view, lane, until) if count else None)
        for lane, count in enumerate(ready)
    ]


def _in_flight(view: QueueView) -> list[int]:
    lanes, window = view.partition.lanes, view.queue.window
    counts = [0] * len(Priority)
    if not len(lanes):
        counts[Priority.NORMAL] = view.in_flight
        return counts
    for number in window.leases:
        for first, end in window.held(number):
            counts = [a + b for a, b in zip(counts, lanes.counts(first, end), strict=True)]
    return counts


def _oldest(view: QueueView, lane: int, until: int) -> int | None:
    lanes, window = view.partition.lanes, view.queue.window
    at = view.committed
    for _ in range(_STEPS):
        run = lanes.next_run(lane, at, until)
        if run is None:
            return None
        at = min(run[1], run[0] + _STEP)
        found = next(window.in_state(run[0], at, MessageState.AVAILABLE), None)
        if found is not None:
            return found[0]
    return None


def committable(
    queues: Queues, group: QueueGroup, member_id: str
) -> Iterator[tuple[RecordSource, int]]:
    """For each partition, the offset that says that a member has processed all that it has.

    Everything before is done with or in flight to this very member: whoever commits it speaks of
    no message that was not handed to them.
    """
    for view in queue_views(queues, group):
        yield view.partition, _committable(view, member_id)


def _committable(view: QueueView, member_id: str) -> int:
    queue, start = view.queue, view.committed
    held = queue.held_by(member_id) if queue.window.leases else []
    if not any(first <= start < end for first, end in held):
        return start
    last = max(end for _, end in held)
    done = queue.window.in_state(start, last, MessageState.SETTLED)
    return next(end for first, end in joined([*held, *done]) if first <= start < end)
