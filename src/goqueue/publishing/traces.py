"""Publishing in message traces: what was received, persisted, refused or scheduled for later."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchError, GoQueueError
from goqueue.model.tuples import NamedTuple
from goqueue.records import Compression, Headers, decode_rows
from goqueue.records.batch import HEADER_BYTES, BatchInfo, peek_header
from goqueue.records.compression import decompress
from goqueue.records.opening import Room
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
from goqueue.tracing.tracer import DELAYED, Parts, Place, Traces

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.partitions.partition import Placed
    from goqueue.publishing.delivery_headers import Delayed, Opened
    from goqueue.publishing.requests import PublishRequest
    from goqueue.topics.catalogue import Topic

_MAX_ERROR_CHARS: Final = 1000


class TracedPublish(NamedTuple):
    """A batch that was published and is traced."""

    place: Place
    parts: Parts
    received_ns: int
    attributes: dict[str, str]


class PublishTraces(Traces):
    """Notes what happens to sampled batches on their way in."""

    def place(self, topic: Topic, partition: int) -> Place:
        """A partition, and how much of it is traced."""
        return self._tracer.place(topic, partition)

    def published(
        self,
        place: Place,
        batch: memoryview,
        placed: Placed,
        started_s: float,
        *,
        was_traced: bool = False,
    ) -> TracedPublish | None:
        """A batch is in the log; None when it is not traced.

        One that `was_traced` before is traced on where its messages name their traces.
        """
        first, end, is_duplicate = placed
        if is_duplicate:
            return None
        tracer = self._tracer
        tracer.share.published_bytes += len(batch)
        is_chosen = is_sampled(place.threshold, first) and (
            not place.is_bounded or tracer.may_trace(started_s)
        )
        if not (is_chosen or (was_traced and place.threshold)):
            return None
        found = traced_batch(batch, first, end, only_named=not is_chosen)
        if not is_chosen and not any(found.own.values()):
            return None
        tracer.index.add(place.id, found)
        tracer.budget.charge(len(found.own))
        attributes = {"redriven": "true"} if was_traced else {}
        parts = list(parts_of(found, first, end))
        received_ns = tracer.clock.at_ns(started_s)
        traced = TracedPublish(place, parts, received_ns, attributes)
        tracer.note(Event.RECEIVED, place, parts, received_ns, attributes=attributes)
        tracer.note(Event.PARTITIONED, place, parts, received_ns, attributes=attributes)
        return traced

    def persisted(self, traced: TracedPublish) -> None:
        """A batch is as durable as its publisher asked for."""
        place, parts, received_ns, attributes = traced
        now_ns = max(self._tracer.clock.now_ns(), received_ns)
        took_ns = now_ns - received_ns
        self._tracer.note(
            Event.PERSISTED, place, parts, now_ns, duration_ns=took_ns, attributes=attributes
        )

    def refused(self, topic: Topic, request: PublishRequest, error: GoQueueError) -> None:
        """A batch was refused for what its messages are."""
        place = self._tracer.place(topic, request.partition.partition)
        if not self._tracer.turns.draw(place.threshold) or (
            place.is_bounded and not self._tracer.may_trace(self._tracer.clock.monotonic_s())
        ):
            return
        count = peek_header(request.batch).last_offset_delta + 1
        batch = traced_batch(request.batch, 0, count, only_named=True)
        named = [context for context in batch.own.values() if context is not None]
        self._tracer.budget.charge(len(named))
        for context in named or [new_trace()]:
            self._tracer.add(
                Event.VALIDATION_FAILED, place, context, error=str(error)[:_MAX_ERROR_CHARS]
            )

    def scheduled(
        self,
        topic: Topic,
        partition: int,
        found: Opened,
        messages: Iterable[Delayed],
        started_s: float,
    ) -> None:
        """Messages wait until they are due; each has a way of its own, and counts as a batch."""
        place = self._tracer.place(topic, partition)
        if not self._tracer.turns.draw(place.threshold):
            return
        received_ns, now_ns = self._tracer.clock.at_ns(started_s), self._tracer.clock.now_ns()
        for number, delayed_id, due_ms in messages:
            if delayed_id is None:
                continue
            if place.is_bounded and not self._tracer.may_trace(started_s):
                return
            context = derived_context(DELAYED, delayed_id)
            named = context_in(found.records[number].headers)
            if named is not None:
                context, is_wanted = named
                if not is_wanted:
                    continue
            self._tracer.index.add(
                DELAYED, Traced(delayed_id, delayed_id + 1, {delayed_id: context})
            )
            self._tracer.add(Event.RECEIVED, place, context, received_ns)
            self._tracer.add(Event.PARTITIONED, place, context, received_ns)
            self._tracer.add(
                Event.DELAY_SCHEDULED,
                place,
                context,
                now_ns,
                deliver_at_ms=due_ms,
                delay_ms=max(due_ms - now_ns // 1_000_000, 0),
                attributes={"delayed_id": str(delayed_id)},
            )


_ROOM: Final = Room(4 * 1024 * 1024, 100_000)
"""What is opened on the way in, to look for traces. A larger batch names none: it is stored all the
same, and others wait."""
_NAME: Final = re.compile(re.escape(TRACEPARENT_HEADER.encode()))


def traced_batch(batch: memoryview, first: int, end: int, *, only_named: bool = False) -> Traced:
    """A batch that lies at [first, end) of its partition, and the traces that its records name.

    Records that say that they are not sampled are left out; with `only_named`, also those that
    name no trace. What is compressed must be decompressed to see; only what has the header is
    decoded. A batch that cannot be opened names nothing: whoever reads it will be told.
    """
    info = peek_header(batch)
    is_dense = info.count == info.last_offset_delta + 1
    try:
        if is_dense and not only_named and not _may_name(batch, info):
            return Traced(first, end, {})
        records = decode_rows(batch, check_crc=False, room=_ROOM)
        shift = first - info.base_offset
        own: dict[int, TraceContext | None] = {}
        if only_named or not is_dense:
            own = dict.fromkeys(range(first, end))
        for record in records:
            offset = record.offset + shift
            context = sampled_context(record.headers)
            if context is not None:
                own[offset] = context
            elif not only_named and context_in(record.headers) is None:
                own.pop(offset, None)
            else:
                own[offset] = None
    except BatchError:
        return Traced(first, end, {})
    return Traced(first, end, own)


def _may_name(batch: memoryview, info: BatchInfo) -> bool:
    if info.compression == 0:
        return _NAME.search(batch) is not None
    packed, codec = batch[HEADER_BYTES : info.size_bytes], Compression.of(info.compression)
    return _NAME.search(decompress(codec, packed, _ROOM.size_bytes)) is not None


def sampled_context(headers: Headers) -> TraceContext | None:
    """The trace that headers name, if it is sampled."""
    if not headers:
        return None
    found = context_in(headers)
    return found[0] if found is not None and found[1] else None
