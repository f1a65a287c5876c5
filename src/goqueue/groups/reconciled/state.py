"""The states of a group whose members the broker leads to a target."""

from __future__ import annotations

from enum import StrEnum


class ReconciledState(StrEnum):
    """The names are the ones that Kafka's tools show."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics are missing or do not fit the topology of a Streams group, so there are no tasks."""
    ASSIGNING = "Assigning"
    """The group epoch is ahead of the target; the next heartbeat computes one."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"
    DEAD = "Dead"
