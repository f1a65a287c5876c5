"""How often the groups of this broker rebalance, all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.groups.stats import GroupStats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.groups.service import Groups

_COUNTERS: Final = (
    "total",
    "successful",
    "failed",
    "superseded",
    "partitions_revoked",
    "partitions_assigned",
    "revocation_timeouts",
    "reasons",
    "joins",
    "leaves",
    "heartbeats",
    "offset_commits",
    "offset_commit_errors",
)


def rebalance_stats(groups: Groups, group_id: str | None = None) -> GroupStats:
    """The counters of one group, or of all groups that exist: what the metrics show of them.

    Raises:
        GroupNotFoundError: there is no such group.
    """
    if group_id is not None:
        return groups.coordinator(group_id).group_stats(group_id)
    return total(
        coordinator.group_stats(listing.group_id)
        for coordinator in groups.coordinators()
        for listing in coordinator.list_groups()
    )


def total(parts: Iterable[GroupStats]) -> GroupStats:
    """One sum of several counters.

    The last duration is that of the newest rebalance; the average weighs each part by how many
    rebalances it has seen.
    """
    whole = GroupStats()
    durations_ms = 0.0
    for part in parts:
        for counter in _COUNTERS:
            setattr(whole, counter, getattr(whole, counter) + getattr(part, counter))
        durations_ms += part.average_duration_ms * part.successful
        if part.last_at_ms > whole.last_at_ms:
            whole.last_at_ms = part.last_at_ms
            whole.last_duration_ms = part.last_duration_ms
    if whole.successful:
        whole.average_duration_ms = durations_ms / whole.successful
    return whole
