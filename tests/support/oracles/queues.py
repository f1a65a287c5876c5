"""Judge of a queue group: what was acknowledged stays so, everything else comes.

A consumer may see late what it was handed early: it is the delivery counts that tell which delivery
came after which.

    lost            published, and neither acknowledged, rejected nor in doubt at the end
    redelivered     delivered again after its acknowledgement or rejection was stored
    count           two deliveries of one message with the same delivery count
    refused         a receipt that was refused although its visibility timeout had not passed
    dead letter     a rejected message that is not in the dead-letter queue once, or another one
    left            the broker says that something is left to do when everything is done
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from support.history import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ACK, REJECT = "ack", "reject"
"""The verdicts that end a message."""


class Settled(NamedTuple):
    """The broker has stored what was said of a delivery."""

    value: str
    deliveries: int
    verdict: str


class Refused(NamedTuple):
    """A receipt was refused although its visibility timeout had not passed."""

    value: str
    deliveries: int
    why: str
    was_tried: bool
    """Whether it was sent before, and the answer was lost: then it may have counted."""


class QueueHistory:
    """Deliveries and acknowledgements as the members of a group saw them, in whichever thread."""

    def __init__(self) -> None:
        self.published: set[str] = set()
        """Those that the broker has acknowledged."""
        self._lock = threading.Lock()
        self._counts: defaultdict[str, list[int]] = defaultdict(list)
        self._settled: list[Settled] = []
        self._done: set[str] = set()
        self._in_doubt: defaultdict[str, set[str]] = defaultdict(set)
        """By message, the verdicts whose answers were lost: stored, or it is redelivered."""
        self._refused: dict[str, str] = {}
        self._refused_in_time: list[Refused] = []

    def delivered(self, value: str, count: int) -> None:
        """A message came, for the so-manieth time as the broker says."""
        with self._lock:
            self._counts[value].append(count)

    def settled(self, value: str, count: int, verdict: str = ACK) -> None:
        """The broker has stored what was said of a delivery."""
        with self._lock:
            self._settled.append(Settled(value, count, verdict))
            if verdict in (ACK, REJECT):
                self._done.add(value)

    def refused(self, value: str, why: str) -> None:
        """The broker refused what was said: the message is redelivered."""
        with self._lock:
            self._refused[value] = why

    def refused_in_time(self, refused: Refused) -> None:
        """The broker refused a receipt whose visibility timeout had not passed."""
        with self._lock:
            self._refused_in_time.append(refused)

    def in_doubt(self, value: str, verdict: str = ACK) -> None:
        """The answer to what was said was lost: it may be stored, or the message comes."""
        with self._lock:
            self._in_doubt[value].add(verdict)

    @property
    def left(self) -> set[str]:
        """What was published and has to come, or to come once more."""
        with self._lock:
            return self.published - self._done - self._maybe_done()

    @property
    def done_count(self) -> int:
        with self._lock:
            return len(self._done | self._maybe_done())

    def _maybe_done(self) -> set[str]:
        """Those whose acknowledgement or rejection may be stored."""
        return {value for value, said in self._in_doubt.items() if said & {ACK, REJECT}}

    def judge(self, letters: Iterable[str] | None = None, left: object = None) -> list[Finding]:
        """Everything that is wrong; with the dead letters, and what the broker says is left."""
        left_over = [
            Finding("lost", f"{each}: {self._counts[each]}, {self._refused.get(each)}")
            for each in self.left
        ]
        with self._lock:
            findings = [*left_over, *self._redelivered(), *self._counted()]
            findings += self._wrongly_refused()
            if letters is not None:
                findings += self._letters(Counter(letters))
        if left:
            findings.append(Finding("left", str(left)))
        return findings

    def check(self) -> None:
        """Nothing is wrong."""
        findings = self.judge()
        assert not findings, f"{len(findings)}: {'; '.join(map(str, findings))}"[:2000]

    def _redelivered(self) -> Iterator[Finding]:
        for value, count, verdict in self._settled:
            counts = self._counts[value]
            if verdict in (ACK, REJECT) and max(counts, default=0) > count:
                yield Finding("redelivered", f"{value}: {verdict} of {count}, came as {counts}")

    def _wrongly_refused(self) -> Iterator[Finding]:
        """Those sent once, and those that had not counted: their message came once more."""
        for each in self._refused_in_time:
            counts = self._counts[each.value]
            if not each.was_tried or max(counts, default=0) > each.deliveries:
                yield Finding("refused", f"{each}, came as {counts}")

    def _counted(self) -> Iterator[Finding]:
        for value, counts in self._counts.items():
            if len(set(counts)) < len(counts):
                yield Finding("count", f"{value}: {counts}")

    def _letters(self, letters: Counter[str]) -> Iterator[Finding]:
        rejected = {each.value for each in self._settled if each.verdict == REJECT}
        possible = {value for value, said in self._in_doubt.items() if REJECT in said}
        for value in rejected - letters.keys():
            yield Finding("dead letter", f"{value} was rejected, and is not there")
        for value, times in letters.items():
            if value not in rejected | possible:
                yield Finding("dead letter", f"{value} was not rejected")
            elif times > 1:
                yield Finding("dead letter", f"{value} is there {times} times")
