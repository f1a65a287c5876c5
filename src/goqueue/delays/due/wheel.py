"""A hierarchical timing wheel: a million timers, each set, moved and taken away in one step.

```
level 0   256 buckets of   10 ms     2.56 s
level 1    64 buckets of 2.56 s      2.73 min
level 2    64 buckets of 2.73 min    2.91 h
level 3    64 buckets of 2.91 h      7.76 d
```

Time is cut into ticks. A timer sits in the bucket of the tick at which it is due, or in the wider
bucket of a higher level that holds this tick; when the time of such a bucket comes, its timers are
put where they belong below. So the bucket decides when a timer fires, never a look at a clock: the
wheel has none, and is told the time. A timer is never early, and at most one tick late.

A bucket is a plain array of ids; which of them still count is known by the one dictionary from id
to due time. A timer that was taken away or moved leaves its id behind in the bucket, where it is
passed over when its time comes.

Many timers may be due at once. So whatever goes through buckets does it some ids at a time, and
whoever draws them lets others have their turn in between.
"""

from __future__ import annotations

import heapq
from array import array
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import DelayError, InvariantError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TICK_MS: Final = 10
SHIFTS: Final = (0, 8, 14, 20)
"""How many ticks a bucket of each level holds, as a power of two."""
SIZES: Final = (256, 64, 64, 64)
"""How many buckets each level has."""
SPAN_MS: Final = (SIZES[3] << SHIFTS[3]) * TICK_MS
"""How far ahead the wheel can see: 7.76 days. A timer beyond that is looked at again then."""

_LEVELS: Final = tuple(zip(SHIFTS, SIZES, strict=True))
_REACHES: Final = tuple(size << shift for shift, size in _LEVELS)
"""How many ticks ahead each level can hold."""
AT_ONCE: Final = 5000
"""Ids that are looked at before whoever draws them may let others have a turn."""


class WheelStats(NamedTuple):
    """What is in the wheel, and what has happened in it."""

    size: int
    per_level: tuple[int, ...]
    """Ids in the buckets of each level, with those that were left behind."""
    scheduled: int
    cancelled: int
    fired: int
    cascades: int
    """Buckets whose timers were put into lower levels."""


def all_wheels(each: Iterable[WheelStats]) -> WheelStats:
    """What is in several wheels together."""
    all_of = list(each)
    levels = zip(*(one.per_level for one in all_of), strict=True)
    return WheelStats(
        sum(one.size for one in all_of),
        tuple(map(sum, levels)) or (0,) * len(SIZES),
        sum(one.scheduled for one in all_of),
        sum(one.cancelled for one in all_of),
        sum(one.fired for one in all_of),
        sum(one.cascades for one in all_of),
    )


class _Level(msgspec.Struct):
    """One ring of buckets."""

    shift: int
    buckets: list[array[int]]
    occupied: int = 0
    """A bit for each bucket that is not empty."""

    def put(self, tick: int, timer_id: int) -> None:
        slot = (tick >> self.shift) % len(self.buckets)
        self.buckets[slot].append(timer_id)
        self.occupied |= 1 << slot

    def bucket(self, tick: int) -> array[int]:
        """The bucket that holds `tick`."""
        return self.buckets[(tick >> self.shift) % len(self.buckets)]

    def take(self, tick: int, count: int) -> array[int]:
        """Take so many ids out of the bucket that holds `tick`, the last ones first."""
        bucket = self.bucket(tick)
        taken = bucket[-count:]
        del bucket[-count:]
        if not bucket:
            self.occupied &= ~(1 << (tick >> self.shift) % len(self.buckets))
        return taken

    def next_tick(self, tick: int) -> int | None:
        """The first tick after this one whose bucket has to be looked at."""
        if not self.occupied:
            return None
        size = len(self.buckets)
        first = (tick >> self.shift) + 1
        turned = self.occupied >> first % size | self.occupied << size - first % size
        ahead = (turned & -turned).bit_length() - 1
        return first + ahead << self.shift

    def count(self) -> int:
        return sum(len(bucket) for bucket in self.buckets)


