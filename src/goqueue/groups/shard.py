"""One partition's worth of groups: a coordinator, kept in a state shard, and its timer.

The coordinator decides, the shard stores, and only then the replies go. When the log refuses,
everyone who waits is told, and the coordinator is built anew from what the log holds: what could
not be stored has not happened.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast
from uuid import uuid4

from goqueue.groups.coordinator import GroupCoordinator
from goqueue.groups.effects import Effects, Entry, OffsetMove, Reply, Token
from goqueue.model.errors import (
    CoordinatorLoadingError,
    CoordinatorUnavailableError,
    GoQueueError,
    NotCoordinatorError,
    StorageError,
)
from goqueue.state.shard import ShardStatus, StateShard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from goqueue.groups.member_memory import MemberMemory
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.stats import OnMember, OnRebalance
    from goqueue.state.log import StateEntry, StateLog

_R = TypeVar("_R")

_ISOLATED_S: Final = 0.5
"""How long after a deadline it is looked again whether the partition takes appends."""


class GroupShard:
    """The groups whose ids lead to one partition of the offsets topic."""

    def __init__(
        self,
        log: StateLog,
        settings: GroupSettings,
        memory: MemberMemory,
        now_ms: Callable[[], int],
        executor: Executor,
        *,
        settings_of: Callable[[str], GroupSettings],
        on_rebalance: OnRebalance,
        on_member: OnMember,
        on_gone: Callable[[str], None],
        on_moved: Callable[[Sequence[OffsetMove]], None],
        on_loaded: Callable[[GroupShard], None] | None = None,
    ) -> None:
        """Keep groups in `log`; `memory` is shared with the other shards.

        `on_gone` is told of those that there are no more, `on_moved` of committed offsets. In a
        cluster, where other nodes may coordinate the groups, `on_loaded` is called each time that
        this node takes them over.
        """
        self._in_cluster = on_loaded is not None
        refusal = self._moved if self._in_cluster else _unavailable
        self.state = StateShard(
            log, self, executor, refusal, complete=self._resume, on_active=self._on_active
        )
        self._on_loaded = on_loaded
        self._on_moved = on_moved
        self._on_rebalance = on_rebalance
        self._on_member = on_member
        self._on_gone = on_gone
        self._settings = settings
        self._memory = memory
        self._settings_of = settings_of
        self._now_ms = now_ms
        self._waiting: dict[Token, asyncio.Future[object]] = {}
        self._next_token = 0
        self._timer: asyncio.TimerHandle | None = None
        self._gone_topics: list[str] = []
        """Deleted since the state could last change; at most as many as there were topics."""
        self.coordinator = self._loading = self._new_coordinator()

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self._settings, lambda: str(uuid4()), self._memory, self._settings_of
        )

    # --- What is stored --------------------------------------------------------------------------

    def begin(self) -> None:
        """A replay begins: members that wait for something are told to try again."""
        self._disarm()
        self._send(self.coordinator.abandon().replies, None)
        self._loading = self._new_coordinator()

    def replay(self, entries: Sequence[StateEntry], _lost_count: int) -> None:
        """Take in entries as they were stored."""
        self._loading.load(Entry(key, value) for key, value in entries)

    async def _resume(self) -> None:
        """Everything was replayed: members have a whole session anew."""
        for _ in self._loading.resume(self._now_ms()):
            await asyncio.sleep(0)

    def loaded(self, _lost_count: int) -> None:
        """The replay is over."""
        self._loading.stats.on_rebalance = self._on_rebalance
        self._loading.stats.on_member = self._on_member
        self.coordinator = self._loading

    def _on_active(self) -> None:
        self._arm()
        self._forget_topics()
        if self._on_loaded is not None:
            self._on_loaded(self)

    def dump(self) -> Iterable[StateEntry]:
        """Everything, as entries that would build it."""
        return self.coordinator.dump()

    def read(self) -> GroupCoordinator:
        """The coordinator, for reading; raises the refusal while it is being built."""
        if not self.is_readable:
            raise self.state.refusal()
        return self.coordinator

    @property
    def is_readable(self) -> bool:
        """Whether the state is whole, and in a cluster this node's to tell."""
        return self.state.is_built and (not self._in_cluster or self.state.is_led)

    def _moved(self) -> CoordinatorUnavailableError:
        """Why a group cannot be served on this node of a cluster."""
        if not (self.state.is_open and self.state.is_led):
            return not_coordinator()
        if self.state.status is ShardStatus.LOADING and self.state.log.partition.failure is None:
            return CoordinatorLoadingError("the state of the group is being loaded; try again")
        return _unavailable()

    # --- Events ----------------------------------------------------------------------------------

    async def submit(
        self, event: Callable[[GroupCoordinator, Token, int], Effects], _result: type[_R]
    ) -> _R:
        """Let the coordinator see an event; returns its one answer.

        Raises:
            GroupError: the event was refused.
            CoordinatorUnavailableError: the log refuses appends.
        """
        if not self.state.is_active:
            if self._in_cluster:
                self.state.check()
            await self.state.active()
        token = Token(self._next_token)
        self._next_token += 1
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        self.perform(event(self.coordinator, token, self._now_ms()))
        return cast("_R", await future)

    def perform(self, effects: Effects) -> None:
        """Store, then tell."""
        try:
            end = self.state.append(effects.persist) if effects.persist else None
        except StorageError as error:
            self.state.failed(error, partial(self._send, effects.replies))
            return
        if effects.moves:
            self._on_moved(effects.moves)
        if effects.replies:
            self.state.reply(end, partial(self._send, effects.replies))
        for group_id in effects.gone:
            self._on_gone(group_id)
        self._arm()
        self.state.save_if_due()

    def forget_topic(self, name: str) -> None:
        """A topic is gone, and so is how far anyone has read it; done once it can be stored.

        What another node coordinates, that node forgets: by the time that this one takes over,
        there may be a topic of the same name.
        """
        if self._in_cluster and not self.state.is_open:
            return
        self._gone_topics.append(name)
        if self.state.is_active:
            self._forget_topics()

    def _forget_topics(self) -> None:
        names, self._gone_topics = self._gone_topics, []
        if names:
            self.perform(self.coordinator.delete_topics(names))

    def _send(self, replies: list[Reply], refusal: GoQueueError | None) -> None:
        for reply in replies:
            future = self._waiting.pop(reply.token, None)
            if future is None or future.done():
                continue
            result = refusal or reply.result
            if isinstance(result, GoQueueError):
                future.set_exception(result)
            else:
                future.set_result(result)

    # --- Time ------------------------------------------------------------------------------------

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Be woken when the coordinator next has something to do."""
        self._disarm()
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(deadline_ms - self._now_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.state.is_active:
            self.perform(self.coordinator.tick(self._now_ms()))
            return
        self.state.look()
        if self.state.log.partition.isolated is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_ISOLATED_S, self._on_timer)

    async def close(self) -> None:
        """Keep the state for the next start, and tell everyone who waits to try again."""
        self._disarm()
        await self.state.save()
        await self.state.close()
        self._gone_topics.clear()
        self._send(self.coordinator.abandon().replies, None)


def not_coordinator() -> NotCoordinatorError:
    """The refusal of a node that does not lead the partition of a group."""
    return NotCoordinatorError("another node coordinates the group: find it and ask there")


def _unavailable() -> CoordinatorUnavailableError:
    return CoordinatorUnavailableError("the group's state could not be stored; try again")
