"""Measure several ways of doing one thing in turn, so that a noisy machine disturbs all alike."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Final, TypeVar

from benchmarks.harness import Run, percentiles, timed

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_MICROSECONDS: Final = 1e6


def expect(condition: object, what: str) -> None:
    """Stop a benchmark that did not do the work it was to be measured by."""
    if not condition:
        raise RuntimeError(f"the benchmark did not do its work: {what}")


class Turns:
    """Seconds by way, one of each a turn; the plain way is what the others are against.

    A ratio is the median of the ratios of the turns: what slows one turn down slows both of its
    halves down, and a single bad turn does not count.
    """

    def __init__(self, plain: str) -> None:
        self._plain = plain
        self._taken: dict[str, list[float]] = defaultdict(list)

    def add(self, way: str, seconds: float) -> None:
        """Note what one way took in this turn."""
        self._taken[way].append(seconds)

    def call(self, way: str, function: Callable[[], T]) -> T:
        """Call a function, note what it took, and return what it returned."""
        with timed() as watch:
            result = function()
        self.add(way, watch.seconds)
        return result

    def seconds(self, way: str) -> float:
        """What this way takes, in the median of the turns."""
        return median(self._taken[way])

    def times_slower(self, way: str, than: str | None = None) -> float:
        """How many times the seconds of the plain way, or of another, this one takes."""
        pairs = zip(self._taken[way], self._taken[than or self._plain], strict=True)
        return median(ours / plain for ours, plain in pairs)

    def report_rates(self, run: Run, name: str, amount: float, unit: str) -> None:
        """A row a way: `amount` by its seconds."""
        plain = f"{name} {self._plain}"
        run.row(plain, amount / self.seconds(self._plain), unit)
        for way in self._others():
            rate = amount / self.seconds(way)
            run.row(f"{name} {way}", rate, unit, 1 / self.times_slower(way), plain)

    def report_ratio(self, run: Run, name: str, way: str, than: str, amount: float) -> None:
        """A row with the rate of a way against that of another one that is not the plain one."""
        rate, ratio = amount / self.seconds(way), 1 / self.times_slower(way, than)
        run.row(f"{name} {way}, against {than}", rate, "messages/s", ratio, f"{name} {than}")

    def report_latencies(self, run: Run, name: str) -> None:
        """Two rows a way, p50 and p99 in microseconds.

        The p99 of the plain way tells what of the others' is the machine's own doing.
        """
        plain = f"{name} {self._plain} p50"
        for way in (self._plain, *self._others()):
            found = percentiles(self._taken[way], (50, 99))
            p50, p99 = (found[rank] * _MICROSECONDS for rank in ("p50", "p99"))
            if way == self._plain:
                run.row(plain, p50, "µs")
            else:
                run.row(f"{name} {way} p50", p50, "µs", self.times_slower(way), plain)
            run.row(f"{name} {way} p99", p99, "µs")

    def _others(self) -> list[str]:
        return [way for way in self._taken if way != self._plain]
