"""Lanes alone: when batches are due, which order they keep, and that none goes twice."""

from __future__ import annotations

import random
from collections import deque
from typing import Any, cast

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.client.producing.lanes import _MAX_IN_FLIGHT, Batch, Identity, Lane, Refusal
from goqueue.client.settings import ClientSettings
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import decode_rows
from goqueue.records.compression import Compression
from support.effort import examples

PLACE = TopicPartition("t", 0)
ME = Identity(7, 0)


class NumberLane(Lane):
    """A lane of numbers, which closes its batches when they have as many as the settings say."""

    def add(self, number: int, now_s: float) -> bool:
        """Put a number in; whether a batch is closed by it."""
        batch = self.open or self.begin(now_s)
        batch.add(str(number), None, None, number)
        is_full = batch.builder.count >= self._settings.batch_messages
        if is_full or not self._settings.linger_ms:
            self.close_open()
            return True
        return False

    def add_wrong(self, now_s: float) -> None:
        """Try to put something in that is no message."""
        self.begin(now_s).add(cast("Any", 3.5), None, None, 0)

    def take(self, now_s: float) -> Batch | None:
        """The next batch, sealed as it goes to the broker."""
        batch = super().take(now_s)
        if batch is not None:
            batch.seal(Compression.NONE, 0)
        return batch


def numbers(batch: Batch) -> list[int]:
    """What is in a batch, as it goes to the broker."""
    data = bytes(batch.data) if batch.builder is None else _peeked(batch)
    return [record.timestamp_ms for record in decode_rows(data)]


def _peeked(batch: Batch) -> bytes:
    """Of one that is not sealed: sealed as nobody's, which it forgets when it is sent."""
    return bytes(batch.seal(Compression.NONE, 0))


def lane_of(**options) -> NumberLane:
    lane = NumberLane(PLACE, ClientSettings(**options))
    lane.identify(ME)
    return lane


def known_lane(**options) -> NumberLane:
    """A lane whose producer the broker has heard of."""
    lane = lane_of(linger_ms=0, **options)
    lane.add(-1, 0.0)
    lane.take(0.0)
    lane.stored()
    return lane


# --- When a batch is sent -------------------------------------------------------------------------


def test_a_full_batch_is_sent_at_once():
    lane = lane_of(batch_messages=3)
    assert [lane.add(number, 0.0) for number in range(3)] == [False, False, True]
    assert numbers(lane.take(0.0)) == [0, 1, 2]


def test_a_batch_is_sent_when_its_first_message_has_waited():
    lane = lane_of(linger_ms=5)
    lane.add(0, 10.0)
    lane.add(1, 10.004)
    assert lane.due_s() == pytest.approx(10.005)
    assert lane.take(10.0049) is None
    assert numbers(lane.take(10.0051)) == [0, 1]


def test_without_lingering_every_message_goes_alone():
    lane = lane_of(linger_ms=0)
    assert lane.add(0, 0.0)
    assert numbers(lane.take(0.0)) == [0]


def test_a_flush_sends_what_is_there():
    lane = lane_of(linger_ms=1000)
    lane.add(0, 0.0)
    lane.close_open()
    assert numbers(lane.take(0.0)) == [0]


def test_a_batch_whose_first_message_was_refused_is_dropped():
    lane = lane_of(linger_ms=5)
    with pytest.raises(TypeError):
        lane.add_wrong(0.0)
    assert lane.take(1.0) is None
    assert lane.is_idle
    lane.add(1, 1.0)
    assert numbers(lane.take(2.0)) == [1]


def test_only_as_many_batches_are_in_flight_as_a_broker_remembers():
    lane = known_lane()
    for number in range(10):
        lane.add(number, 0.0)
    taken = [lane.take(0.0) for _ in range(10)]
    assert [numbers(batch) for batch in taken if batch] == [[n] for n in range(_MAX_IN_FLIGHT)]
    lane.stored()
    assert numbers(lane.take(0.0)) == [_MAX_IN_FLIGHT]


def test_the_first_batch_of_a_producer_goes_alone():
    lane = lane_of(linger_ms=0)
    lane.add(0, 0.0)
    lane.add(1, 0.0)
    assert numbers(lane.take(0.0)) == [0]
    assert lane.take(0.0) is None
    lane.stored()
    assert numbers(lane.take(0.0)) == [1]


# --- Refusals and losses --------------------------------------------------------------------------


def in_flight(lane: NumberLane, *numbers: int) -> None:
    for number in numbers:
        lane.add(number, 0.0)
        lane.take(0.0)


def drained(lane: NumberLane) -> list[tuple[int, list[int]]]:
    found = []
    while (batch := lane.take(1e9)) is not None:
        found.append((batch.first_sequence, numbers(batch)))
        lane.stored()
    return found


