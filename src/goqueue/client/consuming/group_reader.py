"""The share of a group that one member reads: heartbeats, assignment, committed offsets."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from goqueue.client.consuming.coordinator import Coordinator
from goqueue.client.consuming.decoding import messages_of
from goqueue.client.consuming.fetcher import Fetcher
from goqueue.client.consuming.inbox import Inbox
from goqueue.client.consuming.log_offsets import ENDS, bounds_of, list_offsets
from goqueue.client.consuming.membership import Membership
from goqueue.client.errors import BrokerUnavailableError
from goqueue.client.link.codes import RetriableBrokerError
from goqueue.model.errors import FencedMemberEpochError, GoQueueError, UnknownMemberError
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from goqueue.client.link.link import Link

_log = logging.getLogger(__name__)

_SLOWEST_HEARTBEAT_S: Final = 2.0
"""Sent more often than they must be: a partition changes hands within two heartbeats."""
_LEAVING_S: Final = 2.0
"""How long the broker may take to answer that the member has left."""
_REMOVED: Final = (UnknownMemberError, FencedMemberEpochError)

_numbers: Final = count(1)


class GroupReader:
    """Keeps an inbox filled with what the group assigns to this member."""

    def __init__(
        self,
        link: Link,
        group: str,
        topics: Sequence[str],
        *,
        start: str,
        auto_commit_ms: float | None,
        client_id: str,
    ) -> None:
        if isinstance(topics, str) or not topics:
            raise ValueError(f"topics: {topics!r} is not a list of one topic or more")
        if start not in ENDS:
            raise ValueError(f"start: {start!r} is not 'earliest' or 'latest'")
        self._link = link
        self._start_at = ENDS[start]
        self._auto_commit_ms = auto_commit_ms
        self._client_id = client_id
        self._lane: Final = f"group {next(_numbers)}"
        self._member = Membership(group, topics, f"{client_id or 'member'}-{uuid4().hex}")
        self._coordinator = Coordinator(link, self._member, self._lane)
        self._news = asyncio.Event()
        """There is something to take, or there never will be."""
        self.inbox: Final = Inbox(self._news.set)
        self._fetcher = Fetcher(link, self.inbox, messages_of, self._relocate, is_patient=True)
        self.assignment: frozenset[TopicPartition] = frozenset()
        """The partitions that this member reads at the moment."""
        self._places: dict[TopicIdPartition, TopicPartition] = {}
        """Those that it owns: it reads them, or is giving them up."""
        self._committed: dict[TopicPartition, int] = {}
        self._committing = asyncio.Lock()
        self._is_joined = asyncio.Event()
        self._is_due = asyncio.Event()
        """A heartbeat has something to say."""
        self._is_finished = asyncio.Event()
        """The program has finished what it had in hand."""
        self._last_error: GoQueueError | None = None
        self._reconciling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def group(self) -> str:
        """The group that this is a member of."""
        return self._member.group

    @property
    def member_id(self) -> str:
        """What the group calls this member."""
        return self._member.member_id

    @property
    def member_epoch(self) -> int:
        """Grows with each assignment; 0 before the member has joined."""
        return self._member.epoch

    @property
    def auto_commits(self) -> bool:
        """Whether what is finished is committed without asking."""
        return self._auto_commit_ms is not None

    def positions(self) -> dict[TopicPartition, int]:
        """Where this member goes on reading, after everything that was taken."""
        return self.inbox.positions(finished_only=False)

    # --- From joining to leaving -----------------------------------------------------------------

    async def _join(self) -> None:
        """Join the group; returns when the broker has assigned partitions, or none.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        self._link.check()
        if self._client_id:
            self._link.name_lane(self._lane, self._client_id)
        self._run(self._beat)
        if self._auto_commit_ms is not None:
            self._run(self._auto_commit, self._auto_commit_ms / 1000)
        await self._joined()

    async def _joined(self) -> None:
        timeout_s = self._link.settings.call_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_joined.wait()
        except TimeoutError:
            raise BrokerUnavailableError(
                f"joining group {self.group!r}: no answer from {self._link} for {timeout_s:g} s; "
                f"last: {self._last_error}"
            ) from None
        if self.inbox.failure is not None:
            raise self.inbox.failure

    async def _leave(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._fetcher.close()
        if self._member.has_spoken and not self._link.is_closed:
            with suppress(GoQueueError, TimeoutError):
                async with asyncio.timeout(_LEAVING_S):
                    await self._coordinator.leave()
        self._link.hang_up(self._lane)

    def _run(self, work: Callable[..., Awaitable[None]], *args: Any) -> asyncio.Task[None]:
        name = f"goqueue member of {self.group}"
        task = asyncio.create_task(self._guarded(work, *args), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Whatever goes wrong is told: nobody must wait for what will never come."""
        try:
            await work(*args)
        except Exception as error:  # noqa: BLE001 - it reaches whoever iterates
            self.inbox.fail(self._link.reason(error))
            self._is_joined.set()

    # --- Being a member --------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Send heartbeats, and follow what is answered."""
        failures = 0
        while True:
            self._is_due.clear()
            pause_s = 0.0
            try:
                await self._coordinator.heartbeat()
            except _REMOVED as error:
                _log.warning("group %s is joined again: %s", self.group, error)
                self._lose_session()
                failures += 1
                pause_s = self._link.settings.backoff_s(failures)
            except GoQueueError as error:
                if not error.retriable or self._link.is_closed:
                    raise
                self._last_error = error
                failures += 1
                _log.info("heartbeat to group %s failed, retrying: %s", self.group, error)
                pause_s = self._link.settings.backoff_s(failures)
            else:
                failures = 0
                self._follow()
                pause_s = min(self._member.interval_s, _SLOWEST_HEARTBEAT_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._is_due.wait()

    def _lose_session(self) -> None:
        """The group has removed this member: what was not committed is read again, by somebody."""
        if self._reconciling is not None:
            self._reconciling.cancel()
            self._reconciling = None
        self._member.rejoin()
        self._is_joined.clear()
        self._fetcher.clear()
        self.inbox.clear()
        self.assignment = frozenset()
        self._places.clear()
        self._committed.clear()

    def _follow(self) -> None:
        """Begin to do what the coordinator has assigned."""
        if self._reconciling is not None and not self._reconciling.done():
            return
        if self._member.is_settled:
            self._is_joined.set()
        elif self._member.target is not None:
            self._reconciling = self._run(self._reconcile)

    async def _reconcile(self) -> None:
        member = self._member
        failures = 0
        while member.target is not None and not member.is_settled:
            try:
                given_up = member.owned - member.target
                if given_up:
                    await self._release(given_up)
                else:
                    await self._take_over(member.target - member.owned)
                failures = 0
            except GoQueueError as error:
                if self._link.is_closed or not (error.retriable or isinstance(error, _REMOVED)):
                    raise
                _log.info("group %s: an assignment is tried again: %s", self.group, error)
                failures += 1
                await asyncio.sleep(self._link.settings.backoff_s(failures))
            self._is_due.set()
        self._is_joined.set()

    async def _release(self, partitions: frozenset[TopicIdPartition]) -> None:
        """Give partitions up once they are not in hand any more, with what is done of them."""
        places = {self._places[each] for each in partitions}
        self.assignment -= places
        self._fetcher.remove(places)
        self.inbox.drop(places)
        while self.inbox.holds_any(places):
            self._is_finished.clear()
            await self._is_finished.wait()
        if self.auto_commits:
            with suppress(GoQueueError):
                await self._commit(finished_only=True)
        self.inbox.keep_only(self.assignment)
        for each in partitions:
            del self._places[each]
        self._member.own(self._member.owned - partitions)

    async def _take_over(self, partitions: frozenset[TopicIdPartition]) -> None:
        """Read partitions from where the group has committed, or from where it was told to."""
        places = {each: TopicPartition(await self._name(each), each[1]) for each in partitions}
        offsets = await self._coordinator.committed(places.values())
        new = [place for place in places.values() if place not in offsets]
        begin = offsets | await list_offsets(self._link, dict.fromkeys(new, self._start_at))
        if not partitions <= (self._member.target or frozenset()):
            return  # they are somebody else's by now
        self._places |= places
        self._committed |= offsets
        # How far this member was in an earlier session counts no more: others may be further.
        self.inbox.keep_only(self.assignment)
        self.assignment |= frozenset(places.values())
        for (topic_id, _), place in places.items():
            self._fetcher.add(place, topic_id, begin[place])
        self._fetcher.poke()
        self._member.own(self._member.owned | partitions)

    async def _name(self, partition: TopicIdPartition) -> str:
        names = self._link.metadata.names
        if partition[0] not in names:
            await self._link.topics(self._member.topics)
            if partition[0] not in names:
                raise RetriableBrokerError(f"there is no topic with the id {partition[0]} (yet)")
        return names[partition[0]]

    async def _relocate(self, place: TopicPartition, offset: int) -> int:
        """Where to read on when there is nothing at an offset: where new members begin."""
        first, end = await bounds_of(self._link, (place,))
        if first[place] <= offset <= end[place]:
            return offset
        found = first[place] if self._start_at == ENDS["earliest"] else end[place]
        _log.warning(
            "%s: offset %d is out of range, consuming from offset %d", place, offset, found
        )
        return found

    # --- Committing ------------------------------------------------------------------------------

    async def _commit(self, *, finished_only: bool) -> None:
        async with self._committing:
            owned = set(self._places.values())
            positions = {
                place: offset
                for place, offset in self.inbox.positions(finished_only=finished_only).items()
                if place in owned and self._committed.get(place) != offset
            }
            if not positions:
                return
            try:
                await self._coordinator.commit(positions)
            except _REMOVED:
                self._is_due.set()  # the heartbeat is told the same, and joins again
                raise
            self._committed |= positions

    async def _auto_commit(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self._commit(finished_only=True)
            except GoQueueError as error:
                if self._link.is_closed:
                    raise
                _log.warning("the next commit will try again: %s", error)
