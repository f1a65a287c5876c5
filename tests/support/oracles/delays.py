"""Judge of delayed messages: each once, none early, none that was cancelled.

lost        acknowledged, not cancelled, and not in the topic at the end
doubled     in the topic more than once
early       read, or stored, before it was due
cancelled   its cancellation was confirmed, and it is in the topic
invented    in the topic, and never published
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from support.history import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator


class Came(NamedTuple):
    """A message as a reader got it."""

    value: str
    timestamp_ms: int
    """When it was stored, as the broker says; 0 where nobody said."""
    read_ms: int
    """When it was read, by the clock of the reader."""
    place: str = ""
    """Its partition and offset, and what else tells it apart, for whoever looks for a mistake."""


class Delayed(NamedTuple):
    """A run, once everything is due."""

    due_ms: dict[str, int]
    """Of everything that was published, whatever was answered; 0: at once."""
    acked: set[str]
    cancelled: set[str]
    """Those whose cancellation was confirmed."""
    in_doubt: set[str]
    """Those of which nobody knows whether they were cancelled in time."""
    came: list[Came]
    """Each message of the topic, once for each place it has there."""
    seen: list[Came]
    """What somebody read while all went on."""


def judge(run: Delayed) -> list[Finding]:
    """Everything that is wrong with a run."""
    times = Counter(each.value for each in run.came)
    places = defaultdict[str, list[str]](list)
    for each in run.came:
        places[each.value].append(each.place)
    findings = [
        Finding("lost", each)
        for each in sorted(run.acked - run.cancelled - run.in_doubt)
        if each not in times
    ]
    findings += [
        Finding("doubled", f"{value}, {n} times: {places[value]}, due at {run.due_ms.get(value)}")
        for value, n in times.items()
        if n > 1
    ]
    findings += [Finding("cancelled", each) for each in run.cancelled if each in times]
    findings += [Finding("invented", each) for each in times if each not in run.due_ms]
    findings += _early(run)
    return findings


def _early(run: Delayed) -> Iterator[Finding]:
    for each in (*run.came, *run.seen):
        due_ms = run.due_ms.get(each.value, 0)
        if each.timestamp_ms and each.timestamp_ms < due_ms:
            told = f"{each.value}, stored {due_ms - each.timestamp_ms} ms early"
            yield Finding("early", f"{told}, read {each.read_ms - due_ms} ms late: {each.place}")
        elif each.read_ms < due_ms:
            yield Finding("early", f"{each.value}, read {due_ms - each.read_ms} ms early")
