"""What became of messages in queue groups, as far as they are traced, and who had them.

Who has a message is known only as long as it is not settled: so what members say is noted in two
steps, `acknowledged` before it is made true, and `settled` once it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.model.tuples import NamedTuple
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.group import MEMBER_GONE, QueueGroup
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.whole_batches import equally_often
from goqueue.tracing.context import TRACEPARENT_HEADER, TraceContext, context_in
from goqueue.tracing.events import Event
from goqueue.tracing.index import Traced
from goqueue.tracing.tracer import Place, Traces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.queues.acquired_batch import Portion, Span
    from goqueue.queues.delivery.decisions import Acknowledgement
    from goqueue.queues.delivery.operations import Doom, Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.records import Record

    _Changes: TypeAlias = Mapping[TopicIdPartition, Sequence[Operation]]

_VERDICTS: Final = {
    "ack": Event.ACKED,
    "nack": Event.NACKED,
    "release": Event.NACKED,
    "return": Event.NACKED,
    "reject": Event.REJECTED,
    "extend": Event.EXTENDED,
}
_FAILURES: Final = frozenset({Event.NACKED, Event.REJECTED})


class TracedVerdict(NamedTuple):
    """What members have said of messages that are traced, before it is stored."""

    event: Event
    place: Place
    by_member: dict[str, list[Range]]
    began_s: float
    said: dict[str, Any]


class QueueTraces(Traces):
    """Notes deliveries of sampled messages and how they end."""

    def traced_place(self, key: TopicIdPartition) -> Place | None:
        """The place of a queue's messages; None when none of them is traced."""
        return self._tracer.known_place(self._tracer.topic_by_id(key[0]), key[1])

    def acknowledged(
        self,
        place: Place,
        group: str,
        queue: PartitionQueue,
        ranges: Iterable[Range],
        said: Acknowledgement,
    ) -> TracedVerdict:
        """Members are about to be done with messages, which they still have."""
        verdict, reason, delay_ms = said
        event = _VERDICTS[verdict]
        about: dict[str, Any] = {"group": group, "delay_ms": delay_ms or 0}
        if event in _FAILURES:
            about["error"] = reason
        by_member = self._by_member(place, queue, ranges)
        return TracedVerdict(event, place, by_member, self._tracer.clock.monotonic_s(), about)

    def _by_member(
        self, place: Place, queue: PartitionQueue, ranges: Iterable[Range]
    ) -> dict[str, list[Range]]:
        """Messages that members have and that may be traced, by who has them."""
        if self._tracer.sharing is None:
            ranges = [part[1:] for part in self._tracer.traced_within(place.id, ranges)]
        window = queue.window
        found: dict[str, list[Range]] = {}
        for range_ in ranges:
            for first, end, lease in window.flights(*range_):
                found.setdefault(window.leases[lease].member, []).append((first, end))
        return found

    def settled(self, verdicts: Iterable[TracedVerdict]) -> None:
        """What members have said is stored."""
        for event, place, by_member, began_s, said in verdicts:
            now_ns = self._tracer.clock.now_ns()
            took_ns = max(now_ns - self._tracer.clock.at_ns(began_s), 0)
            for member, ranges in by_member.items():
                self._tracer.note_within(
                    event, place, ranges, now_ns, consumer=member, duration_ns=took_ns, **said
                )

    def committed(self, group_id: str, member_id: str, changes: _Changes) -> None:
        """A member is done with everything up to somewhere."""
        self._changed(Event.ACKED, group_id, changes, consumer=member_id)

    def member_gone(self, group: QueueGroup, member: str, changes: _Changes) -> None:
        """Messages were taken back from a member that is gone."""
        if self.is_on:
            about = {"consumer": member, "error": MEMBER_GONE}
            self._changed(Event.TIMED_OUT, group.group_id, changes, **about)

    def _changed(self, event: Event, group: str, changes: _Changes, **said: Any) -> None:
        for key, operations in changes.items():
            for operation in operations:
                if isinstance(operation, ops.Settled | ops.Released | ops.Doomed):
                    self._happened(event, group, key, operation.ranges, **said)

    def _happened(
        self, event: Event, group: str, key: TopicIdPartition, ranges: Iterable[Range], **said: Any
    ) -> None:
        """The same thing happened to messages of one partition in a group."""
        place = self.traced_place(key)
        if place is None:
            return
        now_ns = self._tracer.clock.now_ns()
        self._tracer.note_within(event, place, [*ranges], now_ns, group=group, **said)

    def ttl_expired(self, group: str, key: TopicIdPartition, ranges: Iterable[Range]) -> None:
        """Messages were no longer worth delivering."""
        said = {"reason": "ttl"}
        self._happened(Event.DELAY_EXPIRED, group, key, ranges, attributes=said)

    def timed_out(self, group: QueueGroup, key: TopicIdPartition, ranges: Iterable[Range]) -> None:
        """Messages are taken back from a member that did not acknowledge them in time."""
        place = self.traced_place(key)
        if place is None:
            return
        now_ns, error = self._tracer.clock.now_ns(), "not acknowledged in time"
        for member, held in self._by_member(place, group.queues[key], ranges).items():
            said = {"group": group.group_id, "consumer": member, "error": error}
            self._tracer.note_within(Event.TIMED_OUT, place, held, now_ns, **said)

    # --- Delivering ------------------------------------------------------------------------------

    def fetched(self, group: str, consumer: str, portions: Iterable[Portion]) -> None:
        """Messages were handed to a member of a queue group."""
        for portion in portions:
            place = self.traced_place(portion.key)
            if place is None:
                continue
            for span in portion.spans():
                if self._may_trace(place, span):
                    self._fetched(place, span, group, consumer, portion.deadline_ms)

    def _may_trace(self, place: Place, span: Span) -> bool:
        """Whether messages are traced here, or may be on another node."""
        if self._tracer.sharing is not None:
            return self._tracer.sharing.has_room()
        return any(self._tracer.index.within(place.id, span.first, span.end))

    def _fetched(
        self, place: Place, span: Span, group: str, consumer: str, deadline_ms: int
    ) -> None:
        now_ns = self._tracer.clock.now_ns()
        for first, end, count in equally_often(span.first, span.counts):
            receipt = ""
            if end - first == 1:
                nonce = span.nonces[first - span.first]
                receipt = str(Receipt(place.topic.name, place.partition, first, count, nonce))
            self._tracer.note_within(
                Event.FETCHED,
                place,
                [(first, end)],
                now_ns,
                group=group,
                consumer=consumer,
                priority=span.lane,
                receipt=receipt,
                attributes={"attempt": str(count), "deadline_ms": str(deadline_ms)},
            )

    # --- Dead letters ----------------------------------------------------------------------------

    async def learn(self, place: Place, records: Iterable[Record]) -> None:
        """Return when it is known here which of these messages are traced."""
        await self._tracer.learn(place.topic, ((place.partition, e.offset) for e in records))

    def naming_traces(self, place: Place, records: list[Record]) -> list[Record]:
        """Messages that are to be dead-lettered, naming their traces if they are traced."""
        if not self._tracer.index.knows(place.id):
            return records
        return [
            record._replace(headers=(*record.headers, (TRACEPARENT_HEADER, context.traceparent)))
            if context_in(record.headers) is None
            and (context := self._tracer.context(place.id, record.offset)) is not None
            else record
            for record in records
        ]

    def dead_lettered(
        self, source: Place, target: Place, group: str, dead: Sequence[tuple[Record, Doom]], at: int
    ) -> None:
        """Messages were dead-lettered, from an offset on."""
        own = dict[int, TraceContext | None]()
        now_ns = self._tracer.clock.now_ns()
        for number, (record, doom) in enumerate(dead):
            context = self._tracer.context(source.id, record.offset)
            own[at + number] = context
            if context is not None:
                self._tracer.note_within(
                    Event.DEAD_LETTERED,
                    source,
                    [(record.offset, record.offset + 1)],
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
            self._tracer.index.add(target.id, Traced(at, at + len(dead), own))
