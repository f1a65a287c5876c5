"""The newest entries, in memory: so many and no more."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.tracing.events import Entry

RING_SPANS: Final = 10_000


class Ring:
    """Keeps the newest entries; of more than there is room for, the oldest go."""

    __slots__ = ("_entries", "append", "capacity")

    def __init__(self, capacity: int = RING_SPANS) -> None:
        self.capacity = capacity
        self._entries: deque[Entry] = deque(maxlen=capacity)
        self.append = self._entries.append
        """Note one; a method of the deque itself, as many come."""

    def extend(self, entries: Iterable[Entry]) -> None:
        """Note many, the oldest first."""
        self._entries.extend(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[Entry]:
        """What there is, the oldest first: a copy, for whoever looks through it in a thread."""
        return list(self._entries)
