"""The accumulator alone: when batches close, which order they keep, and that none goes twice."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.client.accumulator import _MAX_IN_FLIGHT, Accumulator, Identity, Lane, Refusal
from goqueue.client.settings import ClientSettings
from goqueue.model.topic_partition import TopicPartition

PLACE = TopicPartition("t", 0)
ME = Identity(7, 0)


def lane_of(**options) -> Lane[int]:
    lane: Lane[int] = Lane(PLACE, ClientSettings(**options))
    lane.identify(ME)
    return lane


def known_lane(**options) -> Lane[int]:
    """A lane whose producer the broker has heard of."""
    lane = lane_of(linger_ms=0, **options)
    lane.add(-1, 1, 0.0)
    lane.take(0.0)
    lane.stored()
    return lane


# --- When a batch is sent -------------------------------------------------------------------------


def test_a_full_batch_is_sent_at_once():
    lane = lane_of(batch_messages=3)
    assert [lane.add(number, 10, 0.0) for number in range(3)] == [False, False, True]
    assert lane.take(0.0).items == [0, 1, 2]


def test_a_heavy_batch_is_sent_at_once():
    lane = lane_of(batch_bytes=100)
    assert not lane.add(0, 99, 0.0)
    assert lane.add(1, 50, 0.0)
    assert lane.take(0.0).items == [0]


def test_a_batch_is_sent_when_its_first_message_has_waited():
    lane = lane_of(linger_ms=5)
    lane.add(0, 1, 10.0)
    lane.add(1, 1, 10.004)
    assert lane.due_s() == pytest.approx(10.005)
    assert lane.take(10.0049) is None
    assert lane.take(10.0051).items == [0, 1]


def test_without_lingering_every_message_goes_alone():
    lane = lane_of(linger_ms=0)
    assert lane.add(0, 1, 0.0)
    assert lane.take(0.0).items == [0]


def test_a_flush_sends_what_is_there():
    lane = lane_of(linger_ms=1000)
    lane.add(0, 1, 0.0)
    lane.close_open()
    assert lane.take(0.0).items == [0]


def test_only_as_many_batches_are_in_flight_as_a_broker_remembers():
    lane = known_lane()
    for number in range(10):
        lane.add(number, 1, 0.0)
    taken = [lane.take(0.0) for _ in range(10)]
    assert [batch.items for batch in taken if batch] == [[n] for n in range(_MAX_IN_FLIGHT)]
    lane.stored()
    assert lane.take(0.0).items == [_MAX_IN_FLIGHT]


def test_the_first_batch_of_a_producer_goes_alone():
    lane = lane_of(linger_ms=0)
    lane.add(0, 1, 0.0)
    lane.add(1, 1, 0.0)
    assert lane.take(0.0).items == [0]
    assert lane.take(0.0) is None
    lane.stored()
    assert lane.take(0.0).items == [1]


@given(sizes=st.lists(st.integers(1, 200)), most=st.integers(1, 10), heavy=st.integers(1, 300))
def test_batches_hold_every_message_once_in_order_and_keep_the_bounds(sizes, most, heavy):
    lane = known_lane(batch_messages=most, batch_bytes=heavy)
    lane._settings = ClientSettings(batch_messages=most, batch_bytes=heavy, linger_ms=5)
    for number, size in enumerate(sizes):
        lane.add(number, size, 0.0)
    lane.close_open()
    found = []
    while (batch := lane.take(0.0)) is not None:
        assert len(batch.items) <= most
        assert batch.size_bytes <= heavy or len(batch.items) == 1
        assert batch.size_bytes == sum(sizes[number] for number in batch.items)
        found += batch.items
        lane.stored()
    assert found == list(range(len(sizes)))


def test_lanes_take_turns():
    accumulator: Accumulator[int] = Accumulator(ClientSettings(linger_ms=0))
    places = [TopicPartition("t", number) for number in range(3)]
    for place in places * 2:
        accumulator.add(place, 0, 1, 0.0)
    for lane in accumulator.lanes.values():
        lane.identify(ME)
    seen = []
    for _ in range(6):
        lane = accumulator.due_lane(0.0)
        seen.append(lane.place)
        lane.take(0.0)
        lane.stored()
    assert seen == places * 2


# --- Refusals and losses --------------------------------------------------------------------------


def in_flight(lane: Lane[int], *numbers: int) -> None:
    for number in numbers:
        lane.add(number, 1, 0.0)
        lane.take(0.0)


def drained(lane: Lane[int]) -> list[tuple[int, list[int]]]:
    found = []
    while (batch := lane.take(1e9)) is not None:
        found.append((batch.first_sequence, batch.items))
        lane.stored()
    return found


def test_a_lost_connection_sends_the_same_numbers_again():
    lane = known_lane()
    in_flight(lane, 0, 1, 2)
    lane.stored()
    lane.lost()
    assert drained(lane) == [(2, [1]), (3, [2])]


def test_what_is_refused_for_good_leaves_no_hole_in_the_numbers():
    lane = known_lane()
    in_flight(lane, 0, 1, 2)
    assert lane.refused(Refusal.FINAL, 0.0).items == [0]
    for _ in range(2):
        assert lane.refused(Refusal.OUT_OF_ORDER, 0.0) is None
    assert lane.identity == ME
    assert drained(lane) == [(1, [1]), (2, [2])]


def test_what_is_refused_for_now_keeps_its_place_and_waits():
    lane = known_lane(backoff_ms=100)
    in_flight(lane, 0, 1)
    assert lane.refused(Refusal.FOR_NOW, 5.0) is None
    assert lane.take(5.0) is None
    lane.refused(Refusal.OUT_OF_ORDER, 5.0)
    assert 5.05 <= lane.due_s() <= 5.1
    assert drained(lane) == [(1, [0]), (2, [1])]


def test_after_so_many_tries_a_refusal_is_final():
    lane = known_lane(tries=3)
    in_flight(lane, 0)
    for _ in range(2):
        assert lane.refused(Refusal.FOR_NOW, 0.0) is None
        lane.take(1e9)
    assert lane.refused(Refusal.FOR_NOW, 0.0).items == [0]


def test_a_batch_that_is_too_large_is_halved_and_a_message_is_not():
    lane = known_lane()
    lane._settings = ClientSettings(linger_ms=1000)
    for number in range(3):
        lane.add(number, 1, 0.0)
    lane.close_open()
    lane.take(0.0)
    assert lane.refused(Refusal.TOO_LARGE, 0.0) is None
    lane.take(0.0)
    assert lane.refused(Refusal.TOO_LARGE, 0.0).items == [0]
    assert drained(lane) == [(1, [1, 2])]


def test_a_broker_that_has_forgotten_the_producer_is_given_a_new_one():
    lane = known_lane()
    in_flight(lane, 0, 1)
    lane.refused(Refusal.OUT_OF_ORDER, 0.0)
    lane.refused(Refusal.OUT_OF_ORDER, 0.0)
    assert lane.identity is None
    assert lane.was_identified
    lane.identify(Identity(8, 0))
    assert drained(lane) == [(0, [0]), (1, [1])]


@pytest.mark.parametrize("refusal", [Refusal.FOR_NOW, Refusal.TOO_LARGE, Refusal.FINAL])
def test_a_refusal_of_the_second_try_says_nothing_about_the_first(refusal):
    lane = known_lane()
    lane._settings = ClientSettings(linger_ms=1000)
    for number in range(2):
        lane.add(number, 1, 0.0)
    lane.close_open()
    lane.take(0.0)
    lane.lost()
    lane.take(0.0)
    failed = lane.refused(refusal, 0.0)
    if refusal is Refusal.FOR_NOW:
        assert drained(lane) == [(1, [0, 1])]
    else:
        assert failed.items == [0, 1]
        assert lane.identity is None  # its number may be taken


def test_giving_up_a_batch_that_may_be_stored_gives_up_its_producer():
    lane = known_lane()
    in_flight(lane, 0)
    lane.lost()
    assert [batch.items for batch in lane.expired(1e9)] == [[0]]
    assert lane.identity is None


def test_sequence_numbers_start_over():
    lane = known_lane()
    lane._next_sequence = lane._stored_to = (1 << 31) - 1
    in_flight(lane, 0, 1)
    lane.stored()
    lane.lost()
    assert drained(lane) == [(0, [1])]
    in_flight(lane, 2)
    assert lane.in_flight[0].first_sequence == 1


def test_what_waits_too_long_is_taken_out_and_what_is_in_flight_stays():
    lane = known_lane()
    in_flight(lane, 0)
    lane.add(1, 1, 3.0)
    lane.add(2, 1, 9.0)
    assert [batch.items for batch in lane.expired(5.0)] == [[1]]
    lane.lost()
    assert [batch.items for batch in lane.expired(5.0)] == [[0]]
    assert [batch.items for batch in lane.batches()] == [[2]]


# --- Against a broker that keeps only what a broker must ------------------------------------------


class DumbBroker:
    """Sequences as a broker sees them: the last five batches of each producer."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self._producers: dict[Identity, deque[tuple[int, int]]] = {}

    def append(self, identity: Identity, first: int, items: list[int]) -> bool:
        """Whether the batch is in the log, now or already."""
        known = self._producers.get(identity)
        if known is not None:
            if (first, len(items)) in known:
                return True
            if first != sum(known[-1]):
                return False
        self._producers.setdefault(identity, deque(maxlen=5)).append((first, len(items)))
        self.log += items
        return True

    def forget(self) -> None:
        self._producers.clear()


