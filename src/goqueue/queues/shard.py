"""One partition's worth of queue groups, kept in a state shard, and their timer.

What is decided on messages is stored, then applied, and told when it is committed.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

from goqueue.groups.shard import not_coordinator
from goqueue.groups.stats import LeaveReason
from goqueue.model.errors import (
    CoordinatorLoadingError,
    CoordinatorUnavailableError,
    StorageError,
)
from goqueue.queues.delivery.decisions import TIMED_OUT, release
from goqueue.queues.delivery.group import QueueGroup
from goqueue.queues.delivery.operations import Opened, Operation
from goqueue.queues.entries import (
    QueueReplay,
    changes_entry,
    dump,
    group_key,
    member_entry,
    member_key,
    queue_key,
    settings_entry,
)
from goqueue.state.shard import RETRY_S, ShardStatus, StateShard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from uuid import UUID

    from goqueue.groups.stats import OnMember
    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.queues.delivery.members import SharedMember
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
        executor: Executor,
        *,
        on_lost: Callable[[str], None],
        on_change: Callable[[QueueGroup], None],
        on_timeout: Callable[[QueueGroup, TopicIdPartition, list[Range]], None],
        on_gone: Callable[[QueueGroup, str, dict[TopicIdPartition, list[Operation]]], None],
        on_loaded: Callable[[QueueShard], None],
        on_left: OnMember,
        on_closed: Callable[[Iterable[QueueGroup]], None] | None = None,
    ) -> None:
        """Keep groups in `log`.

        `on_lost` is told what cannot be known any more; `on_change` of groups in which time, rather
        than a request, has changed something; `on_timeout` of messages of a partition that were
        with a member for too long; `on_gone` of what is taken back from a member whose session has
        timed out; `on_loaded` is called each time that the groups were built from the log;
        `on_left` is told of members that are gone.

        In a cluster, where other nodes may keep the groups meanwhile, `on_closed` is told of those
        that this node keeps no more, and members are stored: when another node takes over, they
        need not join again.
        """
        self._in_cluster = on_closed is not None
        refusal = self._moved if self._in_cluster else _unavailable
        self.state = StateShard(log, self, executor, refusal, on_active=self._on_active)
        self.now_ms = log.now_ms
        """The time by which leases, retries and sessions are counted."""
        self._on_lost = on_lost
        self._on_change = on_change
        self._on_timeout = on_timeout
        self._on_gone = on_gone
        self._on_loaded = on_loaded
        self._on_left = on_left
        self._on_closed = on_closed
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at_ms: int | None = None
        self._replay = QueueReplay(on_lost)
        self.groups: dict[str, QueueGroup] = {}

    # --- What is stored --------------------------------------------------------------------------

    def begin(self) -> None:
        """A replay begins; until it is over, everybody sees what was before."""
        self._replay = QueueReplay(self._on_lost)

    def replay(self, entries: Sequence[StateEntry], lost_count: int) -> Iterator[None]:
        """Take in entries as they were stored, in steps: a queue may have a million messages."""
        return self._replay.take(entries, is_damaged=lost_count > 0)

    def loaded(self, _lost_count: int) -> None:
        """The replay is over; members that are there stay there, others have a session anew."""
        before, self.groups = self.groups, self._replay.groups
        now_ms = self.now_ms()
        for group_id, group in self.groups.items():
            if group_id in before:
                group.members = before[group_id].members
                continue
            for member in group.members:
                member.deadline_ms = now_ms + member.session_ms

    def topic_ids(self) -> set[UUID]:
        """The topics that groups read."""
        return {topic_id for group in self.groups.values() for topic_id, _ in group.queues}

    def close_topics(self, topic_ids: Collection[UUID]) -> None:
        """Topics are gone: their messages are nobody's any more."""
        for group in self.groups.values():
            for key in [key for key in group.queues if key[0] in topic_ids]:
                group.close(key)

    def dump(self) -> Iterator[StateEntry]:
        """Everything, as entries that would build it."""
        return dump(self.groups)

    @property
    def is_readable(self) -> bool:
        """Whether the groups are whole, and in a cluster this node's to tell of."""
        return self.state.is_open and (
            not self._in_cluster or (self.state.is_built and self.state.is_led)
        )

    def _moved(self) -> CoordinatorUnavailableError:
        """Why a group cannot be served on this node of a cluster."""
        if not (self.state.is_open and self.state.is_led):
            return not_coordinator()
        if self.state.status is ShardStatus.LOADING and self.state.log.partition.failure is None:
            return CoordinatorLoadingError("the state of the queue is being loaded; try again")
        return _unavailable()

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
            for operation in operations:
                if begins:
                    group.apply(place, operation)
                elif (queue := group.queues.get(place)) is not None:
                    queue.apply(operation)
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

    async def put_member(self, group: QueueGroup, member: SharedMember) -> None:
        """Store that a member is there, where others may have to know. Raises like `store`."""
        if self._in_cluster:
            self._check_current(group)
            member.is_stored = True
            await self.state.committed(self._append([member_entry(group, member)]))

    def end_member(self, group: QueueGroup, member_id: str, reason: LeaveReason) -> None:
        """A member has left, or its session has timed out.

        Raises:
            UnknownMemberError: there is no such member.
            CoordinatorUnavailableError: it could not be stored.
        """
        member = group.members.leave(member_id)
        group.forget_member(member_id)
        if member.is_stored:
            self._append([(member_key(group, member_id), None)])
        self._on_left(group.group_id, member_id, reason)

    def _check_current(self, group: QueueGroup) -> None:
        if self.groups.get(group.group_id) is not group:
            raise self.state.refusal()  # it was built anew, or is gone

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
        delay_s = max((deadline_ms - self.now_ms()) / 1000, _SHORTEST_WAIT_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def changed(self, group: QueueGroup) -> None:
        """Messages of a group came back, wait or are dead: see to them when it is time."""
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is not None:
            self.wake_at(deadline_ms)
        self._on_change(group)

    def _on_active(self) -> None:
        self._on_loaded(self)
        self._start()

    def _start(self) -> None:
        """Look at the groups when their next deadline comes."""
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
        now_ms = self.now_ms()
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
            self.end_member(group, member_id, LeaveReason.SESSION_TIMEOUT)
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

    async def release_member(
        self,
        group: QueueGroup,
        member_id: str,
        now_ms: int,
        keys: Collection[TopicIdPartition] | None = None,
    ) -> bool:
        """Take back what a member has, or has of some partitions; says whether that was anything.

        Raises like `store`.
        """
        has_changed = False
        while changes := group.release_member(member_id, now_ms, LEASES_AT_ONCE, keys):
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
        """Keep the state for the next start, if this node still leads it.

        A node that does not lead it keeps nothing but the log.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._wakes_at_ms = None
        await self.state.save()
        await self.state.close()
        if self._on_closed is not None:
            left, self.groups = self.groups, {}
            self._replay = QueueReplay(self._on_lost)
            self._on_closed(left.values())


def _unavailable() -> CoordinatorUnavailableError:
    return CoordinatorUnavailableError("the queue's state could not be stored; try again")
