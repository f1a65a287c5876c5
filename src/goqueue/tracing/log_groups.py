"""What log groups do with sampled messages: a fetch hands them out, a commit completes them."""

from __future__ import annotations

from typing import Final

from goqueue.tracing.context import TraceContext, new_trace
from goqueue.tracing.events import Event
from goqueue.tracing.tracer import Place, Tracer, Traces

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
        if place is None or not self._tracer.index.knows(place.id):
            return  # whoever serves a fetch leads the partition, and knows what is traced
        reader = (place.id, group, consumer)
        first = max(first, self._noted_to.get(reader, 0))
        if first >= end:
            return
        if len(self._noted_to) >= _MAX_READERS:
            self._noted_to.clear()
        self._noted_to[reader] = end
        parts = self._tracer.traced_within(place.id, [(first, end)])
        if parts:
            now_ns = self._tracer.clock.now_ns()
            self._tracer.note(Event.FETCHED, place, parts, now_ns, group=group, consumer=consumer)

    def relayed(
        self,
        partition: tuple[str, int],
        first: int,
        end: int,
        *,
        group: str = "",
        consumer: str = "",
    ) -> None:
        """A reader here was given [first, end) by the node that leads the partition."""
        place = self._known_place(partition)
        if place is not None:
            now_ns = self._tracer.clock.now_ns()
            said = {"group": group, "consumer": consumer}
            self._tracer.note_within(Event.FETCHED, place, [(first, end)], now_ns, **said)

    def committed(self, partition: tuple[str, int], first: int, end: int, group: str) -> None:
        """A log group has committed the messages in [first, end)."""
        place = self._known_place(partition)
        if place is not None:
            now_ns = self._tracer.clock.now_ns()
            self._tracer.note_within(Event.ACKED, place, [(first, end)], now_ns, group=group)

    def _known_place(self, partition: tuple[str, int]) -> Place | None:
        """The place of a partition; None when none of its messages is traced."""
        topic, number = partition
        return self._tracer.known_place(self._tracer.topic(topic), number)

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