class Exchange(RuleBasedStateMachine):
    """One lane and one broker, with everything that can happen between them."""

    @initialize(most=st.integers(1, 4))
    def begin(self, most):
        self.lane = Lane(PLACE, ClientSettings(batch_messages=most, linger_ms=5, tries=3))
        self.broker = DumbBroker()
        self.now_s = 0.0
        self.added = 0
        self.told: list[int] = []
        """Acknowledged."""
        self.failed: set[int] = set()
        self.wire: deque[tuple[Any, ...]] = deque()
        """Requests that the broker has not seen, then its answers."""
        self.answers: deque[Refusal | None] = deque()
        self.identities = 0

    @rule(count=st.integers(1, 6))
    def add(self, count):
        for _ in range(count):
            self.lane.add(self.added, 1, self.now_s)
            self.added += 1

    @rule()
    def time_passes(self):
        self.now_s += 2.0

    @rule()
    def send(self):
        if self.lane.identity is None and self.lane.due_s() is not None:
            self.identities += 1
            self.lane.identify(Identity(self.identities, 0))
        batch = self.lane.take(self.now_s)
        if batch is not None:
            self.wire.append((batch.identity, batch.first_sequence, list(batch.items)))

    @precondition(lambda self: self.wire)
    @rule(mood=st.sampled_from(["fine", "fine", "fine", "busy", "never", "small"]))
    def broker_takes(self, mood):
        identity, first, items = self.wire.popleft()
        if mood == "small" and len(items) > 1:
            self.answers.append(Refusal.TOO_LARGE)
        elif mood == "busy":
            self.answers.append(Refusal.FOR_NOW)
        elif mood == "never":
            self.answers.append(Refusal.FINAL)
        elif self.broker.append(identity, first, items):
            self.answers.append(None)
        else:
            self.answers.append(Refusal.OUT_OF_ORDER)

    @precondition(lambda self: self.answers)
    @rule()
    def answer_arrives(self):
        answer = self.answers.popleft()
        if answer is None:
            self.told += self.lane.stored().items
        else:
            failed = self.lane.refused(answer, self.now_s)
            if failed is not None:
                self.failed |= set(failed.items)

    @rule(seen=st.integers(0, 5))
    def connection_breaks(self, seen):
        """The broker may have taken some of what was on its way; nobody hears of it."""
        for _ in range(min(seen, len(self.wire))):
            self.broker.append(*self.wire.popleft())
        self.wire.clear()
        self.answers.clear()
        self.lane.lost()

    @invariant()
    def nothing_is_stored_twice_or_out_of_order(self):
        if hasattr(self, "broker"):
            assert self.broker.log == sorted(set(self.broker.log))
            assert set(self.told) <= set(self.broker.log)
            assert len(self.told) == len(set(self.told))

    @invariant()
    def nothing_is_lost_on_the_way(self):
        if hasattr(self, "lane"):
            waiting = [item for batch in self.lane.batches() for item in batch.items]
            assert waiting == sorted(waiting)
            assert sorted({*waiting, *self.told, *self.failed}) == list(range(self.added))

    def teardown(self):
        if not hasattr(self, "lane"):
            return
        self.connection_breaks(0)
        self.lane.close_open()
        for _ in range(10_000):
            self.now_s += 2.0
            self.send()
            if not self.wire:
                break
            self.broker_takes("fine")
            self.answer_arrives()
        assert sorted({*self.told, *self.failed}) == list(range(self.added))
        assert set(range(self.added)) - self.failed <= set(self.broker.log)
        self.nothing_is_stored_twice_or_out_of_order()


TestExchange = Exchange.TestCase
TestExchange.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
