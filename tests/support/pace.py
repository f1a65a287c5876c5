"""For tests that must do something before a moment has come, on a machine that may stand still."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES_MS = (400, 3000, 15_000)
PATIENCE = float(os.environ.get("GOQUEUE_TEST_PATIENCE", "1"))
"""How many times longer clusters may take than on a machine that does nothing else."""


class TooLateError(Exception):
    """The moment had come before the test had looked: what it saw says nothing."""


def in_time(due_ms: float) -> None:
    """Say so if a moment, by the clock on the wall, has come already."""
    if time.time() * 1000 >= due_ms:
        raise TooLateError


def unhurried(scenario: Callable[[int], None], *excuses: type[Exception]) -> None:
    """Play a scenario with so many milliseconds to spare; with more where that was too little.

    On a quiet machine the first time is enough. A scenario calls `in_time` after it has looked and
    before it judges, and has to make do with what an earlier attempt has left behind. Where only
    its outcome shows that it was too late, it names what it fails with then.
    """
    late: tuple[type[Exception], ...] = (TooLateError, *excuses)
    for time_ms in TIMES_MS[:-1]:
        try:
            scenario(time_ms)
        except late:
            continue
        return
    scenario(TIMES_MS[-1])
