"""One partition's worth of queue groups, kept in a state shard, and their timer.

What is decided on messages is stored, then applied, and told when it is committed.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import CoordinatorUnavailableError, StorageError
from goqueue.queues.delivery.decisions import TIMED_OUT, release
from goqueue.queues.delivery.group import QueueGroup
from goqueue.queues.delivery.operations import Opened, Operation
from goqueue.queues.entries import (
    QueueReplay,
    QueueSource,
    changes_entry,
    dump,
    group_key,
    queue_key,
    settings_entry,
)
from goqueue.state.shard import RETRY_S, StateShard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.delivery.settings import QueueSettings
    from goqueue.state.log import StateEntry, StateLog

_SHORTEST_WAIT_S: Final = 0.02
"""Between two looks at what time has brought: many deadlines that lie close are one look."""
LEASES_AT_ONCE: Final = 250
"""Leases that expire, or messages that have waited enough, before other work has its turn."""


class QueueShard:
    """The queue groups whose ids lead to one partition of the queue state topic."""

    def __init__(
        self,
        log: StateLog,
        source: Callable[[TopicIdPartition], QueueSource | None],
        now_ms: Callable[[], int],
        executor: Executor,
        *,
        on_lost: Callable[[str], None],
        on_change: Callable[[QueueGroup], None],
        on_timeout: Callable[[QueueGroup, TopicIdPartition, list[Range]], None],
        on_gone: Callable[[QueueGroup, str, dict[TopicIdPartition, list[Operation]]], None],
    ) -> None:
        """Keep groups in `log`.

        `source` finds the partition of a queue, None when it is gone; `on_lost` is told what cannot
        be known any more; `on_change` of groups in which time, rather than a request, has changed
        something; `on_timeout` of messages of a partition that were with a member for too long;
        `on_gone` of what is taken back from a member whose session has timed out.
        """
        self.state = StateShard(log, self, executor, _unavailable, on_active=self._start)
        self._source = source
        self._now_ms = now_ms
        self._on_lost = on_lost
        self._on_change = on_change
        self._on_timeout = on_timeout
        self._on_gone = on_gone
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at_ms: int | None = None
        self._replay = QueueReplay(source, on_lost)
        self.groups: dict[str, QueueGroup] = {}

    # --- What is stored --------------------------------------------------------------------------

    def begin(self) -> None:
        """A replay begins; until it is over, everybody sees what was before."""
        self._replay = QueueReplay(self._source, self._on_lost)

    def replay(self, entries: Sequence[StateEntry], lost_count: int) -> None:
        """Take in entries as they were stored."""
        self._replay.take(entries, is_damaged=lost_count > 0)

    def loaded(self, lost_count: int) -> None:
        """The replay is over; members that are there stay there."""
        if lost_count:
            self._replay.regain()
        before, self.groups = self.groups, self._replay.groups
        for group_id, group in before.items():
            if group_id in self.groups:
                self.groups[group_id].members = group.members

    def dump(self) -> Iterator[StateEntry]:
        """Everything, as entries that would build it."""
        return dump(self.groups)

    # --- Changing --------------------------------------------------------------------------------

    def change(self, group: QueueGroup, changes: dict[TopicIdPartition, list[Operation]]) -> int:
        """Store what is decided, then apply it; returns what must be committed before it is told.

        Raises:
            CoordinatorUnavailableError: it could not be stored, and has not happened.
        """
        self._check_current(group)
        entries = [changes_entry(group, *change) for change in changes.items() if change[1]]
        if not entries:
            return 0
        begins = any(isinstance(each, Opened) for some in changes.values() for each in some)
        end_offset = self._append(entries, is_vital=begins)
        for place, operations in changes.items():
            queue = group.queues.get(place)
            for operation in operations:
                if queue is not None and not begins:
                    queue.apply(operation)
                elif (source := self._source(place)) is not None:
                    group.apply(place, operation, source.lanes)
        return end_offset

    async def store(
        self, group: QueueGroup, changes: dict[TopicIdPartition, list[Operation]]
    ) -> None:
        """`change`, and return when it is committed. Raises like it."""
        await self.state.committed(self.change(group, changes))

    async def put_group(self, group_id: str, settings: QueueSettings) -> QueueGroup:
        """Store a group's settings, of a new group or of one that is there. Raises like `store`."""
        end_offset = self._append([settings_entry(group_id, settings)], is_vital=True)
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = QueueGroup(group_id, settings)
        else:
            group.configure(settings)
            group.settings_are_lost = False
        await self.state.committed(end_offset)
        return group

    async def forget_group(self, group: QueueGroup) -> None:
        """Store that a group is gone. Raises like `store`."""
        self._check_current(group)
        end_offset = self._append([(group_key(group.group_id), None)], is_vital=True)
        del self.groups[group.group_id]
        await self.state.committed(end_offset)

    async def forget_queues(self, group: QueueGroup, places: list[TopicIdPartition]) -> None:
        """Store that a group reads some partitions no more. Raises like `store`."""
        self._check_current(group)
        if not places:
            return
        gone: list[StateEntry] = [(queue_key(group, place), None) for place in places]
        end_offset = self._append(gone, is_vital=True)
        for place in places:
            group.close(place)
        await self.state.committed(end_offset)

    def _check_current(self, group: QueueGroup) -> None:
        if self.groups.get(group.group_id) is not group:
            raise _unavailable()  # it was built anew, or is gone

    def _append(self, entries: Sequence[StateEntry], *, is_vital: bool = False) -> int:
        """Store entries; twice what is `is_vital`, in batches of their own.

        Later entries mean little without those: one damaged batch would cost all that they say.
        """
        try:
            if is_vital:
                self.state.append(entries)
            end_offset = self.state.append(entries)
        except StorageError as error:
            raise self.state.failed(error) from error
        self.state.save_if_due()
        return end_offset

    # --- Time ------------------------------------------------------------------------------------

    def wake_at(self, deadline_ms: int) -> None:
        """Look at the groups at this time, or earlier."""
        if self._wakes_at_ms is not None and self._wakes_at_ms <= deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at_ms = deadline_ms
        delay_s = max((deadline_ms - self._now_ms()) / 1000, _SHORTEST_WAIT_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def changed(self, group: QueueGroup) -> None:
        """Messages of a group came back, wait or are dead: see to them when it is time."""
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is not None:
            self.wake_at(deadline_ms)
        self._on_change(group)

    def _start(self) -> None:
        """Look at the groups that were loaded when their next deadline comes."""
        deadline_ms = min(
            (
                deadline_ms
                for group in self.groups.values()
                if (deadline_ms := group.next_deadline_ms()) is not None
            ),
            default=None,
        )
        if deadline_ms is not None:
            self.wake_at(deadline_ms)

    def _on_timer(self) -> None:
        self._timer = self._wakes_at_ms = None
        asyncio.get_running_loop().create_task(self.tick())

    async def tick(self) -> None:
        """Let time do its work: sessions end, leases run out, waiting is over."""
        now_ms = self._now_ms()
        if not self.state.is_open:
            return
        if not self.state.is_active:
            self.state.look()
            self.wake_at(now_ms + round(RETRY_S * 1000))
            return
        for group in list(self.groups.values()):
            try:
                if await self._tick_group(group, now_ms):
                    self._on_change(group)
            except CoordinatorUnavailableError:
                return  # the groups are built anew, and looked at then
        self._start()

    async def _tick_group(self, group: QueueGroup, now_ms: int) -> bool:
        """Let time do its work in one group; whether there is more to deliver or dead-letter."""
        has_changed = False
        for member_id in group.members.expired(now_ms):
            group.members.leave(member_id)
            group.forget_member(member_id)
            has_changed |= await self.release_member(group, member_id, now_ms)
        for place, queue in list(group.queues.items()):
            while operations := self._overdue(group, place, queue, now_ms):
                await self.store(group, {place: operations})
                await asyncio.sleep(0)
                has_changed = True
            while queue.wake(now_ms, LEASES_AT_ONCE):
                await asyncio.sleep(0)
                has_changed = True
        return has_changed

    async def release_member(self, group: QueueGroup, member_id: str, now_ms: int) -> bool:
        """Take back what a member has; says whether that was anything. Raises like `store`."""
        has_changed = False
        while changes := group.release_member(member_id, now_ms, LEASES_AT_ONCE):
            await self.store(group, changes)
            self._on_gone(group, member_id, changes)
            await asyncio.sleep(0)
            has_changed = True
        return has_changed

    def _overdue(
        self, group: QueueGroup, place: TopicIdPartition, queue: PartitionQueue, now_ms: int
    ) -> list[Operation]:
        """What is to become of messages that members have had for too long, of some leases."""
        operations: list[Operation] = []
        for ranges in islice(queue.overdue(now_ms), LEASES_AT_ONCE):
            self._on_timeout(group, place, ranges)
            operations += release(queue, ranges, group.settings, now_ms, TIMED_OUT)
        return operations

    async def close(self) -> None:
        """Keep the state for the next start, if this node still leads it."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._wakes_at_ms = None
        await self.state.save()
        await self.state.close()


def _unavailable() -> CoordinatorUnavailableError:
    return CoordinatorUnavailableError("the queue's state could not be stored; try again")