def test_a_lost_connection_sends_the_same_numbers_again():
    lane = known_lane()
    in_flight(lane, 0, 1, 2)
    lane.stored()
    lane.lost()
    assert drained(lane) == [(2, [1]), (3, [2])]


def test_behind_a_batch_that_is_not_stored_none_is_in_doubt():
    lane = known_lane()
    in_flight(lane, 0, 1, 2, 3)
    lane.lost()
    for _ in range(4):
        lane.take(0.0)
    lane.refused(Refusal.FOR_NOW, 0.0)  # the first may be stored, or not
    lane.refused(Refusal.OUT_OF_ORDER, 0.0)  # the second is not
    lane.lost()  # so neither are those behind it
    assert drained(lane) == [(1, [0]), (2, [1]), (3, [2]), (4, [3])]


def test_what_is_refused_for_good_leaves_no_hole_in_the_numbers():
    lane = known_lane()
    in_flight(lane, 0, 1, 2)
    assert numbers(lane.refused(Refusal.FINAL, 0.0)) == [0]
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
    assert numbers(lane.refused(Refusal.FOR_NOW, 0.0)) == [0]


def test_a_batch_that_is_too_large_is_halved_and_a_message_is_not():
    lane = known_lane()
    lane._settings = ClientSettings(linger_ms=1000)
    for number in range(3):
        lane.add(number, 0.0)
    lane.close_open()
    lane.take(0.0)
    assert lane.refused(Refusal.TOO_LARGE, 0.0) is None
    lane.take(0.0)
    assert numbers(lane.refused(Refusal.TOO_LARGE, 0.0)) == [0]
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
        lane.add(number, 0.0)
    lane.close_open()
    lane.take(0.0)
    lane.lost()
    lane.take(0.0)
    failed = lane.refused(refusal, 0.0)
    if refusal is Refusal.FOR_NOW:
        assert drained(lane) == [(1, [0, 1])]
    else:
        assert numbers(failed) == [0, 1]
        assert lane.identity is None  # its number may be taken


def test_giving_up_a_batch_that_may_be_stored_gives_up_its_producer():
    lane = known_lane()
    in_flight(lane, 0)
    lane.lost()
    assert [numbers(batch) for batch in lane.expired(1e9)] == [[0]]
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
    lane.add(1, 3.0)
    lane.add(2, 9.0)
    assert [numbers(batch) for batch in lane.expired(5.0)] == [[1]]
    lane.lost()
    assert [numbers(batch) for batch in lane.expired(5.0)] == [[0]]
    assert [numbers(batch) for batch in lane.batches()] == [[2]]


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
        self.lane = NumberLane(PLACE, ClientSettings(batch_messages=most, linger_ms=5, tries=3))
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
            self.lane.add(self.added, self.now_s)
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
            self.wire.append((batch.identity, batch.first_sequence, numbers(batch)))

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
            self.told += numbers(self.lane.stored())
        else:
            failed = self.lane.refused(answer, self.now_s)
            if failed is not None:
                self.failed |= set(numbers(failed))

    @rule(seen=st.integers(0, 5))
    def connection_breaks(self, seen):
        """The broker may have taken some of what was on its way; nobody hears of it."""
        for _ in range(min(seen, len(self.wire))):
            self.broker.append(*self.wire.popleft())
        self.wire.clear()
        self.answers.clear()
        self.lane.lost()

    def contents(self, batch):
        """Of any batch; the one that is being filled is not to be closed for that."""
        if batch is not self.lane.open:
            return numbers(batch)
        return list(range(self.added - batch.builder.count, self.added))

    @invariant()
    def nothing_is_stored_twice_or_out_of_order(self):
        if hasattr(self, "broker"):
            assert self.broker.log == sorted(set(self.broker.log))
            assert set(self.told) <= set(self.broker.log)
            assert len(self.told) == len(set(self.told))

    @invariant()
    def nothing_is_lost_on_the_way(self):
        if hasattr(self, "lane"):
            waiting = [item for batch in self.lane.batches() for item in self.contents(batch)]
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
TestExchange.settings = settings(max_examples=examples(150), stateful_step_count=40)


def test_a_batch_that_compression_would_make_too_large_is_not_compressed():
    lane = lane_of(linger_ms=0)
    batch = lane.begin(0.0)
    batch.add(random.Random(1).randbytes(MAX_BATCH_BYTES - 200), None, None, 0)
    lane.close_open()
    batch = Lane.take(lane, 0.0)
    assert batch is not None
    assert len(batch.seal(Compression.GZIP, 0)) == batch.size_bytes
