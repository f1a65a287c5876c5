"""Events of messages whose traces other nodes of the cluster keep.

Which messages are traced is known where they were published: on the leader of their partition. A
group may be coordinated by another node, which does not know it. So that node tells the others what
happened, and they answer which of the messages are traced. The leader notes what it is told; the
teller shows it too, so that a trace is whole at once whichever node is asked. A span that two nodes
have is shown once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.tracing.context import TraceContext
from goqueue.tracing.index import Traced, TracedIndex
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from goqueue.model.ranges import Range
    from goqueue.topics.catalogue import Topic
    from goqueue.topics.routes import Routes

_SOON_S: Final = 0.05
"""Events wait so long for others that go with them."""
_MAX_TOLD: Final = 100
"""Events that go together; what happens beyond that meanwhile is not traced. A busy node traces a
sample of its messages anyway."""
_MAX_SENDING: Final = 20
"""Requests under way. While there are so many, another node is slow, and no more is told."""
_ANSWER_S: Final = 2.0
"""How long the other nodes are waited for; less than a query waits for its parts."""


class TraceNotice(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened to messages of one partition, of which some may be traced."""

    event: str
    """Empty when nothing happened, and it is only asked which are traced."""
    topic: str
    partition: int
    place: str
    ranges: list[tuple[int, int]]
    at_ns: int = 0
    said: dict[str, Any] = {}


class Learned(msgspec.Struct, frozen=True, array_like=True):
    """Messages that are traced: one with the trace that it names, or a range without."""

    place: str
    first: int
    end: int
    trace: str = ""
    parent: str = ""


class TraceReply(msgspec.Struct, frozen=True, array_like=True):
    """What a node answers that was told something."""

    learned: list[Learned]
    noted: list[int]
    """Which of the events it has noted, by their number."""


class TracedPlace(Protocol):
    """A partition, and how much of it is traced."""

    @property
    def topic(self) -> Topic:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its number."""

    @property
    def id(self) -> str:
        """What the traces of its messages begin with."""

    @property
    def threshold(self) -> int:
        """See `goqueue.tracing.sampling`; 0 when nothing of it is traced."""


class Notes(Protocol):
    """Where events are noted."""

    index: TracedIndex

    def traced_within(
        self, place_id: str, ranges: Iterable[Range]
    ) -> Sequence[tuple[TraceContext | None, int, int]]:
        """What of some ranges of a partition is known here to be traced."""

    def note_told(self, told: TraceNotice, *, node: str = "", is_noted: bool = False) -> None:
        """Note what a `node` tells; what another node has noted is only shown here."""


class TraceSharing:
    """What this node tells the others, and learns from them."""

    def __init__(self, tracer: Notes, routes: Routes) -> None:
        self._tracer = tracer
        self._routes = routes
        self._waiting: list[TraceNotice] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def has_room(self) -> bool:
        """Whether another event could be told."""
        return len(self._waiting) < _MAX_TOLD and len(self._sending) < _MAX_SENDING

    def leads(self, topic: str, partition: int) -> bool:
        """Whether this node leads a partition, whose traces it keeps then."""
        try:
            return self._routes.is_here(TopicPartition(topic, partition))
        except GoQueueError:
            return False  # nobody does at the moment, or it was deleted

    def knows(self, place: TracedPlace, ranges: Collection[Range]) -> bool:
        """Whether nobody else need be asked about messages: this node leads, and knows them all."""
        if not self.leads(place.topic.name, place.partition):
            return False
        parts = self._tracer.traced_within(place.id, ranges)
        return sum(end - at for _, at, end in parts) >= sum(end - at for at, end in ranges)

    def tell(self, told: TraceNotice) -> None:
        """Tell the other nodes soon, and note it once they have answered."""
        if self.has_room():
            self._waiting.append(told)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(_SOON_S, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            told, self._waiting = self._waiting, []
            task = asyncio.ensure_future(self._resolve(told))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def flush(self) -> None:
        """Return when what has happened until now is noted."""
        self._send()
        if self._sending:
            await asyncio.wait(set(self._sending))

    async def learn(self, messages: Iterable[tuple[TracedPlace, list[Range]]]) -> None:
        """Return when it is known here which of these messages are traced."""
        asked = [
            TraceNotice("", place.topic.name, place.partition, place.id, ranges)
            for place, ranges in messages
            if place.threshold and not self.knows(place, ranges)
        ]
        if asked:
            await self._resolve(asked)

    async def _resolve(self, told: Sequence[TraceNotice]) -> None:
        events = msgspec.msgpack.encode(told)
        answers = await asyncio.gather(*(self._ask(each, events) for each in self._routes.others()))
        noted: set[int] = set()
        for answer in answers:
            if answer is not None:
                noted.update(answer.noted)
                self._take(answer.learned)
        for number, each in enumerate(told):
            self._tracer.note_told(each, is_noted=number in noted)

    async def _ask(self, node_id: int, events: bytes) -> TraceReply | None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await self._routes.peers.ask(
                    node_id, ApiKey.TRACE_EVENTS, 0, wait_s=_ANSWER_S, events=events
                )
            return msgspec.msgpack.decode(answer.heard, type=TraceReply)
        except (GoQueueError, TimeoutError, msgspec.MsgspecError):
            return None  # what it knows is missing in the trace

    def _take(self, learned: Iterable[Learned]) -> None:
        for place, first, end, trace, parent in map(msgspec.structs.astuple, learned):
            own = {first: TraceContext(trace, parent)} if trace else {}
            self._tracer.index.add(place, Traced(first, end, own))

    def heard(self, events: bytes, node: str) -> bytes:
        """Note what another node tells of messages that are traced here; says which these are."""
        learned: list[Learned] = []
        noted: list[int] = []
        try:
            all_told = msgspec.msgpack.decode(events, type=list[TraceNotice])
        except msgspec.MsgspecError:
            all_told = []  # a node of another version
        for number, told in enumerate(all_told):
            parts = self._tracer.traced_within(told.place, told.ranges)
            learned += (
                Learned(told.place, at, end, *(context or ("", ""))) for context, at, end in parts
            )
            if parts and told.event and self.leads(told.topic, told.partition):
                self._tracer.note_told(told, node=node)
                noted.append(number)
        return msgspec.msgpack.encode(TraceReply(learned, noted))
