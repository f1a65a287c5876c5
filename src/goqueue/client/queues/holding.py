"""How many messages a member has, and so how many more it may ask for.

What the program has taken and forgotten is the member's until its visibility timeout; then it is
somebody else's, and there is room for another message.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.client.queues.deliveries import Deliveries


class Holding:
    """What was handed to a member, as far as the broker counts it."""

    def __init__(self, prefetch: int) -> None:
        self._prefetch = prefetch
        self._held = 0
        self._live: deque[Deliveries] = deque()

    @property
    def room(self) -> int:
        """How many messages more it may have."""
        return max(self._prefetch - self._held, 0)

    def is_roomy(self, buffered: int) -> bool:
        """Whether to ask for more: half of the room is free, or there is nothing else to do."""
        room = self.room
        return room >= max(self._prefetch // 2, 1) or (room > 0 and not buffered)

    def took(self, deliveries: Deliveries) -> None:
        """It was handed more."""
        self._held += deliveries.left
        self._live.append(deliveries)

    def gave(self, deliveries: Deliveries, count: int) -> None:
        """So many of these are settled."""
        count = min(count, deliveries.left)
        deliveries.left -= count
        self._held -= count
        while self._live and not self._live[0].left:
            self._live.popleft()

    def expire(self, now_s: float) -> None:
        """What was not settled in time is not the member's any more."""
        for deliveries in [each for each in self._live if each.until_s <= now_s]:
            self.gave(deliveries, deliveries.left)
        self._live = deque(each for each in self._live if each.left)
