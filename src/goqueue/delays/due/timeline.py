"""When what waits will come: counts by stretches of time, for those who look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.delays.due.slots import SLOT_MS
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
STEPS_MS: Final = (
    *(_SECOND * each for each in (1, 2, 5, 10, 30)),
    *(_MINUTE * each for each in (1, 2, 5, 10, 30)),
    *(_HOUR * each for each in (1, 2, 3, 6, 12)),
    *(_DAY * each for each in (1, 2, 7, 30)),
)
"""Stretches that people think in; of those that reach far enough the shortest is taken."""


class Timeline(NamedTuple):
    """How many messages are due in each step from a moment on."""

    at_ms: int
    step_ms: int
    counts: list[int]
    later: int
    """Due behind the last step."""
    is_approximate: bool
    """Some are known by the hours of their slot only, those that were cancelled among them."""


def timeline(now_ms: int, dues_ms: Iterable[int], slots: Mapping[int, int], steps: int) -> Timeline:
    """Count messages by when they are due.

    Args:
        now_ms: Where the first step begins; what is overdue is in it.
        dues_ms: When messages are due, of those of which it is known.
        slots: How many are due in each slot, of all others.
        steps: How many steps there are.
    """
    dues = list(dues_ms)
    last_ms = max(
        max(dues, default=now_ms), max(((slot + 1) * SLOT_MS - 1 for slot in slots), default=now_ms)
    )
    step_ms = next((each for each in STEPS_MS if now_ms + each * steps > last_ms), STEPS_MS[-1])
    counts = [0] * (steps + 1)
    for due_ms in dues:
        counts[min(max(due_ms - now_ms, 0) // step_ms, steps)] += 1
    for slot, many in slots.items():
        _spread(counts, slot * SLOT_MS - now_ms, many, step_ms)
    return Timeline(now_ms, step_ms, counts[:steps], counts[steps], bool(slots))


def _spread(counts: list[int], start_ms: int, many: int, step_ms: int) -> None:
    """Share out what is due in a slot among the steps that it covers."""
    steps = len(counts) - 1
    first = min(max(start_ms, 0) // step_ms, steps)
    last = min(max(start_ms + SLOT_MS - 1, 0) // step_ms, steps)
    share, rest = divmod(many, last - first + 1)
    for at in range(first, last + 1):
        counts[at] += share + (at - first < rest)
