"""Events of messages that another node traces: noted where the partition is led, shown once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from goqueue.model.errors import PeerUnavailableError
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from goqueue.topics.catalogue import Topic
from goqueue.topics.settings import TopicSettings
from goqueue.tracing.context import TraceContext
from goqueue.tracing.events import Event
from goqueue.tracing.index import Traced
from goqueue.tracing.store import TraceStore, TracingSettings
from goqueue.tracing.tracer import Tracer

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = Topic("orders", UUID(int=7), 1, TopicSettings(), revision=1)  # type: ignore[arg-type]
NAMED = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")


class Wire:
    """What is between the nodes: hands a request over, or loses it."""

    def __init__(self) -> None:
        self.tracers: dict[int, Tracer] = {}
        self.leader = 1
        self.away: set[int] = set()
        self.asked = 0


class Routes:
    """Of one node."""

    is_cluster = True

    def __init__(self, node_id: int, wire: Wire) -> None:
        self.node_id = node_id
        self._wire = wire
        self.peers = self

    def is_here(self, _partition: object) -> bool:
        return self._wire.leader == self.node_id

    def others(self) -> list[int]:
        return [each for each in self._wire.tracers if each != self.node_id]

    async def ask(self, node_id: int, *_: object, events: bytes, **_more: object) -> Any:
        self._wire.asked += 1
        await asyncio.sleep(0)
        if node_id in self._wire.away:
            raise PeerUnavailableError("it is away")
        sharing = self._wire.tracers[node_id].sharing
        assert sharing is not None
        return SimpleNamespace(heard=sharing.heard(events, str(self.node_id)))


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    made, clock = Wire(), SystemClock()
    topics: Any = SimpleNamespace(catalogue=SimpleNamespace(by_name={TOPIC.name: TOPIC}, by_id={}))
    for node_id in (1, 2, 3):
        settings = TracingSettings(writes_files=False)
        store = TraceStore(settings, SystemDisk(), tmp_path, clock, str(node_id))
        routes: Any = Routes(node_id, made)
        made.tracers[node_id] = Tracer(store, topics, clock, str(node_id), routes)
    place = made.tracers[1].place(TOPIC, 0)
    made.tracers[1].index.add(place.id, Traced(5, 8, {6: NAMED, 7: None}))
    return made


def noted(tracer: Tracer) -> list[tuple[str, int, int, str, str]]:
    return [(e.event, e.offset, e.count, e.trace, e.node) for e in tracer.store.ring]


def acked(tracer: Tracer, *ranges: tuple[int, int], times: int = 1) -> None:
    async def scenario() -> None:
        for at in range(times):
            tracer.note_within(Event.ACKED, tracer.place(TOPIC, 0), ranges, at, group="g")
        may_trace_more = tracer.known_place(TOPIC, 0) is not None
        assert may_trace_more == (times == 1), "nothing more is looked at meanwhile"
        await tracer.caught_up()

    asyncio.run(scenario())


def test_the_leader_notes_what_another_node_tells_and_both_show_it(wire: Wire) -> None:
    acked(wire.tracers[2], (0, 10))
    expected = [("consume.acked", 5, 1, "", "2"), ("consume.acked", 6, 1, NAMED.trace_id, "2")]
    assert noted(wire.tracers[1]) == noted(wire.tracers[2]) == expected
    assert noted(wire.tracers[3]) == []
    assert [wire.tracers[node].store.noted for node in (1, 2)] == [2, 0], "exported once"


def test_a_leader_that_knows_the_messages_asks_nobody(wire: Wire) -> None:
    acked(wire.tracers[1], (5, 7))
    assert (wire.asked, len(noted(wire.tracers[1]))) == (0, 2)


def test_what_an_earlier_leader_traces_is_noted_by_the_node_that_asks(wire: Wire) -> None:
    wire.leader = 3
    acked(wire.tracers[3], (5, 6))
    assert noted(wire.tracers[3]) == [("consume.acked", 5, 1, "", "3")]
    assert wire.tracers[3].store.noted == 1
    assert noted(wire.tracers[1]) == []


def test_nodes_that_do_not_answer_cost_events_and_nothing_else(wire: Wire) -> None:
    wire.away = {1, 3}
    acked(wire.tracers[2], (5, 6))
    assert noted(wire.tracers[2]) == []


def test_which_messages_are_traced_is_learned_before_they_are_dead_lettered(
    wire: Wire,
) -> None:
    tracer = wire.tracers[2]
    place = tracer.place(TOPIC, 0)
    assert tracer.context(place.id, 6) is None
    asyncio.run(tracer.learn(TOPIC, [(0, 6), (0, 9)]))
    assert tracer.context(place.id, 6) == NAMED
    assert tracer.context(place.id, 9) is None
    assert noted(tracer) == []


def test_more_events_than_may_wait_are_dropped(wire: Wire) -> None:
    tracer = wire.tracers[2]
    acked(tracer, (5, 6), times=1000)
    assert len(noted(tracer)) == 100
    assert tracer.known_place(TOPIC, 0) is not None
