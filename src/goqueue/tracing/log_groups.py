"""What log groups do with sampled messages: a fetch hands them out, a commit completes them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from goqueue.tracing.context import TraceContext, new_trace
from goqueue.tracing.events import Event
from goqueue.tracing.tracer import Parts, Place, Tracer, Traces

if TYPE_CHECKING:
    from collections.abc import Iterable


_MAX_NOTED_PARTS: Final = 1000
"""Ranges that one fetch or commit notes. A first commit may pass all that is traced: the rest of it
is left out."""
_MAX_REBALANCES: Final = 1000
"""Groups that rebalance at once; of more, all that go on begin new traces."""
_MAX_READERS: Final = 10_000
"""Readers whose last fetch is remembered; at the bound all are forgotten, and one fetch of each may
be noted a second time."""


class LogGroupTraces(Traces):
    """Notes reads and commits of sampled messages by log groups, and reads without a group."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)
        self._noted_to: dict[tuple[str, str, str], int] = {}
        """The end of what was noted last, by place, group and consumer: a reader that goes back and
        reads the same messages again adds nothing to their traces."""
        self._rebalances: dict[str, TraceContext] = {}
        """The traces of groups that are rebalancing."""

    def fetched(
        self,
        partition: tuple[str, int],
        first: int,
        end: int,
        *,
        group: str = "",
        consumer: str = "",
    ) -> None:
        """A reader of the log has fetched [first, end)."""
        place = self._known_place(partition)
        if place is None:
            return
        reader = (place.id, group, consumer)
        first = max(first, self._noted_to.get(reader, 0))
        if first >= end:
            return
        if len(self._noted_to) >= _MAX_READERS:
            self._noted_to.clear()
        self._noted_to[reader] = end
        self._note_range(Event.FETCHED, place, first, end, group=group, consumer=consumer)

    def committed(self, partition: tuple[str, int], first: int, end: int, group: str) -> None:
        """A log group has committed the messages in [first, end)."""
        place = self._known_place(partition)
        if place is not None:
            self._note_range(Event.ACKED, place, first, end, group=group)

    def _known_place(self, partition: tuple[str, int]) -> Place | None:
        """The place of a partition; None when none of its messages is traced."""
        topic, number = partition
        return self._tracer.known_place(self._tracer.topic(topic), number)

    def _note_range(self, event: Event, place: Place, first: int, end: int, **said: str) -> None:
        parts = _joined(islice(self._tracer.index.within(place.id, first, end), _MAX_NOTED_PARTS))
        if parts:
            self._tracer.note(event, place, parts, self._tracer.clock.now_ns(), **said)

    def rebalanced(self, group: str, number: int, reason: str, took_ms: int | None) -> None:
        """A group begins to rebalance, or has done so, in so long.

        One that begins again before it is done goes on in the same trace.
        """
        if not self.is_on or not self._tracer.default_threshold:
            return
        said = {"number": str(number)}
        if took_ms is None:
            if len(self._rebalances) >= _MAX_REBALANCES:
                self._rebalances.clear()
            context = self._rebalances.setdefault(group, new_trace())
            said["reason"] = reason
            self._tracer.add_bare(Event.REBALANCE_STARTED, context, group=group, attributes=said)
        else:
            context = self._rebalances.pop(group, new_trace())
            took_ns = took_ms * 1_000_000
            self._tracer.add_bare(
                Event.REBALANCE_COMPLETED,
                context,
                group=group,
                duration_ns=took_ns,
                attributes=said,
            )


def _joined(parts: Iterable[tuple[TraceContext | None, int, int]]) -> Parts:
    """The same messages in fewer ranges: neighbours that name no trace become one."""
    joined: Parts = []
    for context, first, end in parts:
        if context is None and joined and joined[-1][0] is None and joined[-1][2] == first:
            joined[-1] = (None, joined[-1][1], end)
        else:
            joined.append((context, first, end))
    return joined
