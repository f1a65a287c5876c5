"""What became of the messages of a queue group, as its consumers saw it, and what is wrong."""

from __future__ import annotations

import threading
from collections import defaultdict


class QueueHistory:
    """Deliveries and acknowledgements as consumers saw them, in whichever thread.

    A consumer may see late what it was handed early. So it is the delivery counts that tell which
    delivery came after which.
    """

    def __init__(self) -> None:
        self.published: set[str] = set()
        """Those that the broker has acknowledged."""
        self._lock = threading.Lock()
        self._counts: defaultdict[str, list[int]] = defaultdict(list)
        self._in_doubt: set[str] = set()
        self._refused: dict[str, str] = {}
        self._settled: dict[str, int] = {}
        """By message, the delivery that was acknowledged, where the broker has stored that."""

    def delivered(self, value: str, count: int) -> None:
        """A message came, for the so-manieth time as the broker says."""
        with self._lock:
            self._counts[value].append(count)

    def settled(self, value: str, count: int) -> None:
        """The broker has stored that a delivery was acknowledged."""
        with self._lock:
            self._settled[value] = count

    def refused(self, value: str, why: str) -> None:
        """The broker refused an acknowledgement: the message is redelivered."""
        with self._lock:
            self._refused[value] = why

    def in_doubt(self, value: str) -> None:
        """The answer to an acknowledgement was lost: it may be stored, or the message comes."""
        with self._lock:
            self._in_doubt.add(value)

    @property
    def left(self) -> set[str]:
        """What was published and has to come, or to come again."""
        with self._lock:
            return self.published - self._settled.keys() - self._in_doubt

    def check(self) -> None:
        """Everything came, nothing that was acknowledged came again, each delivery counted once."""
        left = {each: (self._counts[each], self._refused.get(each)) for each in self.left}
        assert not left, f"{len(left)} are left; their deliveries, and why not: {left}"[:900]
        again = {
            value: (count, self._counts[value])
            for value, count in self._settled.items()
            if max(self._counts[value]) > count
        }
        assert not again, f"{len(again)} came again after their ack, for example {again}"[:500]
        untrue = {
            value: counts
            for value, counts in self._counts.items()
            if len(set(counts)) < len(counts)
        }
        assert not untrue, f"delivery counts are not true: {untrue}"[:500]
