"""Not faster than is wanted: how a task that writes, and the driver of many, keep to a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

_STEPS_A_SECOND: Final = 10
_BURST_S: Final = 1.0
"""What a task may catch up with after it had nothing to write."""


class Pacer:
    """Holds back a driver that does much at once, until it may go on."""

    def __init__(
        self,
        rows_per_s: float | None,
        *,
        now: Callable[[], float] = clock.monotonic_s,
        sleep: Callable[[float], None] = clock.sleep,
    ) -> None:
        self._rows_per_s = rows_per_s
        self._now = now
        self._sleep = sleep
        self._free_at = now()

    def wait(self) -> None:
        """Return when what was counted before has taken as long as it should."""
        if (left_s := self._free_at - self._now()) > 0:
            self._sleep(left_s)
        self._free_at = self._now()

    def count(self, rows: int) -> None:
        """So many were done since `wait` returned."""
        if self._rows_per_s is not None:
            self._free_at += rows / self._rows_per_s


def paced(
    batches: Iterable[pa.RecordBatch],
    rows_per_s: float | None,
    *,
    now: Callable[[], float] = clock.monotonic_s,
    sleep: Callable[[float], None] = clock.sleep,
) -> Iterator[pa.RecordBatch]:
    """The same rows in smaller batches, at most so many a second; None for all at once."""
    if rows_per_s is None:
        yield from batches
        return
    step = max(1, int(rows_per_s / _STEPS_A_SECOND))
    free_at = now()
    for batch in batches:
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            free_at = max(free_at, now() - _BURST_S)
            if (left_s := free_at - now()) > 0:
                sleep(left_s)
            free_at += part.num_rows / rows_per_s
            yield part
