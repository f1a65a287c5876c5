"""A token bucket: so much a second, and no more than one second's worth at once."""

from __future__ import annotations

from typing import Final

_MAX_WAIT_S: Final = 30.0
"""What a client is told to wait at once. Where more is owed, it is told so again after that: all
that was taken is owed, so that many large requests do not exceed a rate."""


class TokenBucket:
    """Plain arithmetic over the time it is given.

    The tokens are at most one second's worth. What a client takes at once may be more than there
    is, because a request is served as a whole: the tokens are negative then, and the client waits
    until they are not.
    """

    __slots__ = ("_at_s", "_tokens", "is_short", "rate", "taken")

    def __init__(self, rate: float, now_s: float) -> None:
        """Allow `rate` a second, more than 0; the bucket is full."""
        self.rate = rate
        self._tokens = rate
        self._at_s = now_s
        self.taken = 0.0
        """Taken since somebody looked last: what a node of a cluster tells of its demand."""
        self.is_short = False
        """Whether somebody had to wait since then."""

    def _refill(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._tokens = min(self._tokens + (now_s - self._at_s) * self.rate, self.rate)
            self._at_s = now_s

    def take(self, amount: float, now_s: float) -> float:
        """Take tokens, whether they are there or not; returns `wait_s`."""
        self._refill(now_s)
        self.taken += amount
        tokens = self._tokens - amount
        if tokens >= 0:
            self._tokens = tokens
            return 0.0
        self.is_short = True
        self._tokens = tokens
        return min(-tokens / self.rate, _MAX_WAIT_S)

    def wait_s(self, now_s: float) -> float:
        """How long to wait for what is owed; 0 when something may be taken now."""
        self._refill(now_s)
        if self._tokens >= 0:
            return 0.0
        self.is_short = True
        return min(-self._tokens / self.rate, _MAX_WAIT_S)

    def is_full(self, now_s: float) -> bool:
        """Whether nothing was taken lately: a new bucket would be the same."""
        self._refill(now_s)
        return self._tokens >= self.rate

    def allow(self, rate: float, now_s: float) -> None:
        """Allow another rate from now on. What is owed stays owed."""
        self._refill(now_s)
        self.rate = rate
        self._tokens = min(self._tokens, rate)
