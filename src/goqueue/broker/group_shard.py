"""One partition's worth of groups: a coordinator, the log that it lives in, and its timer.

The coordinator decides, this does: it stores what must be durable, and only then lets the replies
go. When the log refuses, everyone who waits is told, and the coordinator is built anew from what
the log holds: what could not be stored has not happened. Until the log takes appends again, every
request is refused at once, because building it anew takes far longer than a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar, cast
from uuid import uuid4

from goqueue.groups.coordinator import GroupCoordinator
from goqueue.groups.effects import Effects, Entry, Token
from goqueue.model.errors import CoordinatorUnavailableError, GroupError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.broker.state_log import StateLog
    from goqueue.groups.effects import OffsetMove, Reply
    from goqueue.groups.member_memory import MemberMemory
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.stats import OnRebalance
    from goqueue.partitions.partition import Placed

_log = logging.getLogger(__name__)
_R = TypeVar("_R")

_RETRY_S: Final = 1.0
"""Between looks whether a log that refused takes appends again."""


class GroupShard:
    """The groups whose ids lead to one partition of the offsets topic."""

    def __init__(
        self,
        state: StateLog,
        settings: GroupSettings,
        memory: MemberMemory,
        now_ms: Callable[[], int],
        *,
        settings_of: Callable[[str], GroupSettings],
        on_rebalance: OnRebalance,
        on_gone: Callable[[str], None],
        on_moved: Callable[[Sequence[OffsetMove]], None],
    ) -> None:
        """Keep groups in `state`; `memory` is shared with the other shards.

        `on_gone` is told of those that there are no more, `on_moved` of committed offsets.
        """
        self._on_moved = on_moved
        self._on_rebalance = on_rebalance
        self._on_gone = on_gone
        self._state = state
        self._settings = settings
        self._memory = memory
        self._settings_of = settings_of
        self._now_ms = now_ms
        self._waiting: dict[Token, asyncio.Future[object]] = {}
        self._next_token = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unsettled: deque[tuple[Placed, list[Reply]]] = deque()
        self._settling: asyncio.Task[None] | None = None
        self._is_suspended = False
        """The log has failed since something could not be stored; nothing happens until it has
        recovered."""
        self.coordinator = self._load()

    def _load(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            self._settings, lambda: str(uuid4()), self._memory, self._settings_of
        )
        coordinator.load(Entry(key, value) for key, value in self._state.replay())
        coordinator.resume(self._now_ms())
        coordinator.stats.on_rebalance = self._on_rebalance
        return coordinator

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return self._state.snapshot_bytes

    def submit(
        self, event: Callable[[Token, int], Effects], _result: type[_R]
    ) -> asyncio.Future[_R]:
        """Let the coordinator see an event; the future is its one answer.

        The future raises `GroupError` when the event was refused.

        Raises:
            CoordinatorUnavailableError: the log refuses appends.
        """
        if not self._may_act():
            raise _unavailable()
        token = Token(self._next_token)
        self._next_token += 1
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        self.perform(event(token, self._now_ms()))
        return cast("asyncio.Future[_R]", future)

    def perform(self, effects: Effects) -> None:
        """Store, then tell."""
        try:
            placed = self._state.append(effects.persist) if effects.persist else None
        except StorageError as error:
            self._give_up(effects, error)
            return
        if effects.moves:
            self._on_moved(effects.moves)
        self._tell(effects.replies, placed)
        for group_id in effects.gone:
            self._on_gone(group_id)
        self._arm()
        if self._state.snapshot_is_due:
            self._state.save_snapshot(self.coordinator.dump())

    def _tell(self, replies: list[Reply], placed: Placed | None) -> None:
        """Send the replies now, or behind those that still wait for the disk."""
        durable = placed is None or self._state.partition.is_durable(placed)
        if durable and not self._unsettled:
            self._send(replies)
            return
        last = placed or self._unsettled[-1][0]
        self._unsettled.append((last, replies))
        if self._settling is None:
            self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def _settle(self) -> None:
        """Let replies go in order, each when what it stands on is on the disk."""
        try:
            while self._unsettled:
                placed, replies = self._unsettled[0]
                await self._state.partition.durable(placed)
                self._unsettled.popleft()
                self._send(replies)
        except StorageError as error:
            pending = [reply for _, replies in self._unsettled for reply in replies]
            self._unsettled.clear()
            self._give_up(Effects(replies=pending), error)
        finally:
            self._settling = None

    def _send(self, replies: list[Reply]) -> None:
        for reply in replies:
            future = self._waiting.pop(reply.token, None)
            if future is None or future.done():
                continue
            if isinstance(reply.result, GroupError):
                future.set_exception(reply.result)
            else:
                future.set_result(reply.result)

    def _give_up(self, effects: Effects, error: StorageError) -> None:
        """Nothing that was not stored has happened: start again from the log."""
        _log.error("group state could not be stored: %s", error)
        refusal = _unavailable()
        for reply in effects.replies:
            future = self._waiting.pop(reply.token, None)
            if future is not None and not future.done():
                future.set_exception(refusal)
        self._send(self.coordinator.abandon().replies)
        self.coordinator = self._load()
        self._is_suspended = self._state.partition.log.failure is not None
        self._arm()

    def _may_act(self) -> bool:
        """Whether what happens can be stored. After a failure members have a whole session anew."""
        if self._is_suspended and self._state.partition.log.failure is None:
            self._send(self.coordinator.abandon().replies)
            self.coordinator = self._load()
            self._is_suspended = False
        return not self._is_suspended

    # --- Time ------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Be woken when the coordinator next has something to do."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        if self._is_suspended:
            self._timer = loop.call_later(_RETRY_S, self._on_timer)
            return
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(deadline_ms - self._now_ms(), 0) / 1000
            self._timer = loop.call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._may_act():
            self.perform(self.coordinator.tick(self._now_ms()))
        else:
            self._arm()

    async def stop(self) -> None:
        """Tell everyone who waits to come again, and keep the state for the next start."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._settling is not None:
            await self._settling
        self._state.save_snapshot(self.coordinator.dump())
        self._send(self.coordinator.abandon().replies)


def _unavailable() -> CoordinatorUnavailableError:
    return CoordinatorUnavailableError("the group's state could not be stored; try again")
