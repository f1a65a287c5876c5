"""Messages that were chosen for a member, and are not handed out before that is stored.

A reservation changes nothing of what is stored: until it ends, the messages are as available as
before, and nobody else is offered them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    @property
    def count(self) -> int:
        """How many messages these are."""
        return sum(end - first for _, first, end in self.ranges)

    def touch(self, ranges: Sequence[Range]) -> None:
        """Messages are done with or dead; some of them may be these."""
        self.is_touched = self.is_touched or any(
            first < to and end > from_ for first, end in ranges for _, from_, to in self.ranges
        )
