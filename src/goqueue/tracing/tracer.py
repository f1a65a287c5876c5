"""How much of each partition is traced, which of its messages are, and noting what happens to them.

Each capability notes its own events: see `traces` in publishing, queues and delays, and
`goqueue.tracing.log_groups`. Whoever calls looks at `is_on` first, and that is all that tracing
costs when it is off. A batch that is not sampled costs one comparison when it is published, and one
look into the index, which knows nothing of it, when its messages are delivered and acknowledged.
What the index has forgotten is not traced on.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from goqueue.model.tuples import NamedTuple
from goqueue.tracing.context import TraceContext, context_in, derived_context, place_of
from goqueue.tracing.events import Entry, Event
from goqueue.tracing.index import Traced, TracedIndex
from goqueue.tracing.sampling import Budget, DiskShare, Turns, threshold_of
from goqueue.tracing.sharing import TraceNotice, TraceSharing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from uuid import UUID

    from goqueue.model.ranges import Range
    from goqueue.records import Record
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topic, Topics
    from goqueue.topics.routes import Routes
    from goqueue.tracing.store import TraceStore

_TOLERANCE_NS: Final = 20_000_000
_MS: Final = 1_000_000


class TraceClock:
    """Nanoseconds since the Unix epoch, by the clock that only moves forward.

    It goes back to the wall's time when the two have come apart, as when that was set.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zero_ns = 0
        self._set()

    def _set(self) -> None:
        self._zero_ns = self._clock.now_ms() * _MS - round(self._clock.monotonic_s() * 1e9)

    def monotonic_s(self) -> float:
        """This moment, of the clock that only moves forward."""
        return self._clock.monotonic_s()

    def at_ns(self, monotonic_s: float) -> int:
        """A moment of the clock that only moves forward."""
        return self._zero_ns + round(monotonic_s * 1e9)

    def now_ns(self) -> int:
        """This moment."""
        now_ns = self.at_ns(self._clock.monotonic_s())
        if abs(now_ns - self._clock.now_ms() * _MS) > _TOLERANCE_NS:
            self._set()
            return self.at_ns(self._clock.monotonic_s())
        return now_ns


DELAYED: Final = place_of(b"delayed", 0)
"""In place of a partition, for messages that wait, whose ids are their offsets here."""
_NO_CONTEXT: Final = ("", "")
_MAX_PLACES: Final = 10_000
"""Partitions whose sampling is remembered; at the bound all are worked out anew."""
_MAX_NOTED_PARTS: Final = 1000
"""Ranges that one event notes. A first commit may pass all that is traced: the rest of it is left
out."""

Parts: TypeAlias = "list[tuple[TraceContext | None, int, int]]"
"""Messages of one partition: one with the trace that it names, or a range with traces of their
own."""


class Place(NamedTuple):
    """A partition, and how much of it is traced."""

    topic: Topic
    partition: int
    id: str
    threshold: int
    is_bounded: bool
    """It follows the broker's sampling, and its bound."""


