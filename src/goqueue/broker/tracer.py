"""Tracing as the use cases see it: one object that is told what happens, and notes what is sampled.

Whoever calls looks at `is_on` first, and that is all that tracing costs when it is off. A batch
that is not sampled costs one comparison when it is published, and one look into the index, which
knows nothing of it, when its messages are delivered and acknowledged. What the index has forgotten
is not traced on.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.broker.trace_batches import traced_batch
from goqueue.broker.trace_log_groups import TraceLogGroups
from goqueue.broker.trace_notes import DELAYED, Parts, Place
from goqueue.delivery.receipts import Receipt
from goqueue.records.batch import peek_header
from goqueue.tracing.context import (
    TRACEPARENT_HEADER,
    TraceContext,
    context_in,
    derived_context,
    new_trace,
)
from goqueue.tracing.events import Event
from goqueue.tracing.index import Traced, parts_of
from goqueue.tracing.sampling import is_sampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.broker.delay_admission import Opened
    from goqueue.broker.delay_courier import Due
    from goqueue.broker.delay_intake import Delayed
    from goqueue.broker.delay_views import DelayedMessage
    from goqueue.broker.partition import Placed
    from goqueue.broker.portions import Portion, Span
    from goqueue.broker.publish import PublishRequest
    from goqueue.broker.topics import Topic, Topics
    from goqueue.delivery.doom import Doom
    from goqueue.model.errors import GoQueueError
    from goqueue.records import Record
    from goqueue.runtime.clock import Clock
    from goqueue.tracing.store import TraceStore

_LONGEST: Final = 1000
MAX_REBALANCES: Final = 1000
"""Groups that rebalance at once; of more, all that go on begin new traces."""


class TracedPublish(NamedTuple):
    """A batch that was published and is traced."""

    place: Place
    parts: Parts
    received_ns: int
    attributes: dict[str, str]


class Tracer(TraceLogGroups):
    """Notes what happens to sampled messages."""

    def __init__(self, store: TraceStore, topics: Topics, clock: Clock, node: str) -> None:
        super().__init__(store, topics, clock, node)
        self._rebalances: dict[str, TraceContext] = {}
        """The traces of groups that share out their partitions."""

    # --- Publishing ------------------------------------------------------------------------------

    def published(
        self, topic: Topic, request: PublishRequest, placed: Placed, started_s: float
    ) -> TracedPublish | None:
        """A batch is in the log; None when it is not traced."""
        place = self.place(topic, request.partition.number)
        first, end, is_duplicate = placed
        if is_duplicate:
            return None
        self._share.published_bytes += len(request.batch)
        is_chosen = is_sampled(place.threshold, first) and (
            not place.is_bounded or self._may_trace(started_s)
        )
        if not (is_chosen or (request.traced and place.threshold)):
            return None
        batch = traced_batch(request.batch, first, end, only_named=not is_chosen)
        if not is_chosen and not any(batch.own.values()):
            return None
        self.index.add(place.id, batch)
        self._budget.charge(len(batch.own))
        attributes = {"redriven": "true"} if request.traced else {}
        parts = list(parts_of(batch, first, end))
        received_ns = self._clock.at_ns(started_s)
        traced = TracedPublish(place, parts, received_ns, attributes)
        self._note(Event.RECEIVED, place, parts, received_ns, attributes=attributes)
        self._note(Event.PARTITIONED, place, parts, received_ns, attributes=attributes)
        return traced

    def persisted(self, traced: TracedPublish) -> None:
        """A batch is as durable as its publisher asked for."""
        place, parts, received_ns, attributes = traced
        now_ns = max(self._clock.now_ns(), received_ns)
        took_ns = now_ns - received_ns
        self._note(
            Event.PERSISTED, place, parts, now_ns, duration_ns=took_ns, attributes=attributes
        )

    def refused(self, topic: Topic, request: PublishRequest, error: GoQueueError) -> None:
        """A batch was refused for what its messages are."""
        place = self.place(topic, request.partition.number)
        if not self._turns.draw(place.threshold) or (
            place.is_bounded and not self._may_trace(self._clock.monotonic_s())
        ):
            return
        count = peek_header(request.batch).last_offset_delta + 1
        batch = traced_batch(request.batch, 0, count, only_named=True)
        named = [context for context in batch.own.values() if context is not None]
        self._budget.charge(len(named))
        for context in named or [new_trace()]:
            self._add(Event.VALIDATION_FAILED, place, context, error=str(error)[:_LONGEST])

    # --- Delayed messages ------------------------------------------------------------------------

    def scheduled(
        self,
        topic: Topic,
        partition: int,
        found: Opened,
        messages: Iterable[Delayed],
        started_s: float,
    ) -> None:
        """Messages wait until they are due; each has a way of its own, and counts as a batch."""
        place = self.place(topic, partition)
        if not self._turns.draw(place.threshold):
            return
        received_ns, now_ns = self._clock.at_ns(started_s), self._clock.now_ns()
        for number, delayed_id, due_ms in messages:
            if delayed_id is None:
                continue
            if place.is_bounded and not self._may_trace(started_s):
                return
            context = derived_context(DELAYED, delayed_id)
            named = context_in(found.records[number].headers)
            if named is not None:
                context, is_wanted = named
                if not is_wanted:
                    continue
            self.index.add(DELAYED, Traced(delayed_id, delayed_id + 1, {delayed_id: context}))
            self._add(Event.RECEIVED, place, context, received_ns)
            self._add(Event.PARTITIONED, place, context, received_ns)
            self._add(
                Event.DELAY_SCHEDULED,
                place,
                context,
                now_ns,
                deliver_at_ms=due_ms,
                delay_ms=max(due_ms - now_ns // 1_000_000, 0),
                attributes={"delayed_id": str(delayed_id)},
            )

    def ready(self, topic: Topic, partition: int, first: int, messages: Sequence[Due]) -> None:
        """Messages have waited, and are in their partition from an offset on."""
        if not self.index.knows(DELAYED):
            return
        place = self.place(topic, partition)
        own = {
            first + at: self._context(DELAYED, delayed_id)
            for at, (delayed_id, _, _) in enumerate(messages)
        }
        if any(own.values()):
            end = first + len(messages)
            self.index.add(place.id, Traced(first, end, own))
            parts = self.index.within(place.id, first, end)
            self._note(Event.DELAY_READY, place, parts, self._clock.now_ns())

    def cancelled(self, topic: Topic, message: DelayedMessage) -> None:
        """A message will never be delivered."""
        place = self.place(topic, message.partition)
        context = self._context(DELAYED, message.delayed_id)
        if context is not None:
            attributes = {"delayed_id": str(message.delayed_id)}
            self._add(Event.DELAY_CANCELLED, place, context, attributes=attributes)

    def lapsed(self, ids: Iterable[int]) -> None:
        """Messages that waited have gone with their topic."""
        if not self.index.knows(DELAYED):
            return
        for delayed_id in ids:
            context = self._context(DELAYED, delayed_id)
            if context is not None:
                attributes = {"delayed_id": str(delayed_id)}
                self._add_bare(Event.DELAY_EXPIRED, context, attributes=attributes)

    # --- Asking ----------------------------------------------------------------------------------

    def trace_id(self, topic: Topic, partition: int, record: Record) -> str:
        """The trace of a stored message, if it is traced; one that waited has kept that of then."""
        named = context_in(record.headers)
        if named is not None:
            return named[0].trace_id
        place_id = self.place(topic, partition).id
        context = self._context(place_id, record.offset)
        return (context or derived_context(place_id, record.offset)).trace_id

    def trace_id_of(self, topic: str, partition: int, record: Record) -> str:
        """The same by the topic's name; empty for one that was deleted meanwhile."""
        found = self._topics.catalogue.by_name.get(topic)
        return "" if found is None else self.trace_id(found, partition, record)

    # --- Delivering ------------------------------------------------------------------------------

    def fetched(self, group: str, consumer: str, portions: Iterable[Portion]) -> None:
        """Messages were handed to a member of a queue group."""
        for portion in portions:
            place = self.traced_place(portion.key)
            if place is None:
                continue
            for span in portion.spans():
                if any(self.index.within(place.id, span.first, span.end)):
                    self._fetched(place, span, group, consumer, portion.deadline_ms)

    def _fetched(
        self, place: Place, span: Span, group: str, consumer: str, deadline_ms: int
    ) -> None:
        now_ns = self._clock.now_ns()
        first = span.first
        for count, same in groupby(span.counts):
            end = first + sum(1 for _ in same)
            receipt = ""
            if end - first == 1:
                nonce = span.nonces[first - span.first]
                receipt = str(Receipt(place.topic.name, place.partition, first, count, nonce))
            self._note(
                Event.FETCHED,
                place,
                self.index.within(place.id, first, end),
                now_ns,
                group=group,
                consumer=consumer,
                priority=span.lane,
                receipt=receipt,
                attributes={"attempt": str(count), "deadline_ms": str(deadline_ms)},
            )
            first = end

    # --- Dead letters ----------------------------------------------------------------------------

    def burying(self, place: Place, records: list[Record]) -> list[Record]:
        """Messages on their way to the dead letters, naming their traces if they are traced."""
        if not self.index.knows(place.id):
            return records
        return [
            record._replace(headers=(*record.headers, (TRACEPARENT_HEADER, context.traceparent)))
            if context_in(record.headers) is None
            and (context := self._context(place.id, record.offset)) is not None
            else record
            for record in records
        ]

    def _context(self, place_id: str, offset: int) -> TraceContext | None:
        for context, _, _ in self.index.within(place_id, offset, offset + 1):
            return context or derived_context(place_id, offset)
        return None

    def buried(
        self, source: Place, target: Place, group: str, dead: Sequence[tuple[Record, Doom]], at: int
    ) -> None:
        """Messages were put among the dead letters, from an offset on."""
        own = dict[int, TraceContext | None]()
        now_ns = self._clock.now_ns()
        for number, (record, doom) in enumerate(dead):
            context = self._context(source.id, record.offset)
            own[at + number] = context
            if context is not None:
                self._note(
                    Event.DEAD_LETTERED,
                    source,
                    self.index.within(source.id, record.offset, record.offset + 1),
                    now_ns,
                    group=group,
                    consumer=doom.member,
                    error=doom.error or str(doom.reason),
                    attributes={
                        "reason": str(doom.reason),
                        "attempts": str(doom.deliveries),
                        "letter": f"{target.topic.name}/{target.partition}/{at + number}",
                    },
                )
        if any(own.values()):
            self.index.add(target.id, Traced(at, at + len(dead), own))

    # --- Groups ----------------------------------------------------------------------------------

    def rebalanced(self, group: str, number: int, reason: str, took_ms: int | None) -> None:
        """A group begins to share its partitions out anew; or has done so, in so long.

        One that begins again before it is done goes on in the same trace.
        """
        if not self.is_on or not self._default:
            return
        said = {"number": str(number)}
        if took_ms is None:
            if len(self._rebalances) >= MAX_REBALANCES:
                self._rebalances.clear()
            context = self._rebalances.setdefault(group, new_trace())
            said["reason"] = reason
            self._add_bare(Event.REBALANCE_STARTED, context, group=group, attributes=said)
        else:
            context = self._rebalances.pop(group, new_trace())
            took_ns = took_ms * 1_000_000
            self._add_bare(
                Event.REBALANCE_COMPLETED,
                context,
                group=group,
                duration_ns=took_ns,
                attributes=said,
            )
