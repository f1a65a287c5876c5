"""Deadlines by key: cheap to push back, cheap to ask for the next one.

A heartbeat moves a deadline later, thousands of times a second. So the heap keeps one early entry
for a key and looks at the true deadline only when that entry comes up.
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

K = TypeVar("K")

_SLACK: Final = 64


class Timers(Generic[K]):
    """At most one deadline a key."""

    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        # The earliest entry of a key in the heap: never later than its deadline.
        self._queued: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def __len__(self) -> int:
        return len(self._at)

    def get(self, key: K) -> int | None:
        """The deadline of a key."""
        return self._at.get(key)

    def set(self, key: K, at_ms: int) -> None:
        """Give a key this deadline in place of any other."""
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._push(key, at_ms)

    def cancel(self, key: K) -> None:
        """Take a key's deadline away, if it has one."""
        self._at.pop(key, None)

    def clear(self) -> None:
        """Take every deadline away."""
        self._at.clear()
        self._queued.clear()
        self._heap.clear()

    def next_ms(self) -> int | None:
        """The earliest deadline of all."""
        self._settle_top()
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> list[K]:
        """Take out every key whose deadline has come, the earliest first."""
        keys: list[K] = []
        while True:
            self._settle_top()
            if not self._heap or self._heap[0][0] > now_ms:
                return keys
            _, _, key = heapq.heappop(self._heap)
            del self._queued[key]
            del self._at[key]
            keys.append(key)

    def _push(self, key: K, at_ms: int) -> None:
        if len(self._heap) > 2 * len(self._queued) + _SLACK:
            self._rebuild()
        self._queued[key] = at_ms
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, key))

    def _rebuild(self) -> None:
        """Forget the entries that lost their meaning, so that the heap stays as small as `_at`."""
        self._queued = dict(self._at)
        self._heap = [(at_ms, place, key) for place, (key, at_ms) in enumerate(self._at.items())]
        self._sequence = max(self._sequence, len(self._heap))
        heapq.heapify(self._heap)

    def _settle_top(self) -> None:
        """Drop or move the first heap entry until it is a true deadline."""
        while self._heap:
            at_ms, _, key = self._heap[0]
            if self._queued.get(key) != at_ms:
                heapq.heappop(self._heap)
                continue
            actual = self._at.get(key)
            if actual == at_ms:
                return
            heapq.heappop(self._heap)
            del self._queued[key]
            if actual is not None:
                self._push(key, actual)
