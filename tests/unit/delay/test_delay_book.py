"""What is known of delayed messages, against a dictionary that knows the same the slow way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.delays.book import DelayBook
from goqueue.delays.deltas import (
    Cut,
    Ended,
    Intent,
    ProducerGiven,
    Released,
    Settled,
    decode_delta,
    encode_delta,
    without_lost,
)
from goqueue.delays.entries import (
    CLASSES,
    MIDDLE_MS,
    NEAR_MS,
    WAITING_HEADER,
    DelayedState,
    Producer,
    Waiting,
    class_for,
    decode_waiting,
    encode_waiting,
    inner_id,
    make_id,
    public_id,
    split_id,
    unit_of,
)
from goqueue.delays.states import PAGE
from goqueue.model.errors import CorruptDelayStateError, DelayError

TOPICS = [bytes([number]) * 16 for number in range(3)]
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
IDS = st.lists(NUMBERS, max_size=5).map(tuple)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
EPOCHS = st.integers(0, (1 << 15) - 1)
DELTAS = st.one_of(
    st.builds(ProducerGiven, NUMBERS, EPOCHS),
    st.builds(Intent, NUMBERS, st.sampled_from(TOPICS), I32, NUMBERS, I32, IDS, EPOCHS),
    st.builds(Settled, IDS),
    st.builds(Released, IDS),
    st.builds(Ended, st.sampled_from(TOPICS), st.sampled_from(DelayedState), IDS),
    st.builds(Cut, st.integers(0, CLASSES - 1), NUMBERS),
)


class BookAndTwin(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.book = DelayBook()
        self.states, self.topic_of, self.intents = {}, {}, {}
        self.ends = [0] * CLASSES

    def _apply(self, delta):
        self.book.apply(decode_delta(*encode_delta(delta)))

    def _some(self, data, state=DelayedState.PENDING):
        topic = data.draw(st.sampled_from(TOPICS))
        ours = [
            each
            for each, known in self.states.items()
            if known is state and self.topic_of[each] == topic
        ]
        chosen = data.draw(st.lists(st.sampled_from(ours), unique=True)) if ours else []
        return topic, tuple(chosen)

    @rule(
        class_number=st.integers(0, CLASSES - 1),
        count=st.sampled_from([1, 3, PAGE - 1, PAGE, PAGE + 5]),
        topic=st.sampled_from(TOPICS),
        gap=st.sampled_from([0, 0, 0, 7]),
    )
    def add(self, class_number, count, topic, gap):
        first = self.ends[class_number] + gap
        self.book.add(class_number, first, count, topic)
        for offset in range(first, first + count):
            delayed_id = make_id(class_number, offset)
            self.states[delayed_id] = DelayedState.PENDING
            self.topic_of[delayed_id] = topic
        self.ends[class_number] = first + count

    @rule(data=st.data())
    def intend(self, data):
        topic, ids = self._some(data)
        intent = Intent(self.book.next_intent, topic, 0, 5, 9, ids)
        self._apply(intent)
        self.intents[intent.number] = intent
        self.states.update(dict.fromkeys(ids, DelayedState.DELIVERED))

    @rule(data=st.data(), settles=st.booleans())
    def decide(self, data, settles):
        numbers = sorted(self.intents)
        if not numbers:
            return
        number = data.draw(st.sampled_from(numbers))
        intent = self.intents.pop(number)
        self._apply(Settled((number,)) if settles else Released((number,)))
        if not settles:
            self.states.update(dict.fromkeys(intent.ids, DelayedState.PENDING))

    @rule(data=st.data(), state=st.sampled_from([DelayedState.CANCELLED, DelayedState.EXPIRED]))
    def end(self, data, state):
        topic, ids = self._some(data)
        self._apply(Ended(topic, state, ids))
        self.states.update(dict.fromkeys(ids, state))

    @rule(data=st.data())
    def end_what_is_over(self, data):
        topic, ids = self._some(data, DelayedState.CANCELLED)
        self._apply(Ended(topic, DelayedState.EXPIRED, ids))

    @rule()
    def restart_from_a_snapshot(self):
        again = DelayBook()
        again.load(list(self.book.dump()))
        assert (again.next_intent, again.totals) == (self.book.next_intent, self.book.totals)
        self.book = again

    @rule(class_number=st.integers(0, CLASSES - 1))
    def trim(self, class_number):
        lowest = self.book.lowest_needed()[class_number]
        self.book.forget_before(class_number, lowest)
        for delayed_id in [each for each in self.states if split_id(each) < (class_number, lowest)]:
            if split_id(delayed_id)[0] == class_number:
                del self.states[delayed_id], self.topic_of[delayed_id]

    @invariant()
    def they_know_the_same(self):
        self.book.check_invariants()
        pending = [each for each, state in self.states.items() if not state]
        assert self.book.pending_count == len(pending)
        assert self.book.intents == self.intents
        for topic in TOPICS:
            mine = [each for each in pending if self.topic_of[each] == topic]
            assert self.book.pending(topic) == len(mine)
            ranges = self.book.ranges_of(topic)
            assert sum(found.waiting for found in ranges) == len(mine)
            for class_number, offset in map(split_id, mine[:3]):
                assert any(
                    found.class_number == class_number and found.first <= offset < found.end
                    for found in ranges
                )
        for delayed_id in [*list(self.states)[:50], *list(self.states)[-50:]]:
            assert self.book.state(delayed_id) is self.states[delayed_id]
        lowest = self.book.lowest_needed()
        for delayed_id in [*pending, *(each for i in self.intents.values() for each in i.ids)]:
            class_number, offset = split_id(delayed_id)
            assert offset >= lowest[class_number]


BookAndTwin.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestBookAndTwin = BookAndTwin.TestCase


@given(delta=DELTAS)
def test_a_change_is_read_as_it_was_written(delta):
    assert decode_delta(*encode_delta(delta)) == delta


@pytest.mark.parametrize(
    ("key", "value"), [(b"?", b""), (b"I", b"short"), (b"E", b""), (b"T", b"12"), (b"P", b"1")]
)
def test_what_is_no_change_is_told_from_one(key, value):
    with pytest.raises(CorruptDelayStateError):
        decode_delta(key, value)


def test_what_was_said_of_lost_messages_is_not_taken_for_what_came_in_their_place():
    old, kept = make_id(0, 10), make_id(0, 9)
    deltas: list[Any] = [
        Intent(0, TOPICS[0], 0, 0, 0, (kept, old)),
        Ended(TOPICS[0], DelayedState.CANCELLED, (make_id(1, 50), make_id(0, 11))),
        Cut(0, 10),
        Ended(TOPICS[0], DelayedState.CANCELLED, (make_id(0, 12),)),
    ]
    assert list(without_lost(deltas)) == [
        Intent(0, TOPICS[0], 0, 0, 0, (kept,)),
        Ended(TOPICS[0], DelayedState.CANCELLED, (make_id(1, 50),)),
        Ended(TOPICS[0], DelayedState.CANCELLED, (make_id(0, 12),)),
    ]


def test_unknown_ids_have_no_state():
    book = DelayBook()
    book.add(0, 0, 3, TOPICS[0])
    assert book.state(make_id(0, 2)) is DelayedState.PENDING
    for unknown in (make_id(0, 3), make_id(1, 0), 3, 7, -1, -4):
        assert book.state(unknown) is None
        assert not book.is_pending(unknown)


@given(
    st.builds(
        Waiting,
        st.binary(min_size=16, max_size=16),
        I32,
        NUMBERS,
        st.none()
        | st.builds(Producer, NUMBERS, EPOCHS, I32, I32, st.just(-1), st.just(-1))
        | st.builds(Producer, NUMBERS, EPOCHS, I32, I32, st.integers(0, 1000), NUMBERS),
    )
)
def test_where_a_message_goes_is_read_as_it_was_written(waiting):
    header = (WAITING_HEADER, encode_waiting(waiting))
    assert decode_waiting((header, ("other", b"x"))) == waiting


@pytest.mark.parametrize(
    "headers", [(), (("other", b""),), ((WAITING_HEADER, None),), ((WAITING_HEADER, b"short"),)]
)
def test_a_record_that_says_nothing_of_where_it_goes_is_none_of_ours(headers):
    with pytest.raises(DelayError):
        decode_waiting(headers)


def test_messages_are_kept_with_those_that_wait_as_long():
    assert [class_for(ms) for ms in (0, NEAR_MS - 1, NEAR_MS, MIDDLE_MS - 1, MIDDLE_MS)] == [
        *(0, 0),
        *(1, 1),
        2,
    ]
    assert split_id(make_id(2, 77)) == (2, 77)


@given(st.integers(0, 255), st.integers(0, CLASSES - 1), st.integers(0, 1 << 50))
def test_an_id_leads_to_its_unit(unit, class_number, offset):
    inner = make_id(class_number, offset)
    public = public_id(unit, inner)
    assert (unit_of(public), inner_id(public)) == (unit, inner)
    assert unit or public == inner