class Wheel:
    """Timers by id; an id has one timer, and setting it again replaces it."""

    def __init__(self, now_ms: int) -> None:
        self._tick = now_ms // TICK_MS
        """Every bucket up to this tick has been looked at."""
        self._due_ms: dict[int, int] = {}
        self._levels = tuple(
            _Level(shift, [array("q") for _ in range(size)]) for shift, size in _LEVELS
        )
        self._scheduled = self._cancelled = self._fired = self._cascades = 0

    def __len__(self) -> int:
        return len(self._due_ms)

    @property
    def now_ms(self) -> int:
        """The time up to which everything due has fired."""
        return self._tick * TICK_MS

    # --- Setting and taking away -----------------------------------------------------------------

    def schedule(self, timer_id: int, due_ms: int) -> None:
        """Set a timer. One whose time has come already fires at the next tick.

        Raises:
            DelayError: there never was such a time.
        """
        if due_ms < 0:
            raise DelayError(f"a timer cannot be due at {due_ms} ms")
        self._due_ms[timer_id] = due_ms
        self._scheduled += 1
        self._place(timer_id, max(-(-due_ms // TICK_MS), self._tick + 1), self._tick)

    def cancel(self, timer_id: int) -> bool:
        """Take a timer away; whether there was one."""
        if self._due_ms.pop(timer_id, None) is None:
            return False
        self._cancelled += 1
        return True

    # --- Time ------------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> Iterator[list[int]]:
        """Move on to `now_ms`; the ids that are due, in the order in which they fell due.

        Some at a time, perhaps none; all must be drawn. Time that goes back is time that stands
        still.
        """
        target = now_ms // TICK_MS
        while (tick := self._next_tick()) is not None and tick <= target:
            self._tick = tick - 1
            while self._cascade(tick):
                yield []
            if self._levels[0].bucket(tick):
                yield from self._fire(tick)
            self._tick = tick
        self._tick = max(self._tick, target)

    def next_due_hint(self) -> int | None:
        """The moment before which `advance` need not be called; None when nothing is set.

        What is far ahead is only known to its bucket, so nothing may be due then after all.
        """
        if not self._due_ms:
            return None
        tick = self._next_tick()
        return None if tick is None else tick * TICK_MS

    def due_between(self, after_ms: int, until_ms: int) -> Iterator[list[int]]:
        """The timers due after one moment and not after another, in no order, some at a time."""
        last = -(-until_ms // TICK_MS)
        for level in self._levels:
            tick = level.next_tick(self._tick)
            while tick is not None and tick <= last:
                bucket = level.bucket(tick)
                for at in range(0, len(bucket), AT_ONCE):
                    yield [
                        timer_id
                        for timer_id in bucket[at : at + AT_ONCE]
                        if after_ms < self._due_ms.get(timer_id, after_ms) <= until_ms
                    ]
                following = level.next_tick(tick)
                around = self._tick + (len(level.buckets) << level.shift)
                tick = following if following is not None and following <= around else None

    def _next_tick(self) -> int | None:
        ticks = (level.next_tick(self._tick) for level in self._levels)
        return min((tick for tick in ticks if tick is not None), default=None)

    def _place(self, timer_id: int, tick: int, now: int) -> None:
        """Put an id into the bucket of a tick that has not been looked at yet."""
        ahead = tick - now
        if ahead < _REACHES[0]:
            self._levels[0].put(tick, timer_id)
        elif ahead < _REACHES[1]:
            self._levels[1].put(tick, timer_id)
        elif ahead < _REACHES[2]:
            self._levels[2].put(tick, timer_id)
        else:
            furthest = now + _REACHES[3] - (1 << SHIFTS[3])
            self._levels[3].put(min(tick, furthest), timer_id)

    def _cascade(self, tick: int) -> bool:
        """Put some timers of wide buckets that begin now where they belong; whether there were any.

        The widest first.
        """
        for level in reversed(self._levels[1:]):
            if tick & ((1 << level.shift) - 1) or not level.bucket(tick):
                continue
            for timer_id in level.take(tick, AT_ONCE):
                due_ms = self._due_ms.get(timer_id)
                if due_ms is not None:
                    self._place(timer_id, max(-(-due_ms // TICK_MS), tick), tick)
            self._cascades += not level.bucket(tick)
            return True
        return False

    def _fire(self, tick: int) -> Iterator[list[int]]:
        """The timers of a tick in their order; all are looked at before the first is drawn."""
        level, runs = self._levels[0], []
        while bucket := level.take(tick, AT_ONCE):
            due = []
            for timer_id in bucket:
                due_ms = self._due_ms.get(timer_id)
                if due_ms is not None and due_ms <= tick * TICK_MS:
                    due.append((due_ms, timer_id))
                    del self._due_ms[timer_id]
            due.sort()
            runs.append(due)
            if level.bucket(tick):
                yield []
        in_order = iter(runs[0]) if len(runs) == 1 else heapq.merge(*runs)
        while fired := [timer_id for _, timer_id in islice(in_order, AT_ONCE)]:
            self._fired += len(fired)
            yield fired

    # --- Looking ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Every timer: its id, and when it is due."""
        return iter(self._due_ms.items())

    def dues(self) -> list[int]:
        """When each timer is due."""
        return list(self._due_ms.values())

    @property
    def stats(self) -> WheelStats:
        """What is in the wheel, and what has happened in it."""
        return WheelStats(
            len(self._due_ms),
            tuple(level.count() for level in self._levels),
            self._scheduled,
            self._cancelled,
            self._fired,
            self._cascades,
        )

    def check_invariants(self) -> None:
        """Raise `InvariantError` when a timer sits in no bucket that comes in time."""
        places: dict[int, int] = {}
        for level in self._levels:
            for slot, bucket in enumerate(level.buckets):
                if bool(bucket) != bool(level.occupied >> slot & 1):
                    raise InvariantError(f"bucket {slot} of shift {level.shift} is marked wrongly")
                first = (self._tick >> level.shift) + 1
                at = first + (slot - first) % len(level.buckets) << level.shift
                for timer_id in bucket:
                    places[timer_id] = min(at, places.get(timer_id, at))
        for timer_id, due_ms in self._due_ms.items():
            due_tick = max(-(-due_ms // TICK_MS), self._tick + 1)
            if timer_id not in places or places[timer_id] > due_tick:
                raise InvariantError(f"timer {timer_id}, due at {due_ms}, is in no bucket in time")
