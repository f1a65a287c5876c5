"""One partition's worth of queue groups: their state, the log that it lives in, and its timer.

What happens to a message is stored before anybody is told. When the log refuses, the groups are
built anew from what it holds: what could not be stored has not happened.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from goqueue.delivery import operations as ops
from goqueue.delivery.decisions import TIMED_OUT, release
from goqueue.delivery.group import QueueGroup
from goqueue.delivery.queue import PartitionQueue
from goqueue.delivery.settings import QueueSettings
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    CorruptQueueStateError,
    InvariantError,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from goqueue.broker.state_log import StateLog
    from goqueue.delivery.group import QueueKey
    from goqueue.delivery.lane_index import LaneIndex
    from goqueue.delivery.operations import Operation, Range

_log = logging.getLogger(__name__)

_GROUP: Final = b"g"
_QUEUE: Final = b"q"
_PLACE: Final = struct.Struct(">16sI")
_CHANGES: Final = 0
_WHOLE: Final = 1
_SHORTEST_WAIT_S: Final = 0.02
"""Between two looks at what time has brought: many deadlines that lie close are one look."""
_RETRY_S: Final = 1.0
_UNREADABLE: Final = (
    CorruptQueueStateError,
    InvariantError,
    KeyError,
    msgspec.MsgspecError,
    struct.error,
)


class QueueShard:
    """The queue groups whose ids lead to one partition of the queue state topic."""

    def __init__(
        self,
        state: StateLog,
        lanes: Callable[[QueueKey], LaneIndex | None],
        now_ms: Callable[[], int],
        executor: Executor,
        *,
        on_change: Callable[[QueueGroup], None],
        on_timeout: Callable[[QueueGroup, QueueKey, list[Range]], None],
        on_gone: Callable[[QueueGroup, str, dict[QueueKey, list[Operation]]], None],
    ) -> None:
        """Keep groups in `state`.

        `lanes` finds the lanes of a partition, None when it is gone; `on_change` is told of groups
        in which time, rather than a request, has changed something; `on_timeout` of messages of a
        partition that were with a member for too long; `on_gone` of what is taken back from a
        member that was not heard of.
        """
        self._state = state
        self._lanes = lanes
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
        before, self.groups = self.groups, {}
        for key, value in self._state.replay():
            try:
                self._replay(key, value)
            except _UNREADABLE as error:
                _log.error("%s: an entry of the queue state is lost: %s", key[:80], error)
        for group_id, group in before.items():
            if group_id in self.groups:
                self.groups[group_id].members = group.members
        self.generation += 1

    def _replay(self, key: bytes, value: bytes | None) -> None:
        if key[:1] == _GROUP:
            group_id = key[1:].decode()
            if value is None:
                self.groups.pop(group_id, None)
            else:
                settings = msgspec.json.decode(value, type=QueueSettings)
                if group_id in self.groups:
                    self.groups[group_id].configure(settings)
                else:
                    self.groups[group_id] = QueueGroup(group_id, settings)
            return
        topic_id, number = _PLACE.unpack_from(key, 1)
        place = (UUID(bytes=topic_id), number)
        group = self.groups.get(key[1 + _PLACE.size :].decode())
        lanes = self._lanes(place)
        if group is None or lanes is None:
            return
        if value is None:
            group.close(place)
        elif value[0] == _WHOLE:
            dumped = msgspec.msgpack.decode(value[1:])
            group.close(place)
            group.queues[place] = PartitionQueue.load(dumped, lanes, group.unacked)
        else:
            for operation in ops.decode(value[1:]):
                group.apply(place, operation, lanes)

    def _dump(self) -> Iterator[tuple[bytes, bytes]]:
        for group in self.groups.values():
            yield _GROUP + group.group_id.encode(), msgspec.json.encode(group.settings)
            for place, queue in group.queues.items():
                whole = msgspec.msgpack.encode(queue.dump())
                yield _queue_key(group, place), bytes((_WHOLE,)) + whole

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
        await self._append(
            [
                (_queue_key(group, place), bytes((_CHANGES,)) + ops.encode(operations))
                for place, operations in changes.items()
                if operations
            ]
        )

    async def store_group(self, group: QueueGroup) -> None:
        """Store a group's settings. Raises like `store`."""
        key = _GROUP + group.group_id.encode()
        await self._append([(key, msgspec.json.encode(group.settings))])

    async def forget_group(self, group: QueueGroup) -> None:
        """Store that a group is gone. Raises like `store`."""
        await self._append([(_GROUP + group.group_id.encode(), None)])

    async def forget_queues(self, group: QueueGroup, places: list[QueueKey]) -> None:
        """Store that a group reads some partitions no more. Raises like `store`."""
        await self._append([(_queue_key(group, place), None) for place in places])

    async def _append(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        if not entries:
            return
        partition = self._state.partition
        try:
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
            await self._state.save_snapshot_aside(self._dump(), self._executor)
            self._state.trim()
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
        self._state.save_snapshot(self._dump())


def _merge(changes: dict[QueueKey, list[Operation]], more: dict[QueueKey, list[Operation]]) -> None:
    for place, operations in more.items():
        changes.setdefault(place, []).extend(operations)


def _queue_key(group: QueueGroup, place: QueueKey) -> bytes:
    return _QUEUE + _PLACE.pack(place[0].bytes, place[1]) + group.group_id.encode()


def _unavailable() -> CoordinatorUnavailableError:
    return CoordinatorUnavailableError("the queue's state could not be stored; try again")
