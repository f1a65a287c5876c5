"""The state of a KIP-848 group: what it keeps, what of it is stored, and what must always hold."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from goqueue.groups.assignors import DEFAULT_ASSIGNOR
from goqueue.groups.consumer.member import ConsumerMember
from goqueue.groups.consumer.roster import ConsumerRoster
from goqueue.groups.consumer.target import Subscriptions
from goqueue.groups.encoding import ConsumerGroupValue, GroupKey, MemberKey, put, remove
from goqueue.groups.reconciliation import MemberState
from goqueue.groups.timers import Timers
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.consumer.target import TopicsSeen
    from goqueue.groups.effects import Entry
    from goqueue.groups.encoding import ConsumerMemberValue
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.stats import GroupStats


class ConsumerState(StrEnum):
    """The names are the ones that Kafka's tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The group epoch is ahead of the target; the next heartbeat computes one."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerTimerKind(Enum):
    """What a deadline is about."""

    SESSION = auto()
    REVOCATION = auto()
    JOIN = auto()
    """A member of the classic protocol was told to join again."""
    SYNC = auto()
    """A member of the classic protocol joined and has not asked for its assignment."""


class ConsumerTimer(NamedTuple):
    """One deadline of one member."""

    kind: ConsumerTimerKind
    member_id: str


class ConsumerGroupState:
    """Epochs, target and members.

    `epoch` grows with every change that the target depends on; `target_epoch <= epoch` is the one
    that the target was computed for; no member's epoch is above `target_epoch`.
    """

    def __init__(
        self, group_id: str, settings: GroupSettings, stats: GroupStats, *, epoch: int = 0
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.stats = stats
        self.roster = ConsumerRoster(group_id)
        self.epoch = epoch
        self.target_epoch = epoch
        self.assignor = DEFAULT_ASSIGNOR
        self.topics: TopicsSeen = ()
        self.empty_since_ms = 0
        self.is_dead = False
        self.timers: Timers[ConsumerTimer] = Timers()
        self._subscriptions = Subscriptions(settings.max_regex_chars)
        self._is_changed = False

    @property
    def state(self) -> ConsumerState:
        """Follows from the members; nothing sets it."""
        members = self.roster.members
        if self.is_dead:
            return ConsumerState.DEAD
        if not members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(member.has_reached(self.target_epoch) for member in members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Nobody is in the group."""
        return not self.roster.members

    @property
    def held_bytes(self) -> int:
        """What the members say and are assigned."""
        return self.roster.held.total

    def member_bytes(self, member_id: str, instance_id: str | None) -> int:
        """The part of one member, or of the process that has its instance id."""
        return self.roster.held.of(self.roster.static_ids.get(instance_id or "", member_id))

    def _restart_session(self, member: ConsumerMember, now_ms: int) -> None:
        timeout_ms = member.session_timeout_ms or self.settings.consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        timer = ConsumerTimer(ConsumerTimerKind.SESSION, member.member_id)
        self.timers.set(timer, now_ms + timeout_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self.timers.next_ms()

    # --- What is stored ------------------------------------------------------------------------

    def entry(self) -> Entry:
        """What is stored of the group besides its members."""
        return put(
            GroupKey(self.group_id),
            ConsumerGroupValue(
                self.epoch, self.target_epoch, self.assignor, self.topics, self.empty_since_ms
            ),
        )

    def load_group(self, value: ConsumerGroupValue) -> None:
        """Take over what was stored of the group."""
        self.epoch = value.epoch
        self.target_epoch = value.target_epoch
        self.assignor = value.assignor
        self.topics = value.topics
        self.empty_since_ms = value.empty_since_ms

    def load_member(self, member_id: str, value: ConsumerMemberValue | None) -> None:
        """Take over what was stored of a member, or that it is gone."""
        if value is not None:
            self.roster.put(ConsumerMember.from_value(member_id, value))
        elif member_id in self.roster.members:
            self.roster.remove(member_id)

    def adopt(self, member: ConsumerMember, now_ms: int) -> None:
        """Take over a member of the classic group that this group was before."""
        self.roster.put(member)
        self._restart_session(member, now_ms)

    def forget_members(self) -> Iterator[Entry]:
        """What removes the members from the log, when the group becomes a classic one."""
        return (remove(MemberKey(self.group_id, each)) for each in self.roster.members)

    def resume(self, now_ms: int) -> None:
        """After a restart every member has its whole time again."""
        self.roster.finish_loading()
        for member in self.roster.members.values():
            self._restart_session(member, now_ms)
            if member.state is MemberState.UNREVOKED:
                timer = ConsumerTimer(ConsumerTimerKind.REVOCATION, member.member_id)
                self.timers.set(timer, now_ms + member.rebalance_timeout_ms)

    def check_invariants(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        self.roster.check_invariants()
        if self.target_epoch > self.epoch:
            raise InvariantError(f"target epoch {self.target_epoch} is above {self.epoch}")
        for member in self.roster.members.values():
            if member.epoch > self.target_epoch:
                raise InvariantError(f"{member.member_id!r} is ahead of its group")
            if (member.state is MemberState.UNREVOKED) != bool(member.pending_revocation):
                raise InvariantError(f"{member.member_id!r} revokes nothing, or unnoticed")
            if ConsumerTimer(ConsumerTimerKind.SESSION, member.member_id) not in self.timers:
                raise InvariantError(f"{member.member_id!r} has no session")
            if member.has_reached(self.target_epoch) and member.assigned != member.target:
                raise InvariantError(f"{member.member_id!r} is stable without its target")
