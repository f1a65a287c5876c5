"""When a child that ended is started again. A pure core: it takes `now` and reads no clock."""

from __future__ import annotations

from typing import Final

FIRST_DELAY_S: Final = 0.2
LONGEST_DELAY_S: Final = 10.0
"""The delay doubles with each restart up to this one."""
SETTLED_S: Final = 30.0
"""A child that ran for so long begins again with the first delay."""
SAME_ERROR_S: Final = 10.0
"""The same error twice within this time is one that another start would not change."""


class Restarts:
    """The restarts of one child."""

    def __init__(self) -> None:
        self._delay_s = 0.0
        self._last_error: tuple[str, float] | None = None

    def delay_s(self, now_s: float, started_s: float, error: str | None) -> float | None:
        """How long to wait before the next start; None when another one would be of no use.

        Args:
            now_s: when the child ended.
            started_s: when it was started.
            error: why it ended, if it said so; a child that was killed says nothing.
        """
        last, self._last_error = self._last_error, None if error is None else (error, now_s)
        if last is not None and error == last[0] and now_s - last[1] <= SAME_ERROR_S:
            return None
        if now_s - started_s >= SETTLED_S:
            self._delay_s = 0.0
        self._delay_s = min(LONGEST_DELAY_S, self._delay_s * 2 or FIRST_DELAY_S)
        return self._delay_s
