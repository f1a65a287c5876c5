"""How often groups rebalance, why, for how long, and what it moves."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

SMOOTHING: Final = 0.3
"""Weight of the newest duration in the moving average."""


OnRebalance: TypeAlias = Callable[[str, int, str, int | None], None]
"""Group, number of the rebalance, and its reason; or how long it took, when it is over."""


OnMember: TypeAlias = Callable[[str, str, str | None], None]
"""Group, member, and why it is gone; None: it has joined."""


class RebalanceReason(StrEnum):
    """What set a rebalance off."""

    MEMBER_JOINED = "member_joined"
    MEMBER_REJOINED = "member_rejoined"
    MEMBER_UPDATED = "member_updated"
    MEMBER_LEFT = "member_left"
    SESSION_TIMEOUT = "session_timeout"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    TOPICS_CHANGED = "topics_changed"


class LeaveReason(StrEnum):
    """Why a member is gone."""

    LEFT = "left"
    SESSION_TIMEOUT = "session_timeout"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    GROUP_FULL = "group_full"

    @property
    def rebalance_reason(self) -> RebalanceReason:
        """Of the rebalance that the departure of a member sets off."""
        return RebalanceReason.MEMBER_LEFT if self is LeaveReason.LEFT else RebalanceReason(self)


class GroupStats(msgspec.Struct):
    """Counters of one group; those of its parent, which sums up all groups, move along.

    `total == successful + failed + superseded`, and one more while a rebalance is under way.
    """

    parent: GroupStats | None = None
    group_id: str = ""
    group_type: str = ""
    on_rebalance: OnRebalance | None = None
    """Told when a rebalance begins and when it has come to its end; known to a parent."""
    on_member: OnMember | None = None
    """Told of members that join and that are gone; known to a parent."""
    total: int = 0
    successful: int = 0
    failed: int = 0
    """Given up because members did not do their part in time."""
    superseded: int = 0
    """Restarted by a further trigger before it had come to an end."""
    partitions_revoked: int = 0
    partitions_assigned: int = 0
    revocation_timeouts: int = 0
    last_duration_ms: int = 0
    average_duration_ms: float = 0.0
    last_at_ms: int = 0
    reasons: Counter[RebalanceReason] = msgspec.field(default_factory=Counter)
    joins: int = 0
    leaves: Counter[LeaveReason] = msgspec.field(default_factory=Counter)
    heartbeats: int = 0
    offset_commits: int = 0
    offset_commit_errors: int = 0
    started_at_ms: int | None = None
    """When the rebalance under way began; None when there is none."""
    durations_ms: deque[tuple[str, int]] | None = None
    """How long each rebalance took, with the type of its group, for whoever measures it to take
    out; kept by a parent."""

    def started(self, reason: RebalanceReason, now_ms: int) -> None:
        """A rebalance begins, or begins again."""
        restarts = self.started_at_ms is not None
        for stats in self._with_parent():
            stats.superseded += restarts
            stats.total += 1
            stats.reasons[reason] += 1
        self.started_at_ms = now_ms
        self._tell(reason, None)

    def completed(self, now_ms: int, *, revoked: int = 0, assigned: int = 0) -> None:
        """The rebalance under way has come to its end."""
        self.moved(revoked=revoked, assigned=assigned)
        if self.started_at_ms is None:
            return
        duration_ms = max(now_ms - self.started_at_ms, 0)
        self.started_at_ms = None
        for stats in self._with_parent():
            stats.successful += 1
            stats.last_at_ms = now_ms
            stats.last_duration_ms = duration_ms
            if stats.durations_ms is not None:
                stats.durations_ms.append((self.group_type, duration_ms))
            first = stats.successful == 1
            change = duration_ms - stats.average_duration_ms
            stats.average_duration_ms += change if first else SMOOTHING * change
        self._tell("", duration_ms)

    def given_up(self) -> None:
        """The rebalance under way failed."""
        if self.started_at_ms is None:
            return
        self.started_at_ms = None
        for stats in self._with_parent():
            stats.failed += 1

    def moved(self, *, revoked: int = 0, assigned: int = 0) -> None:
        """Partitions changed hands."""
        for stats in self._with_parent():
            stats.partitions_revoked += revoked
            stats.partitions_assigned += assigned

    def joined(self, member_id: str) -> None:
        """A member that was not in the group is now."""
        for stats in self._with_parent():
            stats.joins += 1
        self._tell_member(member_id, None)

    def left(self, member_id: str, reason: LeaveReason) -> None:
        """A member is gone."""
        for stats in self._with_parent():
            stats.leaves[reason] += 1
            stats.revocation_timeouts += reason is LeaveReason.REBALANCE_TIMEOUT
        self._tell_member(member_id, reason)

    def _tell_member(self, member_id: str, reason: LeaveReason | None) -> None:
        if self.parent is not None and self.parent.on_member is not None:
            self.parent.on_member(self.group_id, member_id, reason)

    def heartbeat(self) -> None:
        """A member was heard."""
        for stats in self._with_parent():
            stats.heartbeats += 1

    def committed(self, *, accepted: int, refused: int) -> None:
        """Offsets were asked to be committed."""
        for stats in self._with_parent():
            stats.offset_commits += accepted
            stats.offset_commit_errors += refused

    def _tell(self, reason: str, duration_ms: int | None) -> None:
        if self.parent is not None and self.parent.on_rebalance is not None:
            self.parent.on_rebalance(self.group_id, self.total, reason, duration_ms)

    def _with_parent(self) -> tuple[GroupStats, ...]:
        return (self,) if self.parent is None else (self, self.parent)
