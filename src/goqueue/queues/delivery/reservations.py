"""Messages that were chosen for a member, and are not handed out before that is stored.

A reservation changes nothing of what is stored: until it ends, the messages are as available as
before, and nobody else is offered them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.ranges import Range
    from goqueue.queues.delivery.operations import LaneRange


@dataclass(slots=True, eq=False)
class Reservation:
    """Messages of one queue that are on their way to one member."""

    member: str
    lease: int
    """The number that their lease will have."""
    ranges: list[LaneRange]
    """In the order in which they were chosen."""
    is_touched: bool = False
    """Something became of some of them meanwhile: not all may be available any more."""
    is_void: bool = False
    """Their member has left: nothing of it may be handed out."""
    first: int = field(init=False)
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self._bound()

    def _bound(self) -> None:
        self.first = min(first for _, first, _ in self.ranges)
        self.end = max(end for _, _, end in self.ranges)

    def extend(self, more: Iterable[LaneRange]) -> None:
        """Reserve further messages for the same member."""
        self.ranges += more
        self._bound()

    @property
    def count(self) -> int:
        """How many messages these are."""
        return sum(end - first for _, first, end in self.ranges)

    def touch(self, ranges: Iterable[Range]) -> None:
        """Messages are done with or dead; some of them may be these."""
        if any(first < self.end and end > self.first for first, end in ranges):
            self.is_touched = True
