"""Delayed messages in message traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.tracing.events import Event
from goqueue.tracing.index import Traced
from goqueue.tracing.tracer import DELAYED, Traces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.delays.courier import Due
    from goqueue.delays.views import DelayedMessage
    from goqueue.topics.catalogue import Topic


class DelayTraces(Traces):
    """Notes what becomes of sampled messages that wait."""

    def ready(self, topic: Topic, partition: int, first: int, messages: Sequence[Due]) -> None:
        """Messages have waited, and are in their partition from an offset on."""
        if not self._tracer.index.knows(DELAYED):
            return
        place = self._tracer.place(topic, partition)
        own = {
            first + at: self._tracer.context(DELAYED, delayed_id)
            for at, (delayed_id, _, _) in enumerate(messages)
        }
        if any(own.values()):
            end = first + len(messages)
            self._tracer.index.add(place.id, Traced(first, end, own))
            parts = self._tracer.index.within(place.id, first, end)
            self._tracer.note(Event.DELAY_READY, place, parts, self._tracer.clock.now_ns())

    def cancelled(self, topic: Topic, message: DelayedMessage) -> None:
        """A message will never be delivered."""
        place = self._tracer.place(topic, message.partition)
        context = self._tracer.context(DELAYED, message.delayed_id)
        if context is not None:
            attributes = {"delayed_id": str(message.delayed_id)}
            self._tracer.add(Event.DELAY_CANCELLED, place, context, attributes=attributes)

    def expired(self, ids: Iterable[int]) -> None:
        """Messages that waited have gone with their topic."""
        if not self._tracer.index.knows(DELAYED):
            return
        for delayed_id in ids:
            context = self._tracer.context(DELAYED, delayed_id)
            if context is not None:
                attributes = {"delayed_id": str(delayed_id)}
                self._tracer.add_bare(Event.DELAY_EXPIRED, context, attributes=attributes)
