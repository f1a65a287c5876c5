"""Finding traces among entries."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.tuples import NamedTuple
from goqueue.tracing.views import Status, Trace, assemble, events_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.tracing.events import Entry

LIMIT: Final = 100
_MAX_EXAMINED: Final = 20_000
"""Traces that one search looks at. A ring holds far more when whole batches are traced; a search
that finds too little among the newest says that it has not looked at all."""
_FIRST: Final = 500


class TraceQuery(msgspec.Struct, frozen=True):
    """Which traces are wanted; everything that is said must hold."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    """Something happened from then on, and before then."""
    status: Status | None = None
    min_duration_ns: int | None = None
    max_duration_ns: int | None = None
    limit: int = LIMIT

    def conditions(self) -> Iterator[Callable[[Entry], bool]]:
        """What some entry of each wanted trace fulfils; not the same entry for all of them."""
        topic, partition, group = self.topic, self.partition, self.group
        start_ns, end_ns = self.start_ns, self.end_ns
        if start_ns is not None:
            yield lambda entry: entry.at_ns >= start_ns
        if end_ns is not None:
            yield lambda entry: entry.at_ns - entry.duration_ns < end_ns
        if topic is not None or partition is not None:
            yield (
                lambda entry: (
                    (topic is None or entry.topic == topic)
                    and (partition is None or entry.partition == partition)
                )
            )
        if group is not None:
            yield lambda entry: entry.group == group
        # Pending is also that of which nothing else is known.
        if self.status not in {None, Status.PENDING}:
            events = events_of(self.status)
            yield lambda entry: entry.event in events

    def matches(self, trace: Trace) -> bool:
        """Whether a trace is wanted."""
        return (
            self._has_place(trace)
            and (self.group is None or any(each.group == self.group for each in trace.spans))
            and (self.start_ns is None or trace.end_ns >= self.start_ns)
            and (self.end_ns is None or trace.start_ns < self.end_ns)
            and (self.status is None or trace.status is self.status)
            and (self.min_duration_ns is None or trace.duration_ns >= self.min_duration_ns)
            and (self.max_duration_ns is None or trace.duration_ns <= self.max_duration_ns)
        )

    def _has_place(self, trace: Trace) -> bool:
        return any(
            (self.topic is None or span.topic == self.topic)
            and (self.partition is None or span.partition == self.partition)
            for span in trace.spans
        )


class FoundTraces(NamedTuple):
    """What a search has found, the newest first."""

    traces: list[Trace]
    is_complete: bool
    """There were no more to look at, or as many were found as were wanted."""


def search(
    entries: Sequence[Entry], query: TraceQuery, examined: int = _MAX_EXAMINED
) -> FoundTraces:
    """The newest traces that are wanted, by what happened last to each."""
    candidates = _candidates(entries, query)
    found: list[Trace] = []
    size = _FIRST
    while portion := list(islice(candidates, min(size, examined))):
        examined -= len(portion)
        size *= 2  # as each portion costs a pass over all entries
        traces = assemble(entries, portion)
        found += (traces[each] for each in portion if query.matches(traces[each]))
        if len(found) >= query.limit:
            return FoundTraces(_newest(found[: query.limit]), is_complete=True)
        if examined == 0:
            return FoundTraces(_newest(found), is_complete=next(candidates, None) is None)
    return FoundTraces(_newest(found), is_complete=True)


def _newest(traces: list[Trace]) -> list[Trace]:
    return sorted(traces, key=lambda trace: trace.end_ns, reverse=True)


def _candidates(entries: Sequence[Entry], query: TraceQuery) -> Iterator[str]:
    """Every trace that may be wanted: those of the condition that the fewest messages fulfil."""
    chosen = [[entry for entry in entries if condition(entry)] for condition in query.conditions()]
    fewest = min(chosen, key=_message_count, default=entries)
    seen: set[str] = set()
    for entry in reversed(fewest):
        for trace_id, _ in entry.traces():
            if trace_id not in seen:
                seen.add(trace_id)
                yield trace_id


def _message_count(entries: Sequence[Entry]) -> int:
    return sum(entry.count for entry in entries)


def trace_at(entries: Sequence[Entry], topic: str, partition: int, offset: int) -> str | None:
    """The newest trace of the message at a place."""
    for entry in reversed(entries):
        if entry.topic == topic and entry.partition == partition and entry.holds(offset):
            return entry.trace_at(offset)
    return None
