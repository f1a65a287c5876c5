"""What every group is to its coordinator, whatever protocol its members speak."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from goqueue.groups.timers import Timers
from goqueue.model.errors import (
    GroupSubscribedError,
    InconsistentGroupProtocolError,
    NonEmptyGroupError,
)
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.groups.classic.state import ClassicState
    from goqueue.groups.messages import LeavingMember, SyncRequest
    from goqueue.groups.reconciled.state import ReconciledState
    from goqueue.groups.roster import Roster
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.stats import GroupStats

EMPTY: Final = "Empty"
"""The state of a group without members, under every protocol."""


class TimerKind(Enum):
    """What a deadline of a group is about."""

    SESSION = auto()
    """A member sent no heartbeat."""
    PENDING = auto()
    """A member id was handed out and nobody joined with it."""
    REVOCATION = auto()
    """A member has not given up what it was told to."""
    JOIN = auto()
    """Members were told to join again."""
    SYNC = auto()
    """Members joined and have not asked for their assignment."""


class GroupTimer(NamedTuple):
    """One deadline, of one member or, in a classic group, of all who join or sync."""

    kind: TimerKind
    member_id: str = ""


class GroupCore(ABC):
    """A pure state machine: it is given events and the time, and answers with effects."""

    roster: Roster[Any]

    def __init__(self, group_id: str, settings: GroupSettings, stats: GroupStats) -> None:
        self.group_id = group_id
        self.settings = settings
        self.stats = stats
        self.timers: Timers[GroupTimer] = Timers()

    @property
    @abstractmethod
    def state(self) -> ClassicState | ReconciledState:
        """How far the group is with its assignment."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Nobody is in the group."""

    @property
    def held_bytes(self) -> int:
        """What the members say and are assigned."""
        return self.roster.held.total

    def member_bytes(self, member_id: str, instance_id: str | None) -> int:
        """The part of one member, or of the process that has its instance id."""
        return self.roster.held.of(self.roster.static_ids.get(instance_id or "", member_id))

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self.timers.next_ms()

    def _leaving(self, leaving: LeavingMember) -> Any:
        """The member that an administrator or the member itself wants out, or raise."""
        holder_id = self.roster.static_ids.get(leaving.instance_id or "", "")
        return self.roster.get(leaving.member_id or holder_id, leaving.instance_id)

    def _check_protocol(self, request: SyncRequest, ours: tuple[str | None, str | None]) -> None:
        """Refuse a SyncGroup that names another protocol type or name than ours."""
        said = request.protocol_type, request.protocol_name
        if any(each not in {None, our} for each, our in zip(said, ours, strict=True)):
            raise InconsistentGroupProtocolError(
                f"the protocol of {request.member_id!r} in group {self.group_id!r} has type and "
                f"name {ours}, not {said}"
            )

    @abstractmethod
    def reads(self, topic: str) -> bool:
        """Whether members of the group read the topic."""

    def check_delete(self) -> None:
        """Let the group be deleted, or raise `NonEmptyGroupError`."""
        if self.state != EMPTY:
            raise NonEmptyGroupError(
                f"group {self.group_id!r} has {len(self.roster.members)} members: stop them first"
            )

    def check_delete_offset(self, topic: str) -> None:
        """Let the offsets of a topic be deleted, or raise `GroupSubscribedError`."""
        if self.reads(topic):
            raise GroupSubscribedError(
                f"group {self.group_id!r} reads {topic!r}: its offsets are in use"
            )
