"""How many topics may be made by asking for them. Pure: it is told what time it is."""

from __future__ import annotations

from typing import Final

BURST: Final = 200
"""Topics that may be made at once by asking. Beyond it they are made at `PER_S`; one that may not
be made yet is unknown, and its client, which asks again, gets it later."""
PER_S: Final = 20.0


class CreationRate:
    """A bucket of topics that may be made, which fills up again."""

    def __init__(self, now_s: float) -> None:
        self._left = float(BURST)
        self._since_s = now_s

    def take(self, now_s: float) -> bool:
        """Whether one more may be made now; if so, it counts."""
        self._left = min(BURST, self._left + (now_s - self._since_s) * PER_S)
        self._since_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
