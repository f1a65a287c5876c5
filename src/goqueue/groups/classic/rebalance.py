"""The phases of a classic group: prepare, begin a generation, complete, and time running out.

```
             join                    all joined, or time up             leader syncs
  Empty ------------> Preparing ---------------------------> Completing -----------> Stable
    ^                  |  ^  ^                                   |                      |
    '-- nobody left ---'  |  '--- join, leave, expiry -----------'                      |
                          '------ join, leave, expiry ----------------------------------'
```

A generation is told to the members when it begins (`_begin_generation`), stored when the leader
has brought its assignments, and only then are the assignments told (`_settle`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.assignors import count_moves
from goqueue.groups.classic.roster import ClassicRoster
from goqueue.groups.classic.state import LEGAL_MOVES, ClassicState
from goqueue.groups.consumer.protocol import PROTOCOL_TYPE, assigned_partitions
from goqueue.groups.core import GroupCore, GroupTimer, TimerKind
from goqueue.groups.encoding import ClassicGroupValue, GroupKey, put
from goqueue.groups.messages import JoinResult, SyncResult
from goqueue.groups.stats import GroupStats, LeaveReason, RebalanceReason
from goqueue.model.errors import (
    GroupError,
    InvariantError,
    RebalanceInProgressError,
    UnknownMemberError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.classic.member import ClassicMember
    from goqueue.groups.effects import Effects, Entry, Token
    from goqueue.groups.settings import GroupSettings
    from goqueue.model.topic_partition import TopicPartition


_JOIN_TIMER = GroupTimer(TimerKind.JOIN)
_SYNC_TIMER = GroupTimer(TimerKind.SYNC)


class ClassicRebalance(GroupCore):
    """The state of a classic group and its phases; `ClassicGroup` adds the requests.

    `generation` counts the rebalances that began. It grows by one in `_begin_generation` and never
    otherwise; whoever names another one is a zombie.
    """

    roster: ClassicRoster

    def __init__(self, group_id: str, settings: GroupSettings, stats: GroupStats) -> None:
        super().__init__(group_id, settings, stats)
        self.roster = ClassicRoster()
        self._state = ClassicState.EMPTY
        self.state_since_ms = 0
        self.generation = 0
        self.protocol_name: str | None = None
        self.subscribed: frozenset[str] | None = None
        """The topics that this generation reads; None when that cannot be known."""
        self.stored: Entry | None = None
        """What the log holds of this group: the newest finished rebalance."""
        self._was_empty = False
        """The rebalance under way began in an empty group, which waits for more members."""
        self._grew = False
        """A member arrived while an empty group waited, so it may wait longer."""
        self._wait_left_ms = 0
        self._partitions: Mapping[str, frozenset[TopicPartition]] | None = None

    @property
    def state(self) -> ClassicState:
        """Changed by `transition_to` alone."""
        return self._state

    # --- The gate ------------------------------------------------------------------------------

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        """Make one of the legal moves; there is no other way to change the state."""
        if state not in LEGAL_MOVES[self.state]:
            raise InvariantError(f"group {self.group_id!r} cannot go from {self.state} to {state}")
        self._state = state
        self.state_since_ms = now_ms

    # --- Preparing -----------------------------------------------------------------------------

    def _rebalance(self, reason: RebalanceReason, now_ms: int, out: Effects) -> None:
        """Start a rebalance, or let the one that members are joining for take its course."""
        if self.state is ClassicState.PREPARING_REBALANCE:
            self._begin_if_all_joined(now_ms, out)
            return
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self._refuse_syncing(now_ms, out)
        self._prepare(reason, now_ms)
        if self._was_empty:
            self._wait_for_more(now_ms, self.roster.rebalance_timeout_ms, out)
        else:
            self._begin_if_all_joined(now_ms, out)

    def _prepare(self, reason: RebalanceReason, now_ms: int) -> None:
        """From here on members are told to join, and have the rebalance timeout to do so."""
        self.timers.cancel(_SYNC_TIMER)
        self.roster.unsynced.clear()
        self._was_empty = self.state is ClassicState.EMPTY
        self._grew = False
        self.stats.started(reason, now_ms)
        self.transition_to(ClassicState.PREPARING_REBALANCE, now_ms)
        self.timers.set(_JOIN_TIMER, now_ms + self.roster.rebalance_timeout_ms)

    def _wait_for_more(self, now_ms: int, budget_ms: int, out: Effects) -> None:
        """An empty group gives its first members company before it begins."""
        delay_ms = min(self.settings.initial_rebalance_delay_ms, budget_ms)
        self._wait_left_ms = budget_ms - delay_ms
        if delay_ms <= 0:
            self._begin_generation(now_ms, out)
        else:
            self.timers.set(_JOIN_TIMER, now_ms + delay_ms)

    def _begin_if_all_joined(self, now_ms: int, out: Effects) -> None:
        if self._was_empty or self.state is not ClassicState.PREPARING_REBALANCE:
            return
        if self.roster.has_all_joined:
            self._begin_generation(now_ms, out)

    def _join_time_is_up(self, now_ms: int, out: Effects) -> None:
        if self._was_empty and self._grew and self._wait_left_ms > 0:
            self._grew = False
            self._wait_for_more(now_ms, self._wait_left_ms, out)
        else:
            self._begin_generation(now_ms, out)

    # --- Beginning a generation ----------------------------------------------------------------

    def _begin_generation(self, now_ms: int, out: Effects) -> None:
        """Everyone who has joined is in the new generation; dynamic members who have not are out.

        A static member that is still away keeps its place until its session ends.
        """
        self.timers.cancel(_JOIN_TIMER)
        roster = self.roster
        for member in list(roster.members.values()):
            if member.member_id not in roster.joining and member.instance_id is None:
                self._forget(member, LeaveReason.REBALANCE_TIMEOUT, out)
        if not self._leader_has_joined():
            # Only absent static members are left: wait for them, or for their sessions to end.
            self.timers.set(_JOIN_TIMER, now_ms + max(roster.rebalance_timeout_ms, 1))
            return
        self._was_empty = False
        self.generation += 1
        self.protocol_name = roster.elect_protocol()
        self.subscribed = roster.subscribed_topics(self.protocol_name)
        if roster.members:
            self.transition_to(ClassicState.COMPLETING_REBALANCE, now_ms)
            self._answer_joins(now_ms, out)
        else:
            self.transition_to(ClassicState.EMPTY, now_ms)
            self._partitions = None
            self._store(out)
            self.stats.completed(now_ms)

    def _leader_has_joined(self) -> bool:
        """Keep the leader if it joined, else elect one that did; an empty group needs none."""
        roster = self.roster
        if not roster.members or roster.leader_id in roster.joining:
            return True
        joined = next(
            (member_id for member_id in roster.members if member_id in roster.joining), None
        )
        roster.leader_id = joined or roster.leader_id
        return joined is not None

    def _answer_joins(self, now_ms: int, out: Effects) -> None:
        roster = self.roster
        for member in roster.members.values():
            token = roster.joining.pop(member.member_id, None)
            if token is not None:
                out.reply(token, self._join_result(member))
            roster.new.discard(member.member_id)
            member.carried_generation = None
            self._heard_from(member, now_ms)
            roster.unsynced.add(member.member_id)
        self.timers.set(_SYNC_TIMER, now_ms + max(roster.rebalance_timeout_ms, 1))

    def _join_result(self, member: ClassicMember) -> JoinResult:
        """What a member is told of the generation that it is in."""
        leads = member.member_id == self.roster.leader_id
        return JoinResult(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.roster.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.roster.leader_id or "",
            members=self.roster.for_leader(self.protocol_name) if leads else (),
        )

    # --- Completing ----------------------------------------------------------------------------

    def _settle(self, assignments: Mapping[str, bytes], now_ms: int, out: Effects) -> None:
        """The leader has decided: store it, then tell everyone who waits."""
        self.roster.assign(assignments)
        self.transition_to(ClassicState.STABLE, now_ms)
        self._store(out)
        for member_id, token in self.roster.syncing.items():
            member = self.roster.members[member_id]
            out.reply(token, self._sync_result(member))
            self._heard_from(member, now_ms)
        self.roster.syncing.clear()
        self._count_moves(now_ms)

    def _sync_result(self, member: ClassicMember) -> SyncResult:
        return SyncResult(
            protocol_type=self.roster.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def _refuse_syncing(self, now_ms: int, out: Effects) -> None:
        for member_id, token in self.roster.syncing.items():
            out.reply(token, self._rebalancing_error())
            # Its session may have ended unnoticed while it waited here.
            self._heard_from(self.roster.members[member_id], now_ms)
        self.roster.syncing.clear()

    def _synced(self, member_id: str) -> None:
        """A member asked for its assignment, so nobody needs to chase it."""
        self.roster.unsynced.discard(member_id)
        if not self.roster.unsynced:
            self.timers.cancel(_SYNC_TIMER)

    def _sync_time_is_up(self, now_ms: int, out: Effects) -> None:
        """Members that never asked for their assignment are gone; the rest starts over."""
        for member_id in list(self.roster.unsynced):
            self._forget(self.roster.members[member_id], LeaveReason.SYNC_TIMEOUT, out)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self.stats.given_up()
        self._rebalance(RebalanceReason.SYNC_TIMEOUT, now_ms, out)

    def _store(self, out: Effects) -> None:
        """The line that makes a finished rebalance durable; replies of these effects wait."""
        value = ClassicGroupValue(
            self.generation,
            self.roster.protocol_type,
            self.protocol_name,
            self.roster.leader_id,
            self.state_since_ms,
            tuple(self.roster.members.values()),
        )
        self.stored = put(GroupKey(self.group_id), value)
        out.persist.append(self.stored)

    def _count_moves(self, now_ms: int) -> None:
        before, self._partitions = self._partitions, self._read_assignments()
        if self._partitions is None:
            self.stats.completed(now_ms)
            return
        revoked, assigned = count_moves(before or {}, self._partitions)
        self.stats.completed(now_ms, revoked=revoked, assigned=assigned)

    def _read_assignments(self) -> dict[str, frozenset[TopicPartition]] | None:
        if self.roster.protocol_type != PROTOCOL_TYPE:
            return None
        parts = {
            m.member_id: assigned_partitions(m.assignment) for m in self.roster.members.values()
        }
        known = {member_id: each for member_id, each in parts.items() if each is not None}
        return known if len(known) == len(parts) else None

    # --- Members that go, and time -------------------------------------------------------------

    def _heard_from(self, member: ClassicMember, now_ms: int) -> None:
        """The session of a member begins anew."""
        timer = GroupTimer(TimerKind.SESSION, member.member_id)
        self.timers.set(timer, now_ms + member.session_timeout_ms)

    def _forget(self, member: ClassicMember, reason: LeaveReason, out: Effects) -> None:
        """Take a member out and answer what it waits for; the caller sees to the rebalance."""
        self._dismiss_waiting(
            member.member_id,
            UnknownMemberError(f"{member.member_id!r} was removed from the group: join again"),
            out,
        )
        self.timers.cancel(GroupTimer(TimerKind.SESSION, member.member_id))
        self.roster.remove(member.member_id)
        self.stats.left(member.member_id, reason)

    def _remove(
        self, member: ClassicMember, reason: LeaveReason, now_ms: int, out: Effects
    ) -> None:
        """Take a member out and rebalance without it."""
        self._forget(member, reason, out)
        self._rebalance(reason.rebalance_reason, now_ms, out)

    def _dismiss_waiting(self, member_id: str, error: GroupError, out: Effects) -> None:
        for waiting in (self.roster.joining, self.roster.syncing):
            token: Token | None = waiting.pop(member_id, None)
            if token is not None:
                out.reply(token, error)

    def _forget_pending(self, member_id: str, now_ms: int, out: Effects) -> None:
        """An id that was handed out will not come back, so nobody waits for it."""
        self.roster.forget_expected(member_id)
        self.timers.cancel(GroupTimer(TimerKind.PENDING, member_id))
        self._begin_if_all_joined(now_ms, out)

    def _session_ended(self, member_id: str, now_ms: int, out: Effects) -> None:
        member = self.roster.members[member_id]
        waits = member_id in self.roster.joining or member_id in self.roster.syncing
        # While its request is parked here a member cannot send heartbeats. A new one is dropped
        # nevertheless: its client may have retried under another id and be gone for good.
        if member_id in self.roster.new or not waits:
            self._remove(member, LeaveReason.SESSION_TIMEOUT, now_ms, out)

    def tick(self, now_ms: int, out: Effects) -> None:
        """Do everything whose time has come."""
        for timer in self.timers.due(now_ms):
            if timer in self.timers:
                continue  # set again by what came before it in this very tick
            if timer.kind is TimerKind.JOIN:
                if self.state is ClassicState.PREPARING_REBALANCE:
                    self._join_time_is_up(now_ms, out)
            elif timer.kind is TimerKind.SYNC:
                if self.roster.unsynced:
                    self._sync_time_is_up(now_ms, out)
            elif timer.kind is TimerKind.PENDING:
                self._forget_pending(timer.member_id, now_ms, out)
            elif timer.member_id in self.roster.members:
                self._session_ended(timer.member_id, now_ms, out)

    def _rebalancing_error(self) -> RebalanceInProgressError:
        return RebalanceInProgressError(
            f"group {self.group_id!r} is rebalancing: join it again to be in the next generation"
        )
