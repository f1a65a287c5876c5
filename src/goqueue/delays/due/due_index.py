"""When messages are due, as far as memory has to know it.

```
due now .. ~5 min       the wheel                  about 110 bytes a message
.. end of loaded slots  arrays by 2.73 minutes      16 bytes a message
later                   slot files on the disk       0 bytes, and somebody else's work
```

Whatever comes is also kept for the slot files until it has been saved, in 16 bytes. Nothing here
knows which messages still wait; whoever takes what is due asks.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from goqueue.delays.due.slots import SLOT_MS, slot_of
from goqueue.delays.due.wheel import AT_ONCE, Wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STEP_MS: Final = SLOT_MS // 64
"""How much is moved into the wheel at once: as wide as a bucket of its level 2."""
LOAD_AHEAD_MS: Final = 4 * STEP_MS
"""A slot is asked for so long before its time comes."""


class DueIndex:
    """Due times by id, in memory as far as they are near."""

    def __init__(self, now_ms: int) -> None:
        self.wheel = Wheel(now_ms)
        self._wheel_step = now_ms // STEP_MS + 2
        """What is due before this step is in the wheel; moves with time."""
        self._steps: dict[int, array[int]] = {}
        self.next_slot = slot_of(now_ms)
        """What is due before this slot is in memory; moves when a slot is taken over."""
        self.unsaved = array("q")
        """Due times and ids in turn that are in no slot file yet."""

    def add(self, due_ms: int, delayed_id: int) -> None:
        """A message has come."""
        self.add_all([due_ms, delayed_id])

    def add_all(self, entries: Sequence[int]) -> None:
        """Messages have come: due times and ids in turn."""
        self.unsaved.extend(entries)
        dues_ms = entries[::2]
        if min(dues_ms) < self.next_slot * SLOT_MS:  # as the wheel is never ahead of the slots
            for due_ms, delayed_id in zip(dues_ms, entries[1::2], strict=True):
                self.restore(due_ms, delayed_id)

    def restore(self, due_ms: int, delayed_id: int) -> None:
        """A message is known again that is saved already; twice does no harm."""
        step = due_ms // STEP_MS
        if step < self._wheel_step:
            self.wheel.schedule(delayed_id, max(0, due_ms))
        elif due_ms // SLOT_MS < self.next_slot:
            entries = self._steps.get(step)
            if entries is None:
                entries = self._steps[step] = array("q")
            entries.append(due_ms)
            entries.append(delayed_id)

    def cancel(self, delayed_id: int) -> None:
        """A message need not be delivered. What is not in the wheel yet is found out later."""
        self.wheel.cancel(delayed_id)

    def known_dues(self) -> list[int]:
        """When messages are due, of those that are in no slot file further away."""
        found = self.wheel.dues()
        for entries in self._steps.values():
            found += entries[::2]
        end_ms = self.next_slot * SLOT_MS
        found += (due_ms for due_ms in self.unsaved[::2] if due_ms >= end_ms)
        return found

    # --- Slots -----------------------------------------------------------------------------------

    def wanted_slot(self, now_ms: int) -> int | None:
        """The slot whose time has almost come, if it is not in memory."""
        return self.next_slot if self.next_slot * SLOT_MS - LOAD_AHEAD_MS <= now_ms else None

    def expect_slot(self, slot: int) -> None:
        """From now on what comes for this slot and those before it is kept in memory."""
        self.next_slot = max(self.next_slot, slot + 1)

    def take_over(self, entries: array[int], is_pending: Callable[[int], bool]) -> None:
        """What a slot file held, as far as it still waits."""
        for at in range(0, len(entries), 2):
            if is_pending(entries[at + 1]):
                self.restore(entries[at], entries[at + 1])

    def take_unsaved(self) -> array[int]:
        """What is to be written to slot files; if that fails, it is given back with `not_saved`."""
        unsaved, self.unsaved = self.unsaved, array("q")
        return unsaved

    def not_saved(self, entries: array[int]) -> None:
        """Writing failed: keep what was taken, before what has come since."""
        self.unsaved = entries + self.unsaved

    # --- Time ------------------------------------------------------------------------------------

    def advance(self, now_ms: int, is_pending: Callable[[int], bool]) -> Iterator[list[int]]:
        """The ids that are due, in the order in which they fell due.

        Some at a time, perhaps none; all must be drawn.
        """
        while self._wheel_step < now_ms // STEP_MS + 2:
            if not self._steps:
                self._wheel_step = now_ms // STEP_MS + 2
                break
            entries = self._steps.pop(self._wheel_step, array("q"))
            self._wheel_step += 1
            for at in range(0, len(entries), 2 * AT_ONCE):
                self.take_over(entries[at : at + 2 * AT_ONCE], is_pending)
                yield []
        yield from self.wheel.advance(now_ms)

    def turn_back(self, now_ms: int) -> Iterator[None]:
        """The clock was set back: what would be early by the new time waits for it again.

        Done some at a time; all must be drawn.
        """
        timers, self.wheel = self.wheel, Wheel(now_ms)
        for number, (delayed_id, due_ms) in enumerate(timers, 1):
            self.wheel.schedule(delayed_id, due_ms)
            if number % AT_ONCE == 0:
                yield

    def next_due_hint(self) -> int:
        """The moment before which nothing need be done."""
        steps_ms = (self._wheel_step - 1) * STEP_MS if self._steps else None
        slot_ms = self.next_slot * SLOT_MS - LOAD_AHEAD_MS
        hints = (self.wheel.next_due_hint(), steps_ms, slot_ms)
        return min(hint for hint in hints if hint is not None)
