"""The time of coordinators: of a node, and of each shard in a cluster.

Leases, sessions and retries are stored as points in time, and the next leader of a shard goes by
them. Clocks of machines differ. So in a cluster a shard has a clock of its own, which stamps what
is stored in its log and goes on from there with each leader: a follower has heard the stamps as
they came, and knows what the clock of the shard says now, whatever its own machine says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.runtime.clock import Clock


class StateClock:
    """Wall-clock milliseconds as they were at the start, and what has passed since.

    Whoever sets the clock while the broker runs neither prolongs a lease nor ends one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ms = clock.now_ms() - round(clock.monotonic_s() * 1000)

    def now_ms(self) -> int:
        """The time now."""
        return self._started_ms + round(self._clock.monotonic_s() * 1000)


class ShardClock:
    """The time of one shard: that of its node, or ahead or behind by what its log says."""

    def __init__(self, node_ms: Callable[[], int]) -> None:
        self._node_ms = node_ms
        self._ahead_ms = 0
        self._epoch: int | None = None

    def now_ms(self) -> int:
        """The time now."""
        return self._node_ms() + self._ahead_ms

    def go_on(self, epoch: int, heard_ms: int | None, newest_ms: int) -> None:
        """This node leads in an epoch, and everything was replayed; done once for each.

        `heard_ms` is the time of the last leader, by the stamps that came from it. Without it this
        node has not followed it while something was stored: then nobody knows how long ago
        `newest_ms` was stamped, and its own clock counts, from there on at least.
        """
        if epoch == self._epoch:
            return
        is_first, self._epoch = self._epoch is None, epoch
        node_ms = self._node_ms()
        if heard_ms is None:
            heard_ms = node_ms if is_first else self.now_ms()
        self._ahead_ms = max(heard_ms, newest_ms) - node_ms