class Tracer:
    """Notes what happens to sampled messages."""

    def __init__(
        self, store: TraceStore, topics: Topics, clock: Clock, node: str, routes: Routes
    ) -> None:
        self.store = store
        self.is_on = store.settings.is_on
        self.index = TracedIndex()
        self._topics = topics
        self.clock = TraceClock(clock)
        self._node = node
        self.turns = Turns()
        self.budget = Budget(store.settings.max_batches_a_second)
        self.share = DiskShare(store.settings.max_share)
        self.default_threshold = threshold_of(store.settings.sampling)
        self._places: dict[tuple[str, int], Place] = {}
        is_shared = self.is_on and routes.is_cluster
        self.sharing = TraceSharing(self, routes) if is_shared else None
        """Of a cluster: what this node tells the others, and learns from them."""

    async def start(self) -> None:
        """Know again which messages are traced."""
        for entry in await self.store.start():
            if entry.place and entry.offset >= 0:
                own: dict[int, TraceContext | None] = {}
                if entry.trace:
                    own[entry.offset] = TraceContext(entry.trace, entry.parent)
                self.index.add(entry.place, Traced(entry.offset, entry.end, own))
            elif entry.event == Event.DELAY_SCHEDULED and entry.trace:
                self._wait_again(entry)

    def _wait_again(self, entry: Entry) -> None:
        text = entry.attributes.get("delayed_id", "")
        if text.isascii() and text.isdigit() and len(text) < 20:
            delayed_id, context = int(text), TraceContext(entry.trace, entry.parent)
            self.index.add(DELAYED, Traced(delayed_id, delayed_id + 1, {delayed_id: context}))

    async def stop(self) -> None:
        """Let out what was noted."""
        await self.caught_up()
        await self.store.stop()

    async def caught_up(self) -> None:
        """Return when everything that has happened here until now is noted."""
        if self.sharing is not None:
            await self.sharing.flush()

    async def learn(self, topic: Topic, messages: Iterable[tuple[int, int]]) -> None:
        """Return when it is known here which of these messages are traced, on whichever node.

        They are named by partition and offset.
        """
        if self.sharing is not None:
            offsets: dict[int, list[Range]] = {}
            for partition, offset in messages:
                offsets.setdefault(partition, []).append((offset, offset + 1))
            asked = [(self.place(topic, each), ranges) for each, ranges in offsets.items()]
            await self.sharing.learn(asked)

    def place(self, topic: Topic, partition: int) -> Place:
        """A partition, and how much of it is traced."""
        found = self._places.get((topic.name, partition))
        if found is not None and found.topic is topic:
            return found
        if len(self._places) >= _MAX_PLACES:
            self._places.clear()
        rate = topic.settings.trace_rate
        threshold = self.default_threshold if rate is None else threshold_of(rate)
        if topic.is_internal or not self.is_on:
            threshold = 0
        place_id = place_of(topic.topic_id.bytes, partition)
        found = Place(topic, partition, place_id, threshold, rate is None)
        self._places[topic.name, partition] = found
        return found

    def may_trace(self, now_s: float) -> bool:
        """Whether one more batch of a topic that follows the broker's sampling may be traced."""
        return self.budget.take(now_s) and self.share.has_room(self.store.files.written_bytes)

    def topic(self, name: str) -> Topic | None:
        """A topic by its name; None when there is none."""
        return self._topics.catalogue.by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """A topic by its id; None when there is none."""
        return self._topics.catalogue.by_id.get(topic_id)

    def known_place(self, topic: Topic | None, partition: int) -> Place | None:
        """The place of a partition; None when none of its messages is traced.

        What another node traces of it is not known before it is asked.
        """
        if topic is None:
            return None
        place = self.place(topic, partition)
        may_ask = self.sharing is not None and place.threshold and self.sharing.has_room()
        return place if may_ask or self.index.knows(place.id) else None

    # --- Asking ----------------------------------------------------------------------------------

    def trace_id(self, topic: Topic, partition: int, record: Record) -> str:
        """The trace of a stored message, if it is traced; one that waited has kept that of then."""
        named = context_in(record.headers)
        if named is not None:
            return named[0].trace_id
        place_id = self.place(topic, partition).id
        context = self.context(place_id, record.offset)
        return (context or derived_context(place_id, record.offset)).trace_id

    def trace_id_of(self, topic: str, partition: int, record: Record) -> str:
        """The same by the topic's name; empty for one that was deleted meanwhile."""
        found = self.topic(topic)
        return "" if found is None else self.trace_id(found, partition, record)

    def context(self, place_id: str, offset: int) -> TraceContext | None:
        """The trace of a message; None when it is not traced."""
        for context, _, _ in self.index.within(place_id, offset, offset + 1):
            return context or derived_context(place_id, offset)
        return None

    def traced_within(self, place_id: str, ranges: Iterable[Range]) -> Parts:
        """What of some ranges of a partition is known here to be traced."""
        parts = chain.from_iterable(self.index.within(place_id, *each) for each in ranges)
        return _joined(islice(parts, _MAX_NOTED_PARTS))

    # --- Noting ----------------------------------------------------------------------------------

    def note_within(
        self, event: Event, place: Place, ranges: Collection[Range], at_ns: int, **said: Any
    ) -> None:
        """Note what happened to those messages of some ranges that are traced."""
        told = TraceNotice(
            event, place.topic.name, place.partition, place.id, [*ranges], at_ns, said
        )
        if self.sharing is None or self.sharing.knows(place, told.ranges):
            self.note_told(told)
        else:
            self.sharing.tell(told)

    def note_told(self, told: TraceNotice, *, node: str = "", is_noted: bool = False) -> None:
        """Note what a `node` tells; what another node has noted is only shown here."""
        event, topic, partition, place, ranges, at_ns, said = msgspec.structs.astuple(told)
        parts = self.traced_within(place, ranges) if event else []
        entries = [
            Entry(
                event,
                at_ns,
                topic,
                partition,
                first,
                end - first,
                place,
                *(context or _NO_CONTEXT),
                node=node or self._node,
                **said,
            )
            for context, first, end in parts
        ]
        if is_noted:
            self.store.ring.extend(entries)
        else:
            self.store.add_all(entries)

    def note(
        self,
        event: Event,
        place: Place,
        parts: Iterable[tuple[TraceContext | None, int, int]],
        at_ns: int,
        **said: Any,
    ) -> None:
        """Note what happened to messages of a partition."""
        (topic, partition, place_id, _, _), node = place, self._node
        name = topic.name
        self.store.add_all(
            [
                Entry(
                    event,
                    at_ns,
                    name,
                    partition,
                    first,
                    end - first,
                    place_id,
                    *(context or _NO_CONTEXT),
                    node=node,
                    **said,
                )
                for context, first, end in parts
            ]
        )

    def add(
        self,
        event: Event,
        place: Place,
        context: TraceContext,
        at_ns: int | None = None,
        **said: Any,
    ) -> None:
        """Note what happened to a message that has no offset."""
        self.add_bare(
            event, context, at_ns, topic=place.topic.name, partition=place.partition, **said
        )

    def add_bare(
        self, event: Event, context: TraceContext, at_ns: int | None = None, **said: Any
    ) -> None:
        """Note what happened to no message of a partition in particular."""
        at_ns = self.clock.now_ns() if at_ns is None else at_ns
        trace, parent = context
        self.store.add(Entry(event, at_ns, trace=trace, parent=parent, node=self._node, **said))


def _joined(parts: Iterable[tuple[TraceContext | None, int, int]]) -> Parts:
    """The same messages in fewer ranges: neighbours that name no trace become one."""
    joined: Parts = []
    for context, first, end in parts:
        if context is None and joined and joined[-1][0] is None and joined[-1][2] == first:
            joined[-1] = (None, joined[-1][1], end)
        else:
            joined.append((context, first, end))
    return joined


class Traces:
    """What one capability notes. Whoever calls looks at `is_on` first."""

    def __init__(self, tracer: Tracer) -> None:
        self.is_on = tracer.is_on
        self._tracer = tracer
