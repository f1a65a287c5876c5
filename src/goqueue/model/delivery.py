"""How a message wants to be delivered (priority, due time, life), and the headers that say so.

A message says these things in headers of its own, so that they travel with the record through
every protocol, every log and every copy of it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from goqueue.model.errors import PriorityError

PRIORITY_HEADER: Final = "goqueue-priority"
"""The name of a priority, or its number."""
DELIVER_AT_HEADER: Final = "goqueue-deliver-at"
"""When the message is due, in milliseconds since the epoch, as decimal digits."""
TTL_HEADER: Final = "goqueue-ttl"
"""For how many milliseconds after its time stamp the message is worth delivering."""

_LONGEST_SHOWN: Final = 40


class Priority(IntEnum):
    """The five lanes of a queue; smaller is more urgent."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name.lower()

    @classmethod
    def parse(cls, text: str) -> Priority:
        """The priority of that name or number.

        Raises:
            PriorityError: it is neither.
        """
        found = _BY_TEXT.get(text.strip().lower())
        if found is None:
            names = ", ".join(each.label for each in cls)
            raise PriorityError(
                f"{text[:_LONGEST_SHOWN]!r} is no priority: expected {names}, or 0 to {cls(4):d}"
            )
        return found


_BY_TEXT: Final = {each.label: each for each in Priority} | {
    str(each.value): each for each in Priority
}
