"""What became of the messages of each queue group since this process started.

The metrics say the same to a monitoring system; this says it to people who ask for one group.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class Tally(msgspec.Struct):
    """What happened in one group."""

    delivered: int = 0
    verdicts: Counter[str] = msgspec.field(default_factory=Counter)
    """By what members said: ack, nack, release, reject, extend."""
    timeouts: int = 0
    """Messages that came back because nothing was heard of them in time."""
    dead: Counter[str] = msgspec.field(default_factory=Counter)
    """Messages put into a dead-letter topic, by why."""

    def add(self, other: Tally) -> None:
        """Count what happened elsewhere along."""
        self.delivered += other.delivered
        self.verdicts += other.verdicts
        self.timeouts += other.timeouts
        self.dead += other.dead


class Tallies:
    """One tally for each group that exists; see `forget`."""

    def __init__(self) -> None:
        self._groups: dict[str, Tally] = {}
        self.expired: Counter[str] = Counter()
        """Messages whose TTL expired, by topic."""
        self.redriven: Counter[str] = Counter()
        """Dead letters that were published again, by the topic that they had come from."""

    def of(self, group_id: str) -> Tally:
        """The tally of one group."""
        return self._groups.setdefault(group_id, Tally())

    def total(self, group_ids: Iterable[str]) -> Tally:
        """What happened in several groups together."""
        whole = Tally()
        for group_id in group_ids:
            whole.add(self.of(group_id))
        return whole

    def forget(self, group_id: str) -> None:
        """A group is gone."""
        self._groups.pop(group_id, None)

    def forget_topic(self, name: str) -> None:
        """A topic is gone."""
        del self.expired[name], self.redriven[name]
