"""One partition's worth of queue groups: their state, the log that it lives in, and its timer.

What happens to a message is stored before anybody is told. When the log refuses, the groups are
built anew from what it holds: what could not be stored has not happened.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.broker.queue_entries import (
    QueueReplay,
    changes_entry,
    dump,
    group_key,
    queue_key,
    settings_entry,
)
from goqueue.delivery.decisions import TIMED_OUT, release
from goqueue.delivery.operations import Opened
from goqueue.model.errors import CoordinatorUnavailableError, StorageError
from goqueue.partitions.damage import DamageKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from goqueue.broker.queue_entries import QueueSource
    from goqueue.broker.state_log import StateLog
    from goqueue.delivery.group import QueueGroup, QueueKey
    from goqueue.delivery.operations import Operation
    from goqueue.model.ids import Range

_log = logging.getLogger(__name__)

_SHORTEST_WAIT_S: Final = 0.02
"""Between two looks at what time has brought: many deadlines that lie close are one look."""
_RETRY_S: Final = 1.0


class QueueShard:
    """The queue groups whose ids lead to one partition of the queue state topic."""

    def __init__(
        self,
        state: StateLog,
        source: Callable[[QueueKey], QueueSource | None],
        now_ms: Callable[[], int],
        executor: Executor,
        *,
        on_change: Callable[[QueueGroup], None],
        on_timeout: Callable[[QueueGroup, QueueKey, list[Range]], None],
        on_gone: Callable[[QueueGroup, str, dict[QueueKey, list[Operation]]], None],
    ) -> None:
        """Keep groups in `state`.

        `source` finds the partition of a queue, None when it is gone; `on_change` is told of groups
        in which time, rather than a request, has changed something; `on_timeout` of messages of a
        partition that were with a member for too long; `on_gone` of what is taken back from a
        member that was not heard of.
        """
        self._state = state
        self._source = source
        self._now_ms = now_ms
        self._executor = executor
        self._on_change = on_change
        self._on_timeout = on_timeout
        self._on_gone = on_gone
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at_ms: int | None = None
        self._saving: asyncio.Task[None] | None = None
        self.generation = 0
        """Grows when the groups were built anew; what was taken before is not taken any more."""
        self.groups: dict[str, QueueGroup] = {}
        self._load()

    # --- Loading ---------------------------------------------------------------------------------

    def _load(self) -> None:
        """Build the groups from the log; members that are there stay there."""
        before = self.groups
        self.groups = QueueReplay(self._source, self._on_lost).run(self._state)
        for group_id, group in before.items():
            if group_id in self.groups:
                self.groups[group_id].members = group.members
        self.generation += 1

    def _on_lost(self, detail: str) -> None:
        partition = self._state.partition
        partition.damage.note(DamageKind.STATE, str(partition.id), detail, hash(detail))

    # --- Changing --------------------------------------------------------------------------------

    def check_writable(self) -> None:
        """Raise `CoordinatorUnavailableError` while nothing that happens could be stored."""
        if self._state.partition.log.failure is not None:
            raise _unavailable()

    async def store(self, group: QueueGroup, changes: dict[QueueKey, list[Operation]]) -> None:
        """Store what was applied already; return when it is as durable as the log promises.

        Raises:
            CoordinatorUnavailableError: it could not be stored, and has not happened.
        """
        begins = any(isinstance(each, Opened) for some in changes.values() for each in some)
        await self._append(
            [changes_entry(group, *change) for change in changes.items() if change[1]],
            is_vital=begins,
        )

    async def store_group(self, group: QueueGroup) -> None:
        """Store a group's settings. Raises like `store`."""
        await self._append([settings_entry(group)], is_vital=True)

    async def forget_group(self, group: QueueGroup) -> None:
        """Store that a group is gone. Raises like `store`."""
        await self._append([(group_key(group), None)], is_vital=True)

    async def forget_queues(self, group: QueueGroup, places: list[QueueKey]) -> None:
        """Store that a group reads some partitions no more. Raises like `store`."""
        await self._append([(queue_key(group, place), None) for place in places], is_vital=True)

    async def _append(
        self, entries: Sequence[tuple[bytes, bytes | None]], *, is_vital: bool = False
    ) -> None:
        """Store entries; twice what is `is_vital`, in batches of their own.

        Later entries mean little without those: one damaged batch would cost all that they say.
        """
        if not entries:
            return
        partition = self._state.partition
        try:
            for _ in range(2 if is_vital else 1):
                placed = self._state.append(entries)
            if not partition.is_durable(placed):
                await partition.durable(placed)
        except StorageError as error:
            _log.error("queue state could not be stored: %s", error)
            self._load()
            self.wake_at(self._now_ms() + round(_RETRY_S * 1000))
            raise _unavailable() from error
        if self._state.snapshot_is_due and self._saving is None:
            self._saving = asyncio.get_running_loop().create_task(self._save())

    async def _save(self) -> None:
        try:
            await self._state.save_snapshot_aside(dump(self.groups.values()), self._executor)
            await self._state.trim()
        finally:
            self._saving = None

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return self._state.snapshot_bytes

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

    def start(self) -> None:
        """Look at the groups that were loaded when their next deadline comes."""
        deadline_ms = self._next_deadline_ms()
        if deadline_ms is not None:
            self.wake_at(deadline_ms)

    def _on_timer(self) -> None:
        self._timer = self._wakes_at_ms = None
        asyncio.get_running_loop().create_task(self.tick())

    async def tick(self) -> None:
        """Let time do its work: sessions end, leases run out, waiting is over."""
        now_ms = self._now_ms()
        if self._state.partition.log.failure is not None:
            self.wake_at(now_ms + round(_RETRY_S * 1000))
            return
        for group in list(self.groups.values()):
            try:
                if await self._tick_group(group, now_ms):
                    self._on_change(group)
            except CoordinatorUnavailableError:
                return
        deadline_ms = self._next_deadline_ms()
        if deadline_ms is not None:
            self.wake_at(deadline_ms)

    async def _tick_group(self, group: QueueGroup, now_ms: int) -> bool:
        """Let time do its work in one group; says whether there is more to hand out or bury."""
        changes: dict[QueueKey, list[Operation]] = {}
        woken = False
        for member_id in group.members.expired(now_ms):
            group.members.leave(member_id)
            group.forget_member(member_id)
            released = group.release_member(member_id, now_ms)
            self._on_gone(group, member_id, released)
            _merge(changes, released)
        for place, queue in group.queues.items():
            for ranges in queue.overdue(now_ms):
                self._on_timeout(group, place, ranges)
                for operation in release(queue, ranges, group.settings, now_ms, TIMED_OUT):
                    queue.apply(operation)
                    changes.setdefault(place, []).append(operation)
            woken |= queue.wake(now_ms)
        if changes:
            await self.store(group, changes)
        return woken or bool(changes)

    def _next_deadline_ms(self) -> int | None:
        return min(
            (
                deadline_ms
                for group in self.groups.values()
                if (deadline_ms := group.next_deadline_ms()) is not None
            ),
            default=None,
        )

    async def stop(self) -> None:
        """Keep the state for the next start."""
        if self._timer is not None:
            self._timer.cancel()
        if self._saving is not None:
            await self._saving
        self._state.save_snapshot(dump(self.groups.values()))


def _merge(changes: dict[QueueKey, list[Operation]], more: dict[QueueKey, list[Operation]]) -> None:
    for place, operations in more.items():
        changes.setdefault(place, []).extend(operations)


def _unavailable() -> CoordinatorUnavailableError:
    return CoordinatorUnavailableError("the queue's state could not be stored; try again")
