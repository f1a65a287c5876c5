"""What the events of one message come to: how long each stage took, and how it ended.

Pure: takes the events of a trace in order, and returns what is to be counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.tracing.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STAGES: Final = {
    "publish": "received until as durable as was asked for",
    "delay": "scheduled until in its partition",
    "lateness": "due until in its partition",
    "wait": "in its partition until fetched for the first time",
    "work": "fetched until acknowledged",
    "failed attempt": "fetched until nacked, rejected or out of time",
    "redelivery": "failed until fetched again",
    "to dead letters": "received until dead-lettered",
    "end to end": "received until acknowledged",
}
"""Every stage, in the order of a message's life."""
OUTCOMES: Final = ("seen", "acked", "retried", "dead", "refused", "expired")
TOTAL: Final = "total"
"""From the first event of a trace to its last."""

_ENDS_OF_AN_ATTEMPT: Final = frozenset({Event.NACKED, Event.TIMED_OUT, Event.REJECTED})


class Happened(NamedTuple):
    """One event of a message."""

    at_ns: int
    event: str
    topic: str
    group: str = ""
    duration_ns: int = 0
    deliver_at_ms: int = 0


class Found(NamedTuple):
    """Something to be counted."""

    what: str
    """A stage, an outcome, or `TOTAL`."""
    topic: str
    group: str
    took_ns: int
    """0 for an outcome."""


@dataclass(slots=True)
class _Reader:
    """What one group has done with a message."""

    fetched_ns: int | None = None
    failed_ns: int | None = None


@dataclass(slots=True)
class _Message:
    """What is known of a message so far."""

    topic: str = ""
    received_ns: int | None = None
    scheduled_ns: int | None = None
    ready_ns: int | None = None
    """Since when it can be fetched."""
    due_ms: int = 0
    readers: dict[str, _Reader] = field(default_factory=dict)
    outcomes: set[str] = field(default_factory=set)


def found_in(events: Iterable[Happened]) -> list[Found]:
    """What a trace says, from its events in the order of time."""
    ordered = sorted(events, key=lambda each: each.at_ns)
    if not ordered or ordered[0].event in {Event.REBALANCE_STARTED, Event.REBALANCE_COMPLETED}:
        return []
    message = _Message()
    found: list[Found] = []
    for each in ordered:
        message.topic = message.topic or each.topic
        found += _publishing(message, each)
        found += _delaying(message, each)
        found += _fetching(message, each)
        found += _ending(message, each)
    began_ns = min(each.at_ns - each.duration_ns for each in ordered)
    topic = message.topic
    found.append(Found(TOTAL, topic, "", ordered[-1].at_ns - began_ns))
    found += (Found(name, topic, "", 0) for name in ("seen", *sorted(message.outcomes)))
    return found


def _publishing(message: _Message, each: Happened) -> Iterator[Found]:
    event, at_ns = each.event, each.at_ns
    if event == Event.RECEIVED:
        if message.readers:  # it went back from the dead letters: a new life
            message.readers, message.topic = {}, each.topic
        message.received_ns, message.ready_ns = at_ns, None
    elif event == Event.PERSISTED:
        began_ns = at_ns - each.duration_ns if message.received_ns is None else message.received_ns
        yield _stage("publish", message, at_ns - began_ns)
        message.received_ns = began_ns
        if message.scheduled_ns is None:
            message.ready_ns = at_ns
    elif event == Event.VALIDATION_FAILED:
        message.outcomes.add("refused")


def _delaying(message: _Message, each: Happened) -> Iterator[Found]:
    event, at_ns = each.event, each.at_ns
    if event == Event.DELAY_SCHEDULED:
        message.scheduled_ns, message.due_ms = at_ns, each.deliver_at_ms
    elif event == Event.DELAY_READY:
        due_ms = each.deliver_at_ms or message.due_ms
        if message.scheduled_ns is not None:
            yield _stage("delay", message, at_ns - message.scheduled_ns)
        if due_ms:
            yield _stage("lateness", message, at_ns - due_ms * 1_000_000)
        message.ready_ns, message.scheduled_ns = at_ns, None
    elif event == Event.DELAY_EXPIRED:
        message.outcomes.add("expired")


def _fetching(message: _Message, each: Happened) -> Iterator[Found]:
    if each.event != Event.FETCHED:
        return
    at_ns, group = each.at_ns, each.group
    is_first = group not in message.readers
    reader = message.readers.setdefault(group, _Reader())
    if reader.failed_ns is not None:
        yield _stage("redelivery", message, at_ns - reader.failed_ns, group)
    elif is_first and message.ready_ns is not None:
        yield _stage("wait", message, at_ns - message.ready_ns, group)
    reader.fetched_ns, reader.failed_ns = at_ns, None


def _ending(message: _Message, each: Happened) -> Iterator[Found]:
    event, at_ns, group = each.event, each.at_ns, each.group
    reader = message.readers.get(group, _Reader())
    if event == Event.ACKED:
        message.outcomes.add("acked")
        if reader.fetched_ns is not None:
            yield _stage("work", message, at_ns - reader.fetched_ns, group)
        if message.received_ns is not None:
            yield _stage("end to end", message, at_ns - message.received_ns, group)
    elif event in _ENDS_OF_AN_ATTEMPT:
        if event != Event.REJECTED:
            message.outcomes.add("retried")
        if reader.fetched_ns is not None:
            yield _stage("failed attempt", message, at_ns - reader.fetched_ns, group)
        reader.failed_ns, reader.fetched_ns = at_ns, None
    elif event == Event.DEAD_LETTERED:
        message.outcomes.add("dead")
        if message.received_ns is not None:
            yield _stage("to dead letters", message, at_ns - message.received_ns, group)


def _stage(what: str, message: _Message, took_ns: int, group: str = "") -> Found:
    """A stage; a fast consumer may have a message before it is known to be on the disk."""
    return Found(what, message.topic, group, max(0, took_ns))
