"""What the nodes of a cluster tell of their groups, in one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.protocols.http.api.merging import by_name, summed
from goqueue.protocols.http.groups.group_shapes import GroupList, RebalanceStats

if TYPE_CHECKING:
    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments


def merge_groups(parts: list[Part], _arguments: Arguments) -> GroupList:
    """The groups of all nodes by name."""
    return GroupList(by_name((group for each in parts for group in each.answer.groups), "group"))


def merge_rebalances(parts: list[Part], _arguments: Arguments) -> Any:
    """All counts together; durations are those of the last rebalance, and an average of all."""
    answers: list[RebalanceStats] = [each.answer for each in parts]
    last = max(answers, key=lambda each: each.last_at or 0)
    whole = summed(answers)
    ended = [(each.average_duration_ms, each.total) for each in answers if each.total]
    return msgspec.structs.replace(
        whole,
        last_duration_ms=last.last_duration_ms,
        last_at=last.last_at,
        average_duration_ms=sum(ms * count for ms, count in ended) / whole.total if ended else 0.0,
    )
