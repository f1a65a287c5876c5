"""How one queue group hands out its messages."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

MAX_VISIBILITY_MS: Final = 12 * 3600 * 1000
MAX_DELIVERIES: Final = 250
"""Deliveries are counted in one byte a message."""


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
    """After so many in vain the message is dead."""
    backoff_ms: int = 1000
    """Before the first retry of a message that was handed back; doubled each time."""
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
    """A share consumer of which nothing was heard for so long is gone."""
    heartbeat_ms: int = 5_000
    """How often share consumers are told to let themselves be heard."""
    was_joined: bool = False
    """Somebody has been a member: the group exists until it is deleted, whatever it reads."""
    isolation: str = "read_uncommitted"
    """What share consumers asked for, and are shown; queue groups read what is committed."""

    def backoff(self, delivery_count: int) -> int:
        """How long a message waits that was handed back after so many deliveries."""
        doublings = min(max(delivery_count - 1, 0), 62)
        return min(self.backoff_ms << doublings, self.max_backoff_ms)
