"""How one queue group hands out its messages."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Mode(StrEnum):
    """Who may take what."""

    SHARED = "shared"
    """Every member takes from every partition."""
    EXCLUSIVE = "exclusive"
    """Each partition has one owner, which gets its messages in order."""


class QueueSettings(msgspec.Struct, frozen=True):
    """What a queue group is told; stored with the group."""

    mode: Mode = Mode.SHARED
    visibility_ms: int = 30_000
    """How long a member has a message before somebody else gets it."""
    max_deliveries: int = 3
    """After so many failed deliveries the message is dead-lettered."""
    backoff_ms: int = 1000
    """Back-off before the first retry of a nacked message; doubled each time."""
    max_backoff_ms: int = 60_000
    max_unacked: int = 1000
    """How many messages a member may have at once."""
    max_waiting: int = 10_000
    """How many messages of a partition may wait for a retry; one more is dead at once."""
    weights: tuple[int, int, int, int, int] = (50, 25, 15, 7, 3)
    """What share of the messages each lane gets, the most urgent first."""
    starvation_ms: int = 30_000
    """A lane that has messages and got no turn for so long gets one; 0 is never."""
    start_at_latest: bool = False
    """Where the group has read nothing, only what is published from now on counts."""
    dead_letters: bool = True
    """Dead messages are copied to the topic's dead-letter topic."""
    session_ms: int = 45_000
    """The session timeout of share consumers."""
    heartbeat_ms: int = 5_000
    """The heartbeat interval of share consumers."""
    was_joined: bool = False
    """Somebody has been a member: the group exists until it is deleted, whatever it reads."""
    start_ago: str = ""
    """Where the group has read nothing, what was published in this time counts too, in ISO 8601;
    empty: `start_at_latest` decides."""
    reads_uncommitted: bool = False
    """Messages of open and aborted transactions are handed out like others."""
    partition_locks: int = 2000
    """How many messages of a partition share consumers may have together; at the bound they get no
    more of it until some are acknowledged."""
    can_renew: bool = True
    """Share consumers may extend the time that they have a message."""
    is_share: bool = False
    """A share consumer was the first member: what is not set has the defaults of share groups."""
    configured: tuple[str, ...] = ()
    """The fields that an administrator has set, and that the first member does not decide."""

    def with_changes(self, changes: Mapping[str, object]) -> QueueSettings:
        """The same with some fields set by an administrator."""
        configured = tuple(sorted({*self.configured, *changes}))
        return msgspec.structs.replace(self, **{**changes, "configured": configured})

    def without(self, names: Collection[str]) -> QueueSettings:
        """The same with some fields back at their defaults."""
        defaults = NEW_SHARE_GROUP if self.is_share or not self.was_joined else QueueSettings()
        return msgspec.structs.replace(
            self,
            **{name: getattr(defaults, name) for name in names},
            configured=tuple(name for name in self.configured if name not in names),
        )

    def joined_by(self, first: QueueSettings) -> QueueSettings:
        """What the first member of a group asks for, but for what is set already."""
        configured = self.configured or self._configured_before()
        chosen = {name: getattr(self, name) for name in configured}
        return msgspec.structs.replace(
            first, **{**chosen, "configured": configured, "was_joined": True}
        )

    def _configured_before(self) -> tuple[str, ...]:
        """What was set when it was not stored which fields were: those without their default."""
        if self.is_share:
            return ()
        plain = QueueSettings(start_at_latest=True)
        names = self.__struct_fields__
        return tuple(name for name in names if getattr(self, name) != getattr(plain, name))

    def backoff(self, delivery_count: int) -> int:
        """The back-off of a nacked message after this many deliveries."""
        doublings = min(max(delivery_count - 1, 0), 62)
        return min(self.backoff_ms << doublings, self.max_backoff_ms)


NEW_SHARE_GROUP: Final = QueueSettings(
    mode=Mode.SHARED,
    max_deliveries=5,
    start_at_latest=True,
    reads_uncommitted=True,
    is_share=True,
)
"""What a group is told that a share consumer makes: Kafka's defaults."""
